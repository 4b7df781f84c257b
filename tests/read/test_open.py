"""Any file in, the same rows out: tables and rows through one door, converted or not."""

import dataclasses
import gzip

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from commands import rows_of_pairs, run
from tables import spec_of

from rafm.encode.encoder import TableEncoder
from rafm.encode.spec import TableSpec
from rafm.errors import ConfigError, DataFormatError, DataValueError, FeatureRangeError
from rafm.model.file import load
from rafm.read.convert import convert, is_current
from rafm.read.converted.reader import ArrowRows
from rafm.read.converted.writer import write_arrow
from rafm.read.open import ReadOptions, batches_of, training_rows
from rafm.rows.blocks import join_rows

COLORS, SHAPES = ("red", "blue"), ("round", "square", "flat")


def visits(n, seed=0, label=True):
    """Return CSV text whose label only pairs of columns tell."""
    draw = np.random.default_rng(seed)
    lines = ["click,color,shape,age" if label else "color,shape,age"]
    for _ in range(n):
        color, shape, age = draw.choice(COLORS), draw.choice(SHAPES), draw.normal(40, 9)
        click = int((color == "red") == (shape == "round"))
        lines.append(f"{click}," * label + f"{color},{shape},{age:.1f}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_text(visits(400))
    return path


READ_OPTIONS = ReadOptions("binary", spec=TableSpec(label="click"))


def test_a_csv_trains_scores_and_predicts_from_the_command_line(tmp_path, table):
    model = tmp_path / "m.rafm"
    trained = run("train", table, "--label", "click", "--ranks", "2,4", "--l2", "0", "--out", model)
    assert trained.code == 0, trained.err
    assert "color" in trained.out
    judged = run("evaluate", model, table)
    assert float(judged.out.split("log_loss")[1].split()[0]) < 0.1
    (tmp_path / "new.csv").write_text(visits(5, seed=1, label=False))
    predicted = run("predict", model, tmp_path / "new.csv")
    assert predicted.code == 0, predicted.err
    rows = (tmp_path / "new.csv").read_text().splitlines()[1:]
    for line, probability in zip(rows, predicted.out.split(), strict=True):
        color, shape, _ = line.split(",")
        assert (float(probability) > 0.5) == ((color == "red") == (shape == "round"))


def test_compressed_and_reordered_columns_give_the_same_predictions(tmp_path, table):
    model = tmp_path / "m.rafm"
    run("train", table, "--label", "click", "--ranks", "2", "--epochs", "2", "--out", model)
    cells = [line.split(",") for line in table.read_text().splitlines()]
    with gzip.open(tmp_path / "turned.csv.gz", "wt") as file:
        file.write("\n".join(",".join(reversed(row)) for row in cells) + "\n")
    first, second = (run("predict", model, path) for path in (table, tmp_path / "turned.csv.gz"))
    assert first.out == second.out != ""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "visits.csv").write_text(visits(400))
    trained = run(
        "train", folder / "visits.csv", "--label", "click", "--ranks", "2", "--epochs", "1", "--out", folder / "m"
    )
    assert trained.code == 0, trained.err
    return folder / "m"


def test_values_never_seen_are_told_by_column(tmp_path, model):  # case 48
    (tmp_path / "new.csv").write_text(
        "click,color,shape,age\n1,red,flat,3\n0,RED,flat,4\n1,BLUE,oval,5\n0,blue,flat,6\n"
    )
    told = "not seen in training: color 50.0 % (2 of 4), shape 25.0 % (1 of 4)\n"
    predicted = run("predict", model, tmp_path / "new.csv")
    assert (predicted.code, predicted.err, len(predicted.out.split())) == (0, told, 4)
    judged = run("evaluate", model, tmp_path / "new.csv", "--json")
    assert judged.err == told
    coverage = judged.json()["coverage"]
    expected = {"seen": 4, "known": 2, "rare": 0, "missing": 0, "unseen": 2, "unseen_share": 0.5}
    assert coverage["color"] == expected
    assert (coverage["shape"]["unseen_share"], coverage["age"]["unseen"]) == (0.25, 0)


def test_a_column_that_is_mostly_unseen_is_warned_of(tmp_path, model):  # case 48
    (tmp_path / "new.csv").write_text("color,shape,age\nRED,flat,3\nBLUE,round,4\nred,flat,1\n")
    out = tmp_path / "p.txt"
    ran = run("predict", model, tmp_path / "new.csv", "--out", out)
    first, warning = ran.err.splitlines()
    assert first == "not seen in training: color 66.7 % (2 of 3)"
    assert warning.startswith("warning: most values of column 'color' were never seen in training")
    assert len(out.read_text().split()) == 3


def test_nothing_is_told_where_all_values_are_known(tmp_path, model):
    (tmp_path / "old.csv").write_text(visits(50, seed=5))
    assert run("predict", model, tmp_path / "old.csv").err == ""
    assert run("evaluate", model, tmp_path / "old.csv").err == ""


def test_a_converted_table_trains_like_the_table_and_knows_its_columns(tmp_path, table):
    converted = tmp_path / "visits.arrow"
    assert run("convert", table, converted, "--label", "click").code == 0
    for data, name in ((table, "a"), (converted, "b")):
        ran = run("train", data, "--label", "click", "--ranks", "2", "--epochs", "3", "--out", tmp_path / name)
        assert ran.code == 0, ran.err
    a, b = load(tmp_path / "a"), load(tmp_path / "b")
    assert a.encoder == b.encoder is not None
    np.testing.assert_array_equal(a.model.parameters.weights, b.model.parameters.weights)


def test_converted_rows_are_those_of_the_text(tmp_path):
    path, out = tmp_path / "rows.svm", tmp_path / "rows.arrow"
    path.write_text(rows_of_pairs(300))
    read_options = ReadOptions("binary")
    convert(path, out, read_options)
    text, arrow = (join_rows(list(batches_of(source, read_options, None))) for source in (path, out))
    for name in ("indptr", "indices", "values", "labels"):
        np.testing.assert_array_equal(getattr(text, name), getattr(arrow, name))


def test_a_conversion_is_kept_until_its_source_or_the_options_change(tmp_path):
    path, out = tmp_path / "rows.svm", tmp_path / "rows.arrow"
    path.write_text(rows_of_pairs(20))
    assert "saved" in run("convert", path, out).out
    assert "has not changed" in run("convert", path, out).out
    assert not is_current(path, out, ReadOptions("regression"))
    assert not is_current(path, out, ReadOptions("binary", index_base=1))
    path.write_text(rows_of_pairs(21))
    assert "saved" in run("convert", path, out).out
    assert join_rows(list(batches_of(out, ReadOptions("binary"), None))).n_rows == 21


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("click,color\n1,red\n", {}, "--label COLUMN"),
        ("click,color\n0,red\n1,red\n\n2,red\n", {"label": "click"}, "t.csv:5: a third label, 2, after 0 and 1"),
        ("click,color\n0,red\n-1,red\n", {"label": "click"}, "t.csv:3: the labels 0 and -1 are mixed"),
    ],
)
def test_a_table_needs_labels_that_fit_the_task(tmp_path, text, options, message):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises((ConfigError, DataValueError), match=message):
        training_rows(path, ReadOptions("binary", spec=TableSpec(**options)))


def test_a_model_of_tables_refuses_ids_and_the_other_way_round(tmp_path, table):
    _, encoder = training_rows(table, READ_OPTIONS)
    ids = tmp_path / "rows.svm"
    ids.write_text(rows_of_pairs(5))
    with pytest.raises(DataValueError, match="expects a table"):
        next(batches_of(ids, READ_OPTIONS, encoder))
    with pytest.raises(DataValueError, match="expects feature ids"):
        next(batches_of(table, READ_OPTIONS, None))


def test_unknown_formats_are_named(table):
    with pytest.raises(ConfigError, match="format must be one of auto"):
        training_rows(table, dataclasses.replace(READ_OPTIONS, format="xml"))


def test_a_damaged_or_foreign_arrow_file_is_refused(tmp_path):
    rows, _ = training_rows(_pairs(tmp_path), ReadOptions("binary"))
    out = tmp_path / "rows.arrow"
    write_arrow(out, [rows.block(0)])
    whole = out.read_bytes()
    for size in (7, 100, len(whole) // 2, len(whole) - 1):
        out.write_bytes(whole[:size])
        with pytest.raises(DataFormatError, match="not a complete Arrow file"):
            ArrowRows(out).n_features  # noqa: B018


def _pairs(folder):
    path = folder / "pairs.svm"
    path.write_text(rows_of_pairs(50))
    return path


def test_wide_ids_are_refused_unless_asked_for(tmp_path):
    path, out = tmp_path / "wide.svm", tmp_path / "wide.arrow"
    path.write_text(f"1 {2**31}:1\n")
    (batch,) = batches_of(path, ReadOptions("binary"), None)
    with pytest.raises(FeatureRangeError, match="--wide-ids"):
        write_arrow(out, [batch])
    assert not out.exists()
    write_arrow(out, [batch], wide_ids=True)
    assert ArrowRows(out).block(0).indices.tolist() == [2**31]
    assert ArrowRows(out).n_features == 2**31 + 1


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_number_that_no_float_holds_is_told_by_its_row_in_the_file(tmp_path, suffix):
    path, n = tmp_path / f"rows.{suffix}", 3000
    encoder = TableEncoder.learn(pa.table({"n": [1.0, 2.0, 4.5]}), spec_of(n="number"))
    table = pa.table({"n": [1e300 if row == 2500 else row / 7 for row in range(1, n + 1)]})
    if suffix == "csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path, row_group_size=1000)
    expected = {"csv": r"rows.csv:2501: a value is", "parquet": r"rows.parquet: row 2500 \(counted from 1\): a value"}
    with pytest.raises(DataValueError, match=expected[suffix]):
        [*batches_of(path, ReadOptions("binary"), encoder, targets=False)]
