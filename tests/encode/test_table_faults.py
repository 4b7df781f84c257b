"""What must happen when tables are wrong, as CSV, as Parquet and as frames; tests of each reader have more cases."""

import gzip
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from commands import run
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet

from rafm import RaFMClassifier, load
from rafm.encode.coverage import Coverage
from rafm.encode.encoder import TableEncoder
from rafm.errors import DataValueError, ModelFormatError
from rafm.model import file as storage
from rafm.read import open as tables_module

DATA, SYSTEM = 3, 6
FORMATS = ("csv", "parquet")
KEPT = ("--label", "y", "--ranks", "2", "--epochs", "1", "--l2", "0.1")


def visits(n=60, **changes):
    """Return a table of three columns and a label, some of them changed."""
    draw = np.random.default_rng(0)
    cells = {
        "y": draw.integers(0, 2, n),
        "city": draw.choice(["Rome", "Oslo", "Lima"], n),
        "price": draw.normal(5, 2, n).round(2),
    }
    return pa.table({**cells, **changes})


def write(table, path):
    """Write a table as its path says; CSV without quotes that nothing needs."""
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        csv.write_csv(table, path, csv.WriteOptions(quoting_style="needed"))
    return path


def train(path, *options):
    return run("train", path, *KEPT, *options, "--out", path.parent / "new.rafm")


def refused(ran, code=DATA):
    """Return the one line of a failure; the columns of the table may have been told before."""
    assert ran.code == code, ran
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    return ran.err


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    ran = train(write(visits(), folder / "t.csv"), "--valid-share", 0)  # or little would be learnt from so few rows
    assert ran.code == 0, ran.err
    return folder / "new.rafm"


NOTHING = {
    "nothing at all": lambda path: path.write_bytes(b""),
    "blank lines": lambda path: path.write_bytes(b"\n\r\n\n"),
    "names only": lambda path: path.write_bytes(b"y,city,price\n"),
    "Parquet of no rows": lambda path: parquet.write_table(visits().slice(0, 0), path),
}


@pytest.mark.parametrize("kind", NOTHING)
def test_no_rows_are_an_error_in_training_and_no_predictions(tmp_path, model, kind):  # case 8
    NOTHING[kind](tmp_path / "none")
    ran = train(tmp_path / "none")
    assert ran.code == DATA
    assert "no rows" in ran.error()
    assert run("predict", model, tmp_path / "none") == type(ran)(0, "", f"note: {tmp_path / 'none'}: 0 rows\n")
    assert "no rows" in run("evaluate", model, tmp_path / "none").error()


LABELS = {
    "case 17 hexadecimal": ("0x1", "t.csv:4: a third label, '1', after '0' and '0x1'"),
    "case 17 underscore": ("1_0", "t.csv:4: a third label, '1', after '0' and '1_0'"),
    "case 17 unicode digit": ("\u0661", "t.csv:4: a third label, '1', after '0' and '\u0661'"),
    "case 28 infinite": ("inf", "t.csv:3: column 'y' must be finite"),
    "case 28 too large": ("1e400", "t.csv:3: column 'y' must be finite"),
    "case 32 nan": ("nan", "t.csv:3: column 'y' must have a number in every row"),
    "case 32 empty": ("", "t.csv:3: column 'y' must have a number in every row"),
    "case 32 text": ("yes", "t.csv:4: a third label, '1', after '0' and 'yes'"),
    "case 32 another number": ("2", "t.csv:4: a third label, 1, after 0 and 2"),
    "case 31 a mix of 0 and -1": ("-1", "t.csv:3: the labels 0 and -1 are mixed"),
}


@pytest.mark.parametrize("name", LABELS)
def test_a_wrong_label_is_refused(tmp_path, name):
    label, message = LABELS[name]
    (tmp_path / "t.csv").write_text(f"y,city\n0,Rome\n{label},Oslo\n1,Rome\n", encoding="utf-8")
    found = refused(train(tmp_path / "t.csv"))
    assert message in found
    assert str(tmp_path / "t.csv") in found


@pytest.mark.parametrize("format", FORMATS)
def test_labels_of_minus_1_and_1_are_those_of_0_and_1(tmp_path, format):  # case 31
    files = []
    for labels in (visits()["y"].to_numpy(), 2 * visits()["y"].to_numpy() - 1):
        assert train(write(visits(y=labels), tmp_path / f"t.{format}")).code == 0
        files.append(storage.load(tmp_path / "new.rafm"))
    usual, other = files
    assert (usual.classes, other.classes) == (None, [-1, 1])
    storage.save(tmp_path / "usual.rafm", usual)
    storage.save(tmp_path / "other.rafm", replace(other, classes=None))  # all else is the same, to the last byte
    assert (tmp_path / "usual.rafm").read_bytes() == (tmp_path / "other.rafm").read_bytes()


@pytest.mark.parametrize("format", FORMATS)
def test_one_class_is_warned_of_and_has_no_auc(tmp_path, format):  # case 33
    path = write(visits(y=np.ones(60, int)), tmp_path / f"t.{format}")
    assert train(path).err.startswith(f"warning: {path}: all labels are the same")
    assert run("evaluate", tmp_path / "new.rafm", path, "--json").json()["auc"] is None


def test_words_for_a_missing_number_are_missing_and_tiny_numbers_are_zero(tmp_path, model):  # cases 27 and 29
    (tmp_path / "t.csv").write_text("city,price\nRome,nan\nRome,NA\nRome,\nRome,1e-400\nRome,0\n")
    nan, na, empty, tiny, zero = run("predict", model, tmp_path / "t.csv").out.split()
    assert nan == na == empty != zero == tiny


def test_a_number_that_is_not_finite_is_refused_with_its_column_and_row(tmp_path, model):  # case 28
    prices = visits()["price"].to_numpy().copy()
    prices[7] = np.inf
    path = write(visits(price=prices), tmp_path / "t.parquet")
    message = f"error: {path}: column 'price', row 8: inf is not finite\n"
    assert refused(train(path)) == message
    assert refused(run("predict", model, path)) == message


@pytest.mark.parametrize("packed", [True, False])
def test_the_first_bytes_decide_whether_a_table_is_compressed(tmp_path, model, packed):  # case 40
    text = write(visits(), tmp_path / "t.csv").read_bytes()
    other = tmp_path / ("packed.csv" if packed else "plain.csv.gz")
    other.write_bytes(gzip.compress(text) if packed else text)
    assert run("predict", model, other).out == run("predict", model, tmp_path / "t.csv").out != ""


@pytest.mark.parametrize("name", ["missing.csv", "missing.parquet", "missing/*.parquet"])
def test_a_missing_table_is_named(tmp_path, model, name):  # case 41
    ran = run("predict", model, tmp_path / name)
    assert (ran.code, str(tmp_path / name) in ran.error()) == (SYSTEM, True)


def test_rows_are_counted_from_the_start_of_the_file(tmp_path, model, monkeypatch):
    small = tables_module.read_table.__kwdefaults__ | {"batch_bytes": 1}
    monkeypatch.setattr(tables_module.read_table, "__kwdefaults__", small)
    prices = visits()["price"].to_numpy().copy()
    prices[41] = np.inf
    path = write(visits(price=prices), tmp_path / "t.parquet")
    assert "row 42: inf is not finite" in run("predict", model, path).err


def test_a_damaged_parquet_file_is_refused(tmp_path):  # case 44
    path = write(visits(), tmp_path / "t.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    ran = train(path)
    assert (ran.code, "broken Parquet file" in ran.error()) == (DATA, True)


@pytest.mark.parametrize("format", FORMATS)
def test_columns_are_found_by_name(tmp_path, model, format):  # case 45
    table = visits()
    first = run("predict", model, write(table, tmp_path / f"t.{format}"))
    turned = run("predict", model, write(table.select(["price", "y", "city"]), tmp_path / f"turned.{format}"))
    assert (first.code, first.out) == (0, turned.out)
    more = run("predict", model, write(table.append_column("zip", table["city"]), tmp_path / f"more.{format}"))
    assert (more.code, more.out) == (0, first.out)
    assert more.err == "warning: ignoring columns that the model was not trained with: zip\n"
    fewer = run("predict", model, write(table.drop_columns(["price"]), tmp_path / f"fewer.{format}"))
    assert fewer.code == DATA
    assert "column 'price' is missing" in fewer.error()


def test_a_column_of_another_type_is_refused(tmp_path, model):  # case 46
    ran = run("predict", model, write(visits(price=["cheap"] * 60), tmp_path / "t.csv"))
    assert (ran.code, "t.csv:2: column 'price' must be numbers, found \"cheap\"" in ran.error()) == (DATA, True)
    ran = run("predict", model, write(visits(price=["cheap"] * 60), tmp_path / "t.parquet"))
    assert (ran.code, "column 'price' has type string" in ran.error()) == (DATA, True)
    ran = run("predict", model, write(visits(city=[True] * 60), tmp_path / "t.parquet"))
    assert "column 'city' was text in training, now its type is bool" in ran.error()


@pytest.mark.parametrize("format", FORMATS)
def test_an_empty_cell_is_a_feature_of_its_own_or_refused(tmp_path, format):  # case 47
    cities = [None, *visits()["city"].to_pylist()[1:]]
    path = write(visits(city=cities), tmp_path / f"t.{format}")
    assert train(path).code == 0
    assert "city=<missing>" in load(tmp_path / "new.rafm").encoder_.feature_names()
    (tmp_path / "strict.toml").write_text('missing = "error"\n')
    found = refused(train(path, "--columns", tmp_path / "strict.toml"))
    assert f"{path}: column 'city', row 1: a value is missing" in found


# Frames


def test_a_column_of_several_types_is_refused_by_its_name():  # case 46
    frame = pd.DataFrame({"city": ["Rome", "Oslo"], "code": [1, "x"]})
    with pytest.raises(DataValueError, match="column 'code' has values of types int and str; convert them to one type"):
        RaFMClassifier(ranks=2).fit(frame, [0, 1])


def test_the_columns_of_a_frame_are_kept_in_the_file_in_their_order(tmp_path):  # case 45
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["width", "height", "depth"])
    model = RaFMClassifier(ranks=2, n_epochs=2, columns={"depth": "ignore"}).fit(frame, [0, 1] * 20)
    model.save(tmp_path / "m.rafm")
    again = load(tmp_path / "m.rafm")
    for one in (model, again):
        assert one.feature_names_in_.tolist() == ["width", "height", "depth"]
        assert one.n_features_in_ == 3
    turned = frame[["height", "width"]]
    np.testing.assert_array_equal(again.decision_function(turned), model.decision_function(frame))
    again.save(tmp_path / "again.rafm")
    assert (tmp_path / "again.rafm").read_bytes() == (tmp_path / "m.rafm").read_bytes()


def test_columns_in_a_file_that_lack_one_of_the_encoder_are_refused(tmp_path):
    frame = pd.DataFrame({"a": ["x", "y"] * 20, "b": ["x", "y"] * 20})
    RaFMClassifier(ranks=2, n_epochs=2).fit(frame, [0, 1] * 20).save(tmp_path / "m.rafm")
    saved = storage.load(tmp_path / "m.rafm")
    assert saved.columns == ["a", "b"]
    with pytest.raises(ModelFormatError, match="invalid header field 'columns'"):
        storage.save(tmp_path / "m.rafm", replace(saved, columns=["a", "c"]))


def test_a_model_of_a_matrix_with_named_columns_takes_frames_with_these_names(tmp_path):  # written before tables were
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["width", "height", "depth"])
    model = RaFMClassifier(ranks=2, n_epochs=2).fit(frame.to_numpy(), [0, 1] * 20)
    model.save(tmp_path / "m.rafm")
    saved = replace(storage.load(tmp_path / "m.rafm"), columns=list(frame.columns))
    storage.save(tmp_path / "m.rafm", saved)
    again = load(tmp_path / "m.rafm")
    np.testing.assert_array_equal(again.decision_function(frame), model.decision_function(frame.to_numpy()))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["depth", "height", "width"]])


def test_a_matrix_without_names_has_none_in_the_file(tmp_path):
    RaFMClassifier(ranks=2, n_epochs=1).fit(np.eye(4), [0, 1, 0, 1]).save(tmp_path / "m.rafm")
    assert not hasattr(load(tmp_path / "m.rafm"), "feature_names_in_")


# Properties of encoding

texts = st.none() | st.sampled_from(["", "a", "b", "=", "<missing>", "\\", "\u00e9"])
COLUMNS = {
    "text": (pa.string(), texts),
    "whole": (pa.int64(), st.none() | st.integers(-3, 3)),
    "number": (pa.float64(), st.none() | st.floats(-100, 100)),
    "flag": (pa.bool_(), st.none() | st.booleans()),
    "list": (pa.list_(pa.string()), st.none() | st.lists(st.sampled_from("abc"), max_size=3)),
    "time": (pa.timestamp("s"), st.none() | st.integers(0, 10**9)),
}


@st.composite
def tables(draw):
    """Draw a table of columns of any kinds, of which the first is text."""
    n_rows = draw(st.integers(1, 8))
    kinds = ["text", *draw(st.lists(st.sampled_from([*COLUMNS]), max_size=4))]
    cells = {f"{kind} {i}": (COLUMNS[kind], n_rows) for i, kind in enumerate(kinds)}
    columns = {
        name: pa.array(draw(st.lists(strategy, min_size=n, max_size=n)), type)
        for name, ((type, strategy), n) in cells.items()
    }
    return pa.table(columns)


def encoded_rows(encoder, table, coverage=None):
    """Return the rows as sorted pairs of feature names and values."""
    batch, names = encoder.encode(table, coverage=coverage), encoder.feature_names()
    entries = [(names[i], float(x)) for i, x in zip(batch.indices, batch.values)]
    return [sorted(entries[a:b]) for a, b in zip(batch.indptr, batch.indptr[1:])]


@given(tables(), st.randoms())
def test_permuting_columns_changes_nothing(table, random):  # case 45
    names = list(table.column_names)
    random.shuffle(names)
    encoder, other = TableEncoder.learn(table), TableEncoder.learn(table.select(names))
    assert encoder.feature_names() == other.feature_names()
    expected = encoder.encode(table)
    for found in (encoder.encode(table.select(names)), other.encode(table)):
        for name in ("indptr", "indices", "values"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@given(tables(), st.data())
def test_an_unseen_value_changes_only_its_own_row_and_coverage(table, data):  # case 48
    encoder, row = TableEncoder.learn(table), data.draw(st.integers(0, table.num_rows - 1))
    name = table.column_names[0]
    cells = table[name].to_pylist()
    kept, cells[row] = cells[row], "never seen"
    other = table.set_column(0, name, pa.array(cells, pa.string()))
    before, after = Coverage(), Coverage()
    expected, found = encoded_rows(encoder, table, before), encoded_rows(encoder, other, after)
    own = {feature for feature, _ in expected[row] if feature.startswith(f"{name}=")}
    assert len(own) == 1
    assert found[row] == [(feature, x) for feature, x in expected[row] if feature not in own]
    assert found[:row] + found[row + 1 :] == expected[:row] + expected[row + 1 :]
    gone = {
        "missing" if kept is None else "known": before[name].missing - 1 if kept is None else before[name].known - 1
    }
    assert after[name] == before[name]._replace(**gone)
    assert after[name].unseen == 1
    assert after.columns | {name: 0} == before.columns | {name: 0}
