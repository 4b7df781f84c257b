"""A specification is read from files and arguments, says what is wrong with it, and is completed by good choices."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from rafm.encode.infer import choose_kinds, describe_choices
from rafm.encode.spec import ColumnSpec, TableSpec
from rafm.errors import ConfigError, DataValueError

TOML = """
label = "clicked"
min_count = 5
rare = "drop"
missing = "error"
others = "ignore"

[columns]
user_id = "category"
price = { kind = "bins", n_bins = 20 }
hour = { kind = "datetime", format = "%y%m%d%H" }
genres = { kind = "list", separator = "|", scale = "1/sqrt(n)" }
agent = { kind = "category", hash_size = 1000 }
"""
SPEC = TableSpec(
    columns=(
        ColumnSpec("user_id"),
        ColumnSpec("price", "bins", n_bins=20),
        ColumnSpec("hour", "datetime", format="%y%m%d%H"),
        ColumnSpec("genres", "list", separator="|", scale="1/sqrt(n)"),
        ColumnSpec("agent", "category", hash_size=1000),
    ),
    label="clicked",
    min_count=5,
    rare="drop",
    missing="error",
    others="ignore",
)


def read(tmp_path, text):
    (tmp_path / "columns.toml").write_text(text, encoding="utf-8")
    return TableSpec.from_toml(tmp_path / "columns.toml")


# Reading


def test_a_file_gives_the_specification_it_describes(tmp_path):
    assert read(tmp_path, TOML) == SPEC


def test_a_specification_comes_back_from_its_dict():
    assert TableSpec.from_dict(SPEC.to_dict()) == SPEC
    assert TableSpec().to_dict() == {}
    assert TableSpec.from_dict({}) == TableSpec()


def test_arguments_of_a_command_give_kinds_and_their_first_setting():
    spec = TableSpec.from_arguments(
        ["user_id=category", "agent=category:1000", "price=bins:20", "hour=datetime:%H:%M", "genres=list:|"],
        label="clicked",
        weight=None,
        min_count=None,
    )
    assert spec.label == "clicked"
    assert spec.min_count == 1
    assert spec.columns == (
        ColumnSpec("user_id"),
        ColumnSpec("agent", hash_size=1000),
        ColumnSpec("price", "bins", n_bins=20),
        ColumnSpec("hour", "datetime", format="%H:%M"),
        ColumnSpec("genres", "list", separator="|"),
    )


# What is wrong


WRONG = {
    "unknown setting": ("lable = 'y'", "unknown setting 'lable'; did you mean 'label'"),
    "unknown setting, nothing near": ("zzz = 1", "unknown setting 'zzz'; choose from columns, label"),
    "unknown kind": ("[columns]\nx = 'categry'", "unknown kind of column 'x' 'categry'; did you mean 'category'"),
    "unknown setting of a column": (
        "[columns]\nx = {kind = 'bins', bins = 3}",
        "unknown setting of column 'x' 'bins'; did you mean 'n_bins'",
    ),
    "setting of another kind": (
        "[columns]\nx = {kind = 'number', n_bins = 3}",
        "n_bins is a setting of bins, not of number",
    ),
    "one bin": ("[columns]\nx = {kind = 'bins', n_bins = 1}", "column 'x': n_bins must be a whole number from 2 to"),
    "bins as text": ("[columns]\nx = {kind = 'bins', n_bins = '3'}", "n_bins must be a whole number"),
    "unknown scale": ("[columns]\nx = {kind = 'list', scale = 'mean'}", 'scale must be "1" or "1/n" or'),
    "empty separator": ("[columns]\nx = {kind = 'list', separator = ''}", "separator must be text"),
    "format as a number": ("[columns]\nx = {kind = 'datetime', format = 3}", "format must be text, found 3"),
    "column as a number": ("[columns]\nx = 3", "column 'x' must be a kind or a table of settings, found 3"),
    "columns as a list": ("columns = ['x']", "columns must be a table from names to kinds"),
    "min_count of 0": ("min_count = 0", "min_count must be a whole number from 1 to"),
    "min_count true": ("min_count = true", "min_count must be a whole number"),
    "negative hash size": ("hash_size = -1", "hash_size must be a whole number from 0 to"),
    "unknown rare": ("rare = 'keep'", 'rare must be "shared" or "drop", found \'keep\''),
    "unknown missing": ("missing = 'mean'", 'missing must be "feature" or "error"'),
    "unknown others": ("others = 'drop'", 'others must be "auto" or "ignore"'),
    "label as a number": ("label = 3", "label must be the name of a column, found 3"),
    "hash and count": (
        "hash_size = 10\nmin_count = 2",
        "hashed values are not counted: choose either hash_size or min_count",
    ),
    "clicks alone": ("clicks = 'c'", "clicks and impressions must be given together"),
    "clicks and a label": ("clicks = 'c'\nimpressions = 'i'\nlabel = 'y'", "replace label and weight"),
    "one column twice": ("label = 'y'\nweight = 'y'", "must be different columns"),
    "label as a feature": (
        "label = 'y'\n[columns]\ny = 'number'",
        "column 'y' is a label or weight and cannot also be a feature",
    ),
    "no TOML": ("label = ", "not TOML: Invalid value"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_in_a_file_is_said_with_its_name(case, tmp_path):
    text, message = WRONG[case]
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'columns.toml'}: ")
    assert message in str(caught.value)


def test_bytes_that_are_no_text_are_no_specification(tmp_path):
    (tmp_path / "columns.toml").write_bytes(b"label = '\xff'")
    with pytest.raises(ConfigError, match="not TOML"):
        TableSpec.from_toml(tmp_path / "columns.toml")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("price", 'must be given as "name=kind"'),
        ("=bins", 'must be given as "name=kind"'),
        ("price=bin", "did you mean 'bins'"),
        ("price=number:3", "kind number has no settings, found '3'"),
        ("price=bins:many", "n_bins must be a whole number"),
        ("genres=list:", "separator must be text"),
    ],
)
def test_what_is_wrong_in_an_argument_is_said(argument, message):
    with pytest.raises(ConfigError, match=message):
        TableSpec.from_arguments([argument])


def test_an_unknown_setting_in_arguments_and_a_column_given_twice_are_refused():
    with pytest.raises(ConfigError, match="did you mean 'label'"):
        TableSpec.from_arguments(lable="y")
    with pytest.raises(ConfigError, match="column 'x' is given twice"):
        TableSpec.from_arguments(["x=category", "x=number"])
    with pytest.raises(ConfigError, match="name must be text, found 3"):
        ColumnSpec(3)


# Choosing kinds


rng = np.random.default_rng(0)
CHOICES = {
    "text": (pa.array(["a", "b"]), "x", "category"),
    "bytes": (pa.array([b"a", b"b"]), "x", "category"),
    "categories": (pa.array(["a|b", "b"]).dictionary_encode(), "x", "category"),
    "true or false": (pa.array([True, False]), "x", "category"),
    "nothing": (pa.nulls(2), "x", "category"),
    "fractions": (pa.array([0.5, 1.0]), "x", "bins"),
    "infinite numbers, refused later": (pa.array([1.0, float("inf")]), "x", "bins"),
    "ids by name": (pa.array(np.arange(10_000)), "user_id", "category"),
    "ids in camel case": (pa.array(np.arange(10_000)), "userId", "category"),
    "ids in one word": (pa.array(np.arange(10_000)), "movie", "category"),
    "no known name": (pa.array(np.arange(10_000)), "paid", "category"),
    "a quantity": (pa.array(np.arange(10_000)), "unit_price", "bins"),
    "a quantity in camel case": (pa.array(np.arange(10_000)), "unitPrice", "bins"),
    "a number of things": (pa.array([3, 4, 5]), "n_items", "bins"),
    "groups of a quantity": (pa.array(np.arange(10_000)), "age_group", "category"),
    "a quantity of 0 and 1": (pa.array([0, 1, 1]), "visits", "category"),
    "numbers of 16 digits, which text readers take for text": (pa.array([10**15, 1]), "time", "category"),
    "few whole numbers": (pa.array([1, 2, 3] * 100), "x", "category"),
    "few whole numbers of which some are missing": (pa.array([1.0, 2.0, None] * 100), "x", "category"),
    "few fractions": (pa.array([0.5, 1.0] * 100), "x", "bins"),
    "a late fraction": (pa.chunked_array([[1.0] * 200_000, [2.0, 0.5]]), "x", "bins"),
    "many whole numbers": (pa.array(rng.integers(0, 1000, 2000)), "x", "category"),
    "whole floats": (pa.array([30.0, 40.0, None]), "x", "category"),
    "whole decimals": (pa.array([decimal.Decimal("3.00"), None]), "x", "category"),
    "times as categories": (pa.array([0], pa.timestamp("s")).dictionary_encode(), "x", "category"),
    "numbers as categories": (pa.array([0.5, 1.5]).dictionary_encode(), "x", "category"),
    "missing floats": (pa.array([None, float("nan")], pa.float64()), "x", "category"),
    "dates": (pa.array([datetime.date(2020, 1, 1)]), "x", "datetime"),
    "times": (pa.array([0], pa.timestamp("s")), "x", "datetime"),
    "text of times": (pa.array(["2014-10-21T08:00", None, "2014-10-22 09:00:01"]), "x", "datetime"),
    "text of one time": (pa.array(["2014-10-21T08:00", "soon"]), "x", "category"),
    "lists": (pa.array([["a"], []]), "x", "list"),
    "text of lists": (pa.array(["a|b", "c|d|e", "f"]), "x", "list"),
    "text of times but for a late one": (pa.chunked_array([["2014-10-21"] * 2000, ["soon"]]), "x", "category"),
    "text of lists after others": (pa.chunked_array([["a"] * 2000, ["a|b"] * 2000]), "x", "list"),
    "no rows": (pa.array([], pa.int64()), "x", "category"),
}


@pytest.mark.parametrize("case", CHOICES)
def test_the_kind_chosen_suits_the_column(case):
    cells, name, kind = CHOICES[case]
    table = pa.table({name: cells})
    (choice,) = choose_kinds(table.schema, table)
    assert choice.column.kind == kind
    assert choice.type == str(cells.type)
    assert choice.reason


def test_choices_are_told_one_line_each_in_columns():
    table = pa.table({"user_id": [7, 8], "p": [1.5, 2.5]})
    told = describe_choices(choose_kinds(table.schema, table))
    assert told.split("\n") == [
        "user_id   int64    category   whole numbers",
        "p         double   bins       has fractions",
    ]


def test_a_type_that_cannot_be_encoded_is_refused_by_name():
    table = pa.table({"odd": pa.array([{"a": 1}])})
    with pytest.raises(
        DataValueError, match="column 'odd' has type struct<a: int64>, which is not supported; convert it to text"
    ):
        choose_kinds(table.schema, table)
