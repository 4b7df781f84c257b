"""Cells of types that few tables have: they mean something, or the error names their column (cases 104 to 106)."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from commands import run
from fitted import make, scores_of
from pyarrow import parquet
from tables import STORES_VIEWS, features_of

from rafm import Scorer, load
from rafm.encode.encoder import TableEncoder
from rafm.encode.spec import ColumnSpec, TableSpec
from rafm.errors import DataValueError

N = 520
LABELS = np.random.default_rng(0).integers(0, 2, N).tolist()  # no column tells them
LARGEST = 2**63 - 1


class Own(pa.ExtensionType):
    """A type of somebody's own, without a hash."""

    def __init__(self):
        super().__init__(pa.string(), "own")

    def __arrow_ext_serialize__(self):
        return b""


def words(k, nulls=True):
    """Return k different texts, over and over, some of them missing."""
    return [None if nulls and i % 11 == 3 else f"v{i % k}" for i in range(N)]


def coded(index, k, nulls=True):
    found = pa.array(words(k, nulls)).dictionary_encode()
    texts = pa.array([f"v{i}" for i in range(k)])
    places = [None if text is None else int(text[1:]) for text in words(k, nulls)]
    assert len(found.dictionary) == k
    return pa.DictionaryArray.from_arrays(pa.array(places, index), texts)


# Case 104: what has a meaning works, as the same cells of a common type do

SAME = {
    "int8 dictionary of 128 values with nulls": (coded(pa.int8(), 128), words(128)),
    "uint8 dictionary of 256 values with nulls": (coded(pa.uint8(), 256), words(256)),
    "int8 dictionary of 128 values": (coded(pa.int8(), 128, False), words(128, False)),
    "uint8 dictionary of 256 values": (coded(pa.uint8(), 256, False), words(256, False)),
    "uint64 dictionary": (coded(pa.uint64(), 100), words(100)),
    "string_view": (pa.array(words(7), pa.string_view()), words(7)),
    "binary_view": (pa.array([word and word.encode() for word in words(7)], pa.binary_view()), words(7)),
    "list of string_view": (
        pa.array([[word, "x"] for word in words(7)], pa.list_(pa.string_view())),
        [[word, "x"] for word in words(7)],
    ),
}


@pytest.mark.parametrize(("odd", "common"), SAME.values(), ids=SAME)
def test_cells_of_an_odd_type_score_as_the_same_cells_of_a_common_one(odd, common, tmp_path):
    tables = [pa.table({"c": cells, "n": np.arange(N) / N}) for cells in (odd, pa.array(common))]
    fitted = [make("binary", "lr").fit(table, LABELS) for table in tables]
    assert fitted[0].encoder_.feature_names() == fitted[1].encoder_.feature_names()
    np.testing.assert_array_equal(*(scores_of(model, table) for model, table in zip(fitted, tables)))
    if "view" in str(odd.type) and not STORES_VIEWS:
        return
    path = tmp_path / "t.parquet"
    parquet.write_table(tables[0].append_column("y", pa.array(LABELS)), path)
    trained = run("train", path, "--label", "y", "--out", tmp_path / "m.rafm", "--model", "lr", "--epochs", "1")
    assert (trained.code, trained.err) == (0, "")
    assert run("evaluate", tmp_path / "m.rafm", path).code == 0
    assert run("inspect", path, "--label", "y").code == 0


MEANINGLESS = {
    "list of list": pa.array([[[1, 2], [3]]] * N),
    "list of struct": pa.array([[{"a": 1}]] * N),
    "struct": pa.array([{"a": 1}] * N),
    "unknown time zone": pa.array(range(N), pa.int64()).cast(pa.timestamp("s", "Mars/Olympus")),
    "duration": pa.array(range(N), pa.duration("s")),
    "map": pa.array([[("a", 1)]] * N, pa.map_(pa.string(), pa.int64())),
    "bytes of one length": pa.array([b"abcd"] * N, pa.binary(4)),
}


@pytest.mark.parametrize("cells", MEANINGLESS.values(), ids=MEANINGLESS)
def test_cells_without_a_meaning_are_refused_by_the_name_of_their_column(cells, tmp_path):
    table = pa.table({"odd one": cells, "n": np.arange(N) / N})
    with pytest.raises(DataValueError, match="column 'odd one' has"):
        make("binary", "lr").fit(table, LABELS)
    path = tmp_path / "t.parquet"
    parquet.write_table(table.append_column("y", pa.array(LABELS)), path)
    found = run("train", path, "--label", "y", "--out", tmp_path / "m.rafm")
    assert found.code == 3
    assert found.err.count("\n") == 1
    assert "t.parquet: column 'odd one' has" in found.err
    inspected = run("inspect", path, "--label", "y")
    assert inspected.code in (0, 3)
    assert "odd one" in inspected.out + inspected.err


def test_a_type_of_ones_own_is_refused_by_the_name_of_its_column():
    cells = pa.ExtensionArray.from_storage(Own(), pa.array(["a"] * N))
    with pytest.raises(DataValueError, match="column 'odd one' has type extension<own"):
        make("binary", "lr").fit(pa.table({"odd one": cells, "n": np.arange(N) / N}), LABELS)


HUGE = [10**30 + i for i in range(N)]
PANDAS = {
    "complex": (np.arange(N) * 1j, "type complex128"),
    "long double": (np.arange(N).astype(np.longdouble), "type float128"),
    "whole numbers beyond 64 bits": (HUGE, "whole numbers beyond 64 bits"),
    "some beyond 64 bits": ([2**64 + 1, 1] * (N // 2), "whole numbers beyond 64 bits"),
    "sparse": (pd.arrays.SparseArray([0, 1] * (N // 2)), "type Sparse"),
    "surrogates": (pd.Series(["a", "\ud800"] * (N // 2), dtype=object), "text that is no Unicode"),
    "objects": ([object()] * N, "types object"),
    "intervals": (pd.interval_range(0, N), "type extension"),
}


@pytest.mark.parametrize("other", ["x", 1.5], ids=["table", "matrix"])
@pytest.mark.parametrize(("cells", "told"), PANDAS.values(), ids=PANDAS)
def test_columns_of_pandas_that_arrow_has_no_type_for_are_named(cells, told, other):
    with pytest.raises(DataValueError, match=f"column 'odd one' has .*{told}"):
        make().fit(pd.DataFrame({"n": other, "odd one": cells}), LABELS)


POLARS = {
    "Int128": pl.Series(range(N), dtype=pl.Int128),
    "list of list": pl.Series([[[1]]] * N),
    "time of day": pl.Series([datetime.time(1)] * N),
    "object": pl.Series([decimal] * N, dtype=pl.Object),
}


@pytest.mark.parametrize("cells", POLARS.values(), ids=POLARS)
def test_columns_of_polars_that_have_no_meaning_are_named(cells):
    with pytest.raises(DataValueError, match="column 'odd one' has type"):
        make().fit(pl.DataFrame({"n": [1] * N, "odd one": cells}), LABELS)


# Case 105: times far away


def moment(unit, count, zone=None):
    return pa.array([0] * 3 + [None, count], pa.int64()).cast(pa.timestamp(unit, zone))


FAR = {
    **{f"largest {unit}": moment(unit, LARGEST) for unit in ("s", "ms", "us", "ns")},
    **{f"smallest {unit}": moment(unit, -LARGEST - 1) for unit in ("s", "ms", "us", "ns")},
    "UTC": moment("us", LARGEST, "UTC"),
    "Berlin": moment("ms", LARGEST, "Europe/Berlin"),
    "year 10000": moment("s", 253_402_300_800),
    "year 0": moment("s", -62_135_596_801),
    "date32": pa.array([0, 0, 0, 0, 2**31 - 1], pa.int32()).view(pa.date32()),
    "date64": pa.array([0, 0, 0, 0, LARGEST], pa.int64()).view(pa.date64()),
}


@pytest.mark.parametrize("cells", FAR.values(), ids=FAR)
def test_times_far_away_are_refused_by_column_and_row(cells):
    table = pa.table({"seen at": cells})
    with pytest.raises(DataValueError, match=r"column 'seen at', row 5: .* is not within the years 1 to 9999"):
        TableEncoder.learn(table)
    encoder = TableEncoder.learn(table.slice(0, 4))
    with pytest.raises(DataValueError, match="column 'seen at', row 5: "):
        encoder.encode(table)


@pytest.mark.parametrize("count", [1e300, float(LARGEST), 253_402_300_800.0, -1e17])
def test_numbers_that_are_no_times_are_refused_by_column_and_row(count):
    spec = TableSpec((ColumnSpec("t", "datetime", format="unix"),))
    with pytest.raises(DataValueError, match="column 't', row 2: "):
        TableEncoder.learn(pa.table({"t": [0.0, count]}), spec)


@pytest.mark.parametrize(("text", "expected"), [("0001-01-01T05:00", "hour 5"), ("9999-12-31T23:59", "hour 23")])
def test_the_first_and_last_years_are_times(text, expected):
    table = pa.table({"t": pa.array([text]).cast(pa.timestamp("s"))})
    encoder = TableEncoder.learn(table)
    assert encoder.feature_name(int(encoder.encode(table).indices[0])) == f"t={expected}"


# Case 106: seconds since 1970 as text


@pytest.mark.parametrize(("format", "scale"), [("unix", 1), ("unix_ms", 1000)])
def test_seconds_and_milliseconds_in_csv_are_times(format, scale, tmp_path):
    begun = datetime.datetime(2014, 10, 21, 8, 30, tzinfo=datetime.UTC)  # a Tuesday
    moments = [begun + datetime.timedelta(hours=i) for i in range(48)]
    lines = [f"{i % 2},{int(moment.timestamp()) * scale}" for i, moment in enumerate(moments)]
    path, model = tmp_path / "t.csv", tmp_path / "m.rafm"
    path.write_text("y,t\n" + "\n".join(lines) + "\n1,\n")
    trained = run("train", path, "--label", "y", "--column", f"t=datetime:{format}", "--out", model, "--model", "lr")
    assert (trained.code, trained.err) == (0, "")
    assert run("evaluate", model, path, "--json").json()["rows"] == 49
    spec = TableSpec((ColumnSpec("t", "datetime", format=format),))
    texts = pa.table({"t": [line.partition(",")[2] for line in lines]})
    encoder, rows = TableEncoder.learn_encode(texts, spec)
    found = [encoder.feature_name(int(id)) for id in rows.indices]
    expected = [name for moment in moments for name in (f"t=hour {moment.hour}", f"t={moment:%A}")]
    assert found == expected


@pytest.mark.parametrize("bad", ["soon", "12:30", "1e400", "", "nan", "inf", "9" * 40])
def test_text_that_is_no_number_of_seconds_is_refused_by_column_and_row(bad):
    spec = TableSpec((ColumnSpec("t", "datetime", format="unix"),))
    with pytest.raises(DataValueError, match="column 't', row 2: expected a number for a time like unix"):
        TableEncoder.learn(pa.table({"t": ["0", bad]}), spec)


# The same cells of a table in memory and of a file


def moments(n_rows=48):
    begun = datetime.datetime(2014, 10, 21, 8)
    return pa.array([begun + datetime.timedelta(hours=i) for i in range(n_rows)], pa.timestamp("us"))


TIMES = {
    **{
        f"timestamp {unit}": lambda cells, unit=unit: cells.cast(pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")
    },
    "text": lambda cells: cells.cast(pa.timestamp("s")).cast(pa.string()),
    "large text": lambda cells: cells.cast(pa.timestamp("s")).cast(pa.large_string()),
    "dictionary": lambda cells: cells.cast(pa.timestamp("s")).cast(pa.string()).dictionary_encode(),
}


@pytest.mark.parametrize("trained", ["timestamp ns", "text"])
@pytest.mark.parametrize("given", TIMES)
def test_times_and_their_text_are_the_same_cells(trained, given):
    encoder = TableEncoder.learn(pa.table({"t": TIMES[trained](moments())}))
    names = [encoder.feature_name(int(id)) for id in encoder.encode(pa.table({"t": TIMES[given](moments())})).indices]
    expected = [name for moment in moments().to_pylist() for name in (f"t=hour {moment.hour}", f"t={moment:%A}")]
    assert names == expected
    more = pa.table({"t": TIMES[given](moments())})
    grown, _ = encoder.grow_then_encode(more)
    assert grown.feature_names() == encoder.feature_names()


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_a_date_and_its_text_are_the_same_cell(kind):
    day = pa.table({"t": pa.array([datetime.date(2014, 10, 21)], kind)})
    text = pa.table({"t": ["2014-10-21"]})
    for one, other in [(day, text), (text, day)]:
        assert features_of(TableEncoder.learn(one), other) == [{"t=hour 0": 1.0, "t=Tuesday": 1.0}]


def test_times_pass_from_python_to_csv_and_back(tmp_path):
    frame = pd.DataFrame({"when": moments().to_pandas(), "n": np.arange(48.0)})
    labels = [0, 1] * 24
    frame.assign(y=labels).to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "new.csv", index=False)
    from_frame = make("binary", "lr").fit(frame, labels)
    from_frame.save(tmp_path / "frame.rafm")
    arguments = ["--label", "y", "--out", tmp_path / "csv.rafm", "--model", "lr", "--epochs", "1"]
    assert run("train", tmp_path / "t.csv", *arguments).code == 0
    from_csv = load(tmp_path / "csv.rafm")
    for name, model in [("frame", from_frame), ("csv", from_csv)]:
        ran = run("predict", tmp_path / f"{name}.rafm", tmp_path / "new.csv")
        assert (ran.code, ran.err) == (0, "")
        # The text has nine digits: rounding it to float32 again could end one step away.
        np.testing.assert_allclose(np.array(ran.out.split(), float), model.predict_proba(frame)[:, 1], rtol=1e-8)
        found = Scorer(tmp_path / f"{name}.rafm").predict(frame.to_dict("records"))
        np.testing.assert_array_equal(np.float32(found), np.float32(model.predict_proba(frame)[:, 1]))


MISSING = {
    "NaN": pa.array([np.nan, np.nan]),
    "double": pa.nulls(2, pa.float64()),
    "int64": pa.nulls(2, pa.int64()),
    "text": pa.nulls(2, pa.string()),
    "timestamp": pa.nulls(2, pa.timestamp("us")),
    "list": pa.nulls(2, pa.list_(pa.int64())),
    "dictionary": pa.nulls(2, pa.dictionary(pa.int8(), pa.string())),
}
COLUMNS = {
    "word": ["a", None, "b"],
    "n": [1.5, None, 2.5],
    "when": [datetime.datetime(2014, 10, 21), None, None],
    "tags": [["x"], None, ["y"]],
    "ok": [True, None, False],
}


@pytest.mark.parametrize("cells", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_without_any_value_is_missing_whatever_its_type(name, cells):
    encoder = TableEncoder.learn(pa.table(COLUMNS))
    rest = {other: values[:2] for other, values in COLUMNS.items() if other != name}
    as_null, as_cells = (pa.table({**rest, name: values}) for values in (pa.nulls(2), cells))
    assert features_of(encoder, as_cells) == features_of(encoder, as_null)
    assert all(f"{name}=<missing>" in row for row in features_of(encoder, as_cells))
    grown, _ = encoder.grow_then_encode(as_cells)
    assert grown.feature_names() == encoder.feature_names()


def test_an_empty_column_of_pandas_is_missing_in_prediction():
    frame = pd.DataFrame({"title": ["a", "b", None, "c"] * 12, "n": np.arange(48.0)})
    model = make("binary", "lr").fit(frame, [0, 1] * 24)
    found, expected = (model.predict_proba(frame.assign(title=value)) for value in (np.nan, None))
    np.testing.assert_array_equal(found, expected)
