"""The Python program needs the standard library alone and predicts as rafm does, from ids and from raw values."""

import ast
import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from models import WORLDS, as_batch, rows_of_ids, saved_world

from rafm import RaFMClassifier
from rafm.encode.casts import as_text
from rafm.encode.strings import hash_buckets
from rafm.errors import ConfigError
from rafm.export import program as source
from rafm.export.export import export
from rafm.model.file import Saved, load


def loaded(saved, folder):
    """Export a model and run its text as a module."""
    export(saved, "python", folder / "model.py")
    names = {"__name__": "model"}
    exec(compile((folder / "model.py").read_text(), "model.py", "exec"), names)
    return names


@pytest.fixture(scope="module", params=WORLDS)
def world(request, tmp_path_factory):
    saved = saved_world(request.param)
    return saved, loaded(saved, tmp_path_factory.mktemp("python"))


@examples(0.2)
@given(data=st.data())
def test_rows_of_ids_are_predicted_as_by_the_model(world, data):
    saved, names = world
    rows = data.draw(st.lists(rows_of_ids(saved.model), min_size=1, max_size=5))
    found = [names["predict"](row) for row in rows]
    np.testing.assert_allclose(found, saved.model.predict(as_batch(rows)), rtol=1e-6, atol=1e-6)


COLUMNS = {
    "name": ("category", st.sampled_from(["ann", "bob", "carl", "new", "", "\u00e9clair", "<rare>"])),
    "hashed": ("category", st.text(max_size=40)),
    "whole": ("category", st.integers(0, 5)),
    "flag": ("category", st.booleans()),
    "size": ("number", st.floats(-1e6, 1e6)),
    "age": ("bins", st.floats(-10, 200)),
    "visits": ("log_bins", st.integers(-3, 10**6)),
    "when": ("datetime", st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))),
    "hour": ("datetime", st.integers(0, 10**9)),
    "tags": ("list", st.lists(st.sampled_from(["x", "y", "z", "new"]), max_size=4)),
    "words": ("list", st.lists(st.sampled_from(["a", "b", " c ", "", "new"]), max_size=4).map("|".join)),
}
KINDS = {name: {"kind": kind} for name, (kind, _) in COLUMNS.items()}
KINDS["hashed"] |= {"hash_size": 50}
KINDS["name"] |= {"min_count": 5}
KINDS["hour"] |= {"format": "unix"}
KINDS["tags"] |= {"scale": "1/sqrt(n)"}
KINDS["words"] |= {"separator": "|", "scale": "1/n", "min_count": 3}
TYPES = {"when": pa.timestamp("us"), "tags": pa.list_(pa.string()), "visits": pa.int64(), "size": pa.float64()}


def table_of(records):
    kinds = {"name": pa.string(), "hashed": pa.string(), "whole": pa.int64(), "flag": pa.bool_(), "age": pa.float64()}
    kinds |= {"hour": pa.int64(), "words": pa.string(), **TYPES}
    return pa.table({name: pa.array([record[name] for record in records], kinds[name]) for name in COLUMNS})


def training_records(n_rows=300):
    rng, records = np.random.default_rng(0), []
    for row in range(n_rows):
        start = datetime(2020, 1, 1) + timedelta(hours=row * 7)
        tags = [("x", "y", "z")[place] for place in rng.integers(0, 3, row % 3)]
        known = {
            "name": "rare" if row % 100 == 7 else ("ann", "bob", "carl", "\u00e9clair")[row % 4],
            "hashed": f"text {row} " * (row % 6),
            "whole": row % 4,
            "flag": bool(row % 2),
            "size": float(rng.normal(3, 100)),
            "age": float(rng.integers(0, 90)),
            "visits": int(rng.integers(-2, 500)),
            "when": start,
            "hour": row * 3571,
            "tags": tags,
            "words": "|".join(("a", "b", " c ")[: row % 4]),
        }
        records.append({name: None if row % 23 == place else cell for place, (name, cell) in enumerate(known.items())})
    return records


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return the content of a model file of a table with columns of every kind, and its program."""
    folder, records = tmp_path_factory.mktemp("table"), training_records()
    fitted = RaFMClassifier(ranks=(2, 5), columns=KINDS, n_epochs=2, validation_fraction=0)
    fitted.fit(table_of(records), np.arange(len(records)) % 3 == 0).save(folder / "m.rafm")
    saved = load(folder / "m.rafm")
    assert any(column.has_rare for column in saved.encoder.columns)
    return saved, loaded(saved, folder)


@examples(0.6)
@given(record=st.fixed_dictionaries({name: st.one_of(st.none(), cell) for name, (_, cell) in COLUMNS.items()}))
def test_raw_values_are_encoded_and_predicted_as_by_the_model(table, record):
    saved, names = table
    rows = saved.encoder.encode(table_of([record]), targets=False)
    expected = dict(zip(rows.indices.tolist(), rows.values.tolist()))
    found = names["encode"](record)
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[id] for id in expected], [*expected.values()], rtol=1e-6)
    largest = max(1.0, *map(abs, found.values()))  # the model computes in float32, whose roundings grow with values
    close = pytest.approx(saved.model.predict(as_batch([found]))[0], abs=1e-6 * largest)
    assert names["predict_record"](record) == close


@examples(3)
@given(
    st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.floats(-1e-3, 1e-3), st.integers(-(2**62), 2**62))
)
def test_numbers_are_written_as_in_training(number):
    assert source.number_text(number) == as_text(pa.array([number]))[0].as_py()


@given(st.binary(max_size=100))
def test_the_hash_is_that_of_the_encoder(data):
    assert source.hash64(data) % 997 == hash_buckets(pa.array([data]), 997)[0]


def test_times_are_read_as_the_encoder_reads_them():
    texts = ["2014-10-21T08:30", "2014-10-21 23:59:59", "2014-10-21", "2014-10-21T23:30:00Z", "2014-10-21T23:30+02:00"]
    for text in texts:
        kind = pa.timestamp("us", "UTC") if text.endswith(("Z", "+02:00")) else pa.timestamp("us")
        expected, found = pa.array([text]).cast(kind), source.time_of(text, None)
        assert (found.hour, found.weekday()) == (pc.hour(expected)[0].as_py(), pc.day_of_week(expected)[0].as_py())
    assert source.time_of(14102108, "%y%m%d%H") == datetime(2014, 10, 21, 8)
    assert source.time_of(1_500_000_000_123, "unix_ms").hour == datetime.fromtimestamp(1_500_000_000, UTC).hour
    assert source.time_of(date(2024, 2, 29), None).weekday() == 3


WRONG = {
    "a column less": (lambda record: record.pop("age"), "column 'age' is missing"),
    "text for a number": (lambda record: record.update(age="old"), "column 'age': expected a finite number"),
    "an infinite number": (lambda record: record.update(size=float("inf")), "column 'size': expected a finite number"),
    "a boolean for text": (
        lambda record: record.update(name=True),
        "column 'name': it was text in training, found True",
    ),
    "no time": (lambda record: record.update(when="soon"), "column 'when': Invalid isoformat"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_encoded_is_refused_with_its_column(table, change, message):
    record = training_records(25)[24]
    change(record)
    with pytest.raises(ValueError, match=message):
        table[1]["encode"](record)


def run(path, *arguments, text):
    return subprocess.run([sys.executable, "-I", path, *arguments], input=text, capture_output=True, text=True)


def test_the_program_reads_libsvm_lines_and_names_the_wrong_one(tmp_path):
    saved = saved_world("lr")
    export(saved, "python", tmp_path / "model.py")
    done = run(tmp_path / "model.py", text="# ids from 1\n1 3:0.5 7:1\n\n0\n3:0.5 7:1\n")
    expected = saved.model.predict(as_batch([{2: 0.5, 6: 1.0}, {}, {2: 0.5, 6: 1.0}]))
    np.testing.assert_allclose([float(line) for line in done.stdout.split()], expected, rtol=1e-6)
    wrong = run(tmp_path / "model.py", text="1 3:0.5\n1 spam\n")
    assert (wrong.returncode, wrong.stderr[:14]) == (3, "error: -:2: ex")


NO_ROWS = {
    "CSV": "junk,row,here",
    "a word before entries": "junk 3:0.5",
    "a label that is not finite": "nan 3:0.5",
    "a label of digits and more": "1_0 3:0.5",
    "a value of digits and more": "1 3:1_0",
    "an infinite value": "1 3:1e400",
    "digits of another script": "1 \u0663:1",
}


@pytest.mark.parametrize("line", NO_ROWS.values(), ids=NO_ROWS)
def test_text_that_is_not_rows_is_refused_with_its_line(tmp_path, line):  # case 140
    export(saved_world("lr"), "python", tmp_path / "model.py")
    done = run(tmp_path / "model.py", text=f"1 3:0.5\n{line}\n")
    assert (done.returncode, done.stdout.count("\n")) == (3, 1)
    assert done.stderr.startswith("error: -:2: expected ")
    assert done.stderr.count("\n") == 1


def test_the_program_reads_rows_of_a_table_as_json(table, tmp_path):
    saved, names = table
    export(saved, "python", tmp_path / "model.py")
    records = [record | {"when": None} for record in training_records(30)]
    text = "".join(json.dumps(record) + "\n" for record in records)
    done = run(tmp_path / "model.py", text=text)
    assert [float(line) for line in done.stdout.split()] == [names["predict_record"](record) for record in records]
    lines = run(tmp_path / "model.py", "--encode", text=text).stdout.splitlines()
    assert [len(line.split()) - 1 for line in lines] == [len(names["encode"](record)) for record in records]


def test_the_program_imports_the_standard_library_alone():
    tree = ast.parse(Path(source.__file__).read_text())
    imported = [name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names]
    imported += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names


def test_times_as_categories_are_refused(tmp_path):
    table = pa.table({"day": pa.array([date(2020, 1, 1), date(2020, 1, 2)] * 20)})
    fitted = RaFMClassifier(model="lr", columns={"day": "category"}, n_epochs=1, validation_fraction=0)
    fitted.fit(table, [0, 1] * 20)
    with pytest.raises(ConfigError, match="column 'day' has times as categories"):
        export(Saved(fitted.model_, fitted.encoder_), "python", tmp_path / "model.py")


def ran(folder, *arguments, stdin=""):
    return subprocess.run(
        [sys.executable, folder / "model.py", *arguments], input=stdin, capture_output=True, text=True
    )


def test_the_program_says_how_to_call_it_and_what_it_reads(tmp_path):
    table = pa.table({"user": ["ann", "bob"] * 20, "age": [30.5, 41.0] * 20})
    model = RaFMClassifier(model="lr", n_epochs=1, validation_fraction=0).fit(table, [0, 1] * 20)
    model.export(tmp_path / "model.py")
    for flag in ("-h", "--help"):
        help = ran(tmp_path, flag)
        assert help.returncode == 0
        assert help.stdout.startswith(
            "usage: python model.py [--encode] < ROWS\n\nScore rows with a model trained by rafm"
        )
        assert "--encode prints JSON rows as libsvm lines" in help.stdout
    wrong = ran(tmp_path, "rows.csv")
    assert wrong.returncode == 2
    assert wrong.stderr == "error: no option 'rows.csv'; rows are read from standard input, see --help\n"
    for line in ("user,age", "[1]"):
        csv = ran(tmp_path, stdin=f"{line}\nann,30.5\n")
        assert csv.returncode == 3
        assert csv.stderr.startswith('error: -:1: expected a JSON object of columns, {"age": ..., "user": ...}, found ')
        assert csv.stderr.endswith("this is not CSV\n")
    good = ran(tmp_path, stdin='{"user": "ann", "age": 30.5}\n')
    assert float(good.stdout) == pytest.approx(model.predict_proba(table)[0, 1])
