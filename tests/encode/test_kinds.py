"""The kind of a column follows from its name, type and cells alone, and doubtful kinds are said."""

import shlex
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet
from tables import Capsule, OneBatch, spec_of

from rafm import DataWarning, TableSpec
from rafm.encode.encoder import TableEncoder
from rafm.encode.table_blocks import SAMPLE_ROWS
from rafm.errors import DataValueError
from rafm.read.frames import as_table, is_frame
from rafm.read.open import read_table

KIND_OF = {"whole": "category", "fraction": "bins", "text": "category", "flag": "category", "count": "bins"}
CELLS = {
    "whole": st.integers(-100, 100),
    "count": st.integers(0, 100),
    "fraction": st.floats(-100, 100).map(lambda x: float(np.floor(x) + 0.5)),
    "text": st.sampled_from(["ham", "spam", "eggs and ham"]),
    "flag": st.booleans(),
}
WIDTHS = {
    "whole": (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(9, 2)),
    "count": (pa.int8(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64()),
    "fraction": (pa.float32(), pa.float64(), pa.decimal128(9, 2)),
    "text": (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())),
    "flag": (pa.bool_(),),
}


def written(table, folder, name, write):
    write(table, folder / name)
    return read_table(folder / name)


CONTAINERS = {
    "arrow": lambda table, _: table,
    "arrow in chunks": lambda table, _: pa.concat_tables([table[:1], table[1:]]),
    "batch": lambda table, _: table.combine_chunks().to_batches()[0],
    "pandas": lambda table, _: as_table(table.to_pandas()),
    "pandas with nullable types": lambda table, _: as_table(table.to_pandas().convert_dtypes()),
    "pandas objects": lambda table, _: as_table(table.to_pandas().astype(object)),
    "polars": lambda table, _: as_table(pl.from_arrow(table)),
    "polars lazy": lambda table, _: as_table(pl.from_arrow(table).lazy()),
    "narwhals": lambda table, _: as_table(nw.from_native(table)),
    "capsule": lambda table, _: as_table(Capsule(table)),
    "one batch": lambda table, _: as_table(OneBatch(table)),
    "csv": lambda table, folder: written(table, folder, "t.csv", csv.write_csv),
    "parquet": lambda table, folder: written(table, folder, "t.parquet", parquet.write_table),
}


def kinds_of(batches, spec=None):
    return {column.name: column.kind for column in TableEncoder.learn(batches, spec).columns}


def column_of(sort, cells, width):
    """Return cells as an Arrow array of some type."""
    if pa.types.is_dictionary(width):
        return pa.array(cells, pa.string()).dictionary_encode()
    if sort == "text":  # not by a cast to views: polars crashes on what it leaves behind in Arrow 18
        return pa.array(cells, width)
    array = pa.array(cells, pa.bool_() if sort == "flag" else pa.float64())
    return array.cast(width, safe=False)


@st.composite
def columns(draw, n_rows):
    """Return (name, sort, cells, type) of one column; the first cell of each pair shows what the column is."""
    sort = draw(st.sampled_from(sorted(CELLS)))
    cells = draw(st.lists(st.none() | CELLS[sort], min_size=n_rows, max_size=n_rows))
    cells[0] = {"whole": 7, "count": 7, "fraction": 0.5, "text": "ham", "flag": True}[sort]
    name = "n_visits" if sort == "count" else draw(st.sampled_from(["x", "user", "store", "sku", "price_band"]))
    return name, sort, cells, draw(st.sampled_from(WIDTHS[sort]))


def plain(kind):
    """Return text instead of a type that CSV has no way to write."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return kind if any(test(kind) for test in tests) else pa.string()


@examples(1.5)
@given(data=st.data(), container=st.sampled_from(sorted(CONTAINERS)), n_rows=st.integers(2, 12))
def test_a_kind_depends_on_nothing_but_the_column(data, container, n_rows, tmp_path_factory):
    found = data.draw(st.lists(columns(n_rows), min_size=1, max_size=4, unique_by=lambda column: column[0]))
    order = data.draw(st.permutations(range(n_rows)))
    table = pa.table({name: column_of(sort, [cells[i] for i in order], width) for name, sort, cells, width in found})
    folder, given = tmp_path_factory.mktemp("kinds"), table
    if container == "csv":  # which has no text views, and writes neither categories nor decimals as such
        given = table.cast(pa.schema([(field.name, plain(field.type)) for field in table.schema]))
    expected = {name: KIND_OF[sort] for name, sort, *_ in found}
    assert kinds_of(CONTAINERS[container](given, folder)) == expected
    for name, kind in expected.items():
        assert kinds_of(table.select([name])) == {name: kind}


# Files, of which only the first rows decide


def late(cell, n_rows=SAMPLE_ROWS):
    """Yield batches of a column of whole floats whose last cell differs."""
    yield pa.record_batch({"x": np.arange(n_rows) % 5.0})
    yield pa.record_batch({"x": np.array([1.0, cell])})


def test_a_fraction_after_the_sample_of_a_file_is_refused_and_not_taken_for_a_category():
    message = f"column 'x', row {SAMPLE_ROWS + 2}: the rows before have only whole numbers, found 0.5; set the kind"
    with pytest.raises(DataValueError, match=message):
        TableEncoder.learn(late(0.5))
    assert kinds_of(late(2.0)) == {"x": "category"}
    assert kinds_of(late(0.5), spec_of(x="category")) == {"x": "category"}
    assert kinds_of(pa.Table.from_batches(late(0.5))) == {"x": "bins"}  # in memory, all rows decide


def test_small_batches_are_sampled_together():
    batches = [pa.record_batch({"x": [1.0]}), pa.record_batch({"x": [0.5]})]
    assert kinds_of(iter(batches)) == {"x": "bins"}


def test_kinds_and_reasons_are_told_of_given_columns_too():
    told = []
    table = pa.table({"store": [7, 8], "price": [1, 2], "size": [1, 2]})
    TableEncoder.learn(table, spec_of(size="number"), told.append)
    assert told == [
        "size    int64   number     as given\n"
        "store   int64   category   whole numbers\n"
        "price   int64   bins       whole numbers, named like a quantity"
    ]


# Doubts


def test_many_whole_numbers_without_a_telling_name_are_doubtful():
    numbers = np.tile(np.arange(101), 2)
    table = pa.table(
        {"a": numbers, "b": numbers.astype(float), "few": numbers % 100, "userId": numbers, "age": numbers}
    )
    with pytest.warns(DataWarning) as caught:
        TableEncoder.learn(table)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message) == (
        "encoded as categories, like ids: 'a' (101 different whole numbers), 'b' (101 different whole numbers). If "
        "one is a quantity, set its kind: columns={'a': 'bins', 'b': 'bins'}; if not, set it to \"category\""
    )
    assert "set its kind: --column a=bins --column b=bins; if not" in warning.message.in_flags()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder.learn(table, spec_of(a="category", b="bins"))
        TableEncoder.learn(table, TableSpec(columns=spec_of(a="category").columns, others="ignore"))


def test_a_one_hot_encoded_table_is_told_that_it_need_not_be():
    table = pd.get_dummies(pd.DataFrame({"x": [f"v{i}" for i in range(20)]}))
    with pytest.warns(DataWarning, match="20 columns have only two values, like one-hot encoded"):
        TableEncoder.learn(as_table(table))
    with pytest.warns(DataWarning, match="20 columns have only two values"):
        TableEncoder.learn(as_table(table.astype(float)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TableEncoder.learn(as_table(table.iloc[:, :19]))


# What is a table


def test_whatever_exports_arrow_data_is_a_frame_but_a_single_column_is_not():
    table = pa.table({"a": [1]})
    frames = (
        table,
        table.to_batches()[0],
        Capsule(table),
        OneBatch(table),
        pl.from_arrow(table),
        nw.from_native(table),
    )
    assert all(map(is_frame, (*frames, pl.from_arrow(table).lazy(), table.to_pandas())))
    columns = (pa.array([1]), pa.chunked_array([[1]]), pd.Series([1]), pl.Series([1]))
    assert not any(map(is_frame, columns))


def test_an_object_that_exports_a_single_column_is_refused():
    with pytest.raises(DataValueError, match="the table cannot be read"):
        as_table(Capsule(pa.chunked_array([[1, 2]])))


# Columns that identify rows


def keyed(n_rows, n_values):
    """Return a table of a column of different values, and one that repeats."""
    return pa.table({"key": [f"k{row % n_values}" for row in range(n_rows)], "city": ["Rome", "Oslo"] * (n_rows // 2)})


def test_a_column_with_a_value_of_its_own_in_nearly_every_row_is_told():
    with pytest.warns(DataWarning, match="nearly every row has a different value in column 'key'.*{'key': 'ignore'}"):
        TableEncoder.learn(keyed(200, 180))


@pytest.mark.parametrize(
    ("table", "spec"),
    [
        pytest.param(keyed(200, 179), None, id="some values recur"),
        pytest.param(keyed(100, 100), None, id="too few rows to tell"),
        pytest.param(keyed(200, 200), TableSpec.from_dict({"columns": {"key": {"kind": "category"}}}), id="asked for"),
        pytest.param(keyed(200, 200), TableSpec.from_dict({"columns": {"key": {"kind": "ignore"}}}), id="ignored"),
    ],
)
def test_no_word_about_keys(table, spec):
    TableEncoder.learn(table, spec)  # warnings are errors


def reviews(n_rows, n_different):
    """Return texts of four words, all words of which recur."""
    words = ["good", "bad", "odd", "old", "new", "red", "big", "shy"]
    texts = [" ".join(words[(k >> (3 * at)) % 8] for at in range(4)) for k in range(n_different)]
    return [texts[k % n_different] for k in range(n_rows)]


@pytest.mark.parametrize("n_different", [100, 200])
def test_prose_is_advised_to_be_a_list_of_words_and_never_to_be_left_out(n_different):  # case 133
    table = pa.table({"review": reviews(200, n_different), "id": [f"a{k}" for k in range(200)]})
    with pytest.warns(DataWarning) as caught:
        TableEncoder.learn(table)
    [prose, keys] = [warning.message for warning in caught]
    kinds = {"review": {"kind": "list", "separator": " "}}
    assert "column 'review': text of several words" in str(prose)
    assert str(prose).endswith(f"set its kind: columns={kinds}")
    assert prose.in_flags().endswith("--column 'review=list: '")
    assert keys.kinds == {"id": "ignore"}
    [flag] = shlex.split(prose.in_flags())[-1:]
    by_flag, by_dict = TableSpec.from_arguments([flag]), TableSpec.from_dict({"columns": kinds})
    assert by_flag == by_dict
    assert TableEncoder.learn(table.select(["review"]), by_dict).feature_names()[:2] == ["review=bad", "review=big"]


@pytest.mark.parametrize(
    "texts",
    [reviews(200, 99), reviews(100, 100), ["New York", "Los Angeles"] * 100],
    ids=["recurring", "few rows", "names of two words"],
)
def test_texts_that_recur_or_are_few_are_no_prose(texts):  # case 133
    TableEncoder.learn(pa.table({"review": texts}))


DATES = {
    "day first": (["31/12/2014", "01/02/2014"], "%d/%m/%Y"),
    "month first": (["01/02/2014", "12/31/2014"], "%m/%d/%Y"),
    "either": (["01/02/2014", "02/03/2014"], "%d/%m/%Y"),
    "points and a time": (["31.12.2014 08:30", "1.2.2014 23:59"], "%d.%m.%Y %H:%M"),
}


@pytest.mark.parametrize("case", DATES)
def test_dates_with_the_year_last_are_said_with_their_format(case):  # case 136
    texts, format = DATES[case]
    table = pa.table({"day": [*texts, None]})
    with pytest.warns(DataWarning, match="column 'day' looks like dates, such as .*; if they are dates") as caught:
        assert TableEncoder.learn(table).columns[0].kind == "category"
    [flag] = shlex.split(caught[0].message.in_flags())[-1:]
    assert flag == f"day=datetime:{format}"
    assert TableEncoder.learn(table, TableSpec.from_arguments([flag])).columns[0].kind == "datetime"
    with pytest.raises(DataValueError, match=r"column 'day', row 1: expected a time .*; set its format: columns="):
        TableEncoder.learn(table, spec_of(day="datetime"))


@pytest.mark.parametrize("cells", [["3,14", "2", None, "-0,5"], ["1,000", "2,500"]], ids=["decimal", "thousands"])
def test_numbers_with_commas_are_said(cells):  # case 136
    with pytest.warns(DataWarning, match=r"column 'x' is text, because its numbers have commas, such as .*decimal=','"):
        TableEncoder.learn(pa.table({"x": cells}))


def test_texts_that_only_begin_like_dates_or_numbers_are_no_news():  # case 136
    cells = {
        "date": ["31/12/2014", "n/a"],
        "number": ["3,14", "x"],
        "list": ["1,2,3", "4"],
        "text": ["a,b", "c"],
        "code": ["007", "12"],
    }
    TableEncoder.learn(pa.table(cells))


@pytest.mark.parametrize("bad", ["soon", "2014-13-01", "2014-02-30", "2014-10-21T25:00"])
def test_one_bad_date_makes_text_and_a_warning_as_one_bad_number_does(bad):
    for cells in ([f"2014-10-{k % 28 + 1:02d}" for k in range(40)], [f"{k}.5" for k in range(40)]):
        cells[7] = bad
        with pytest.warns(DataWarning, match=r"column 'x', row 8: .* is not a (date|number), unlike 39 of 40 cells"):
            assert TableEncoder.learn(pa.table({"x": cells})).columns[0].kind == "category"
