"""What the doctor says of data whose faults are known."""

import decimal
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from commands import rows_of_pairs, run
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet
from sklearn.metrics import roc_auc_score
from tables import mixed as mixed_table
from warm import run_script

from rafm.encode.encoder import TableEncoder
from rafm.encode.spec import TableSpec
from rafm.inspect import examine as examining
from rafm.inspect.examine import examine
from rafm.inspect.leaks import assign_halves
from rafm.inspect.report import BINS, histogram, plan_for
from rafm.inspect.sketch import Frequencies
from rafm.model.file import load
from rafm.plan.ranks import NearestRank, describe_plan, plan_ranks
from rafm.read.open import ReadOptions
from rafm.rows.checked import check_batch
from rafm.rows.stats import count_rows


def inspect(*arguments, code=0, **settings):
    ran = run("inspect", *arguments, "--json", **settings)
    assert ran.code == code, ran
    return ran.json()


def columns_of(report):
    return {column["name"]: column for column in report["columns"]}


@pytest.fixture(scope="module")
def table():
    """Return clicks of which every column has something of its own."""
    draw, n = np.random.default_rng(0), 4000
    y = (draw.random(n) < 0.3).astype(int)
    times = np.where(y == 1, 1_700_000_000 + np.arange(n), 0).astype("datetime64[s]")
    return pa.table(
        {
            "click": y,
            "row_id": np.arange(n),
            "user_id": (draw.pareto(1, n) * 20).astype(int),
            "country": ["de"] * n,
            "city": ["Rome"] * (n // 2) + ["Oslo"] * (n // 4) + [None] * (n // 4),
            "score": y + draw.normal(0, 0.2, n),
            "bought_at": pa.array(times, mask=y == 0),
            "note": pa.nulls(n, pa.string()),
            "tags": [["a", "b"], ["a"], [], ["c"]] * (n // 4),
        }
    )


def write(table, folder, format):
    """Write a table in one of the formats that tables come in; return its path."""
    text = io.BytesIO()
    csv.write_csv(table.drop(["tags"]), text)
    path = folder / f"t.{format}"
    if format == "csv":
        path.write_bytes(text.getvalue())
    elif format == "csv.gz":
        path.write_bytes(gzip.compress(text.getvalue()))
    elif format == "csv.zst":
        path.write_bytes(pa.Codec("zstd").compress(text.getvalue(), asbytes=True))
    elif format == "tsv":
        csv.write_csv(table.drop(["tags"]), path, csv.WriteOptions(delimiter="\t"))
    elif format == "parquet":
        parquet.write_table(table, path)
    else:
        path.mkdir()
        for part in range(4):
            parquet.write_table(table.slice(1000 * part, 1000), path / f"{part}.parquet")
    return path


@pytest.mark.parametrize("format", ["csv", "csv.gz", "csv.zst", "tsv", "parquet", "folder", "glob", "stdin"])
def test_the_faults_of_a_table_are_found_in_every_format(table, tmp_path, format):
    stdin, given = b"", []
    path = write(table, tmp_path, {"stdin": "csv", "glob": "folder"}.get(format, format))
    if format == "stdin":
        path, stdin, given = "-", path.read_bytes(), ["--format", "csv"]
    report = inspect(path / "*.parquet" if format == "glob" else path, "--label", "click", *given, stdin=stdin)
    columns = columns_of(report)
    assert report["rows"] == 4000
    assert report["task"] == "binary"
    assert report["labels"]["counts"] == {
        "0": 4000 - sum(table["click"].to_pylist()),
        "1": sum(table["click"].to_pylist()),
    }
    assert report["duplicates"] == {"rows": 0, "exact": True}
    assert report["bad_lines"] == {"count": 0, "complete": True, "first": []}
    city = columns["city"]
    assert (city["values"], city["top"], city["top_share"], city["missing"]) == (2, "Rome", 0.5, 0.25)
    user = np.unique(table["user_id"], return_counts=True)[1]
    assert (columns["user_id"]["values"], columns["user_id"]["once"]) == (user.size, (user == 1).sum())
    assert columns["user_id"]["twice"] == (user == 2).sum()
    assert columns["user_id"]["top_share"] == user.max() / 4000
    found = report["findings"]
    assert [line.split("`")[1] for line in found] == ["score", "bought_at", "row_id", "country", "note"]
    assert "alone has AUC" in found[0]
    assert "is it known before the label?" in found[0]
    assert "different value in nearly every row" in found[2]
    assert "is constant: ignore it" in found[3]
    assert "is always empty" in found[4]


def test_ids_that_memorise_are_not_suspected(table, tmp_path):
    columns = columns_of(inspect(write(table, tmp_path, "parquet"), "--label", "click"))
    assert columns["row_id"]["auc"] == 0.5
    assert columns["user_id"]["auc"] == pytest.approx(0.5, abs=0.05)
    assert columns["score"]["auc"] > 0.99
    assert columns["bought_at"]["auc"] == 1.0


def test_the_power_of_a_column_is_the_auc_that_scikit_learn_finds_on_the_other_half(table, tmp_path):
    draw = np.random.default_rng(1)
    y, n = np.array(table["click"]), table.num_rows
    shop = np.where(draw.random(n) < 0.4, y, draw.integers(0, 5, n))
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"click": y, "shop": [f"s{i}" for i in shop]}), path)
    half = assign_halves(0, n) == 1
    means = [(y[~half & (shop == s)].sum() + 2 * y.mean()) / ((~half & (shop == s)).sum() + 2) for s in range(5)]
    expected = roc_auc_score(y[half], np.array(means)[shop[half]])
    assert columns_of(inspect(path, "--label", "click"))["shop"]["auc"] == pytest.approx(expected, abs=1e-12)


def test_a_column_that_tells_a_rating_is_suspected_by_its_correlation(tmp_path):
    draw = np.random.default_rng(0)
    stars = draw.integers(1, 6, 2000)
    movie = draw.integers(0, 9, 2000)
    parquet.write_table(pa.table({"stars": stars, "echo": stars * 10.5, "movie_id": movie}), tmp_path / "r.parquet")
    report = inspect(tmp_path / "r.parquet", "--label", "stars")
    columns = columns_of(report)
    assert report["task"] == "regression"
    assert report["labels"]["mean"] == pytest.approx(stars.mean())
    assert report["labels"]["std"] == pytest.approx(stars.std())
    assert (report["labels"]["min"], report["labels"]["max"]) == (1, 5)
    assert columns["echo"]["r2"] == pytest.approx(1, abs=1e-4)
    assert columns["movie_id"]["r2"] < 0.02
    assert report["findings"][0] == "column `echo` alone has R2 1.000: is it known before the label?"
    assert "movie_id" not in "".join(report["findings"])


def test_without_a_label_its_column_is_asked_for(table, tmp_path):
    report = inspect(write(table, tmp_path, "csv"))
    assert report["findings"][0] == "no labels: name the label column with --label COLUMN"
    assert (report["task"], report["labels"]) == (None, None)
    assert columns_of(report)["click"]["values"] == 2


def test_options_of_training_change_what_columns_become(table, tmp_path):
    path = write(table, tmp_path, "csv")
    given = ["--label", "click", "--column", "score=bins:20", "--column", "row_id=ignore", "--min-count", "2"]
    report = inspect(path, *given)
    columns = columns_of(report)
    assert columns["score"]["kind"] == "bins"
    assert (report["ignored"], "row_id" in columns) == (["row_id"], False)
    assert report["features"] < inspect(path, "--label", "click")["features"] - 4000


def test_features_are_those_that_training_would_make(tmp_path):
    table, spec = mixed_table(3000)
    parquet.write_table(table, tmp_path / "t.parquet")
    spec = TableSpec.from_dict(spec.to_dict() | {"weight": None})
    spec_columns = [column for column in spec.columns if column.kind not in ("bins", "list")]
    spec = TableSpec(**{**vars(spec), "columns": tuple(spec_columns)})
    table = table.drop(["size", "tags", "w"])
    parquet.write_table(table, tmp_path / "t.parquet")
    counts = count_rows([check_batch(TableEncoder.learn_encode(table, spec)[1])]).counts
    found = examine(tmp_path / "t.parquet", ReadOptions("regression", spec=spec)).frequencies()
    assert dict(zip(*found)) == dict(zip(*np.unique(counts, return_counts=True)))


def test_clicks_out_of_impressions_are_labels_with_weights(tmp_path):
    rows = pa.table({"c": [1, 0, 2], "n": [4, 1, 5], "city": ["Rome", "Oslo", "Rome"]})
    parquet.write_table(rows, tmp_path / "t.parquet")
    spec = TableSpec(clicks="c", impressions="n")
    labels = examine(tmp_path / "t.parquet", ReadOptions("regression", spec=spec)).labels
    assert (labels.weight, labels.mean) == (10, pytest.approx(0.3))


def test_a_type_that_cannot_be_a_feature_is_named_and_the_others_are_looked_at(tmp_path):
    rows = pa.table({"y": [0, 1], "point": [{"x": 1}, {"x": 2}], "city": ["Rome", "Oslo"]})
    parquet.write_table(rows, tmp_path / "t.parquet")
    report = inspect(tmp_path / "t.parquet", "--label", "y", code=3)
    assert any("column 'point' has type struct" in line for line in report["findings"])
    assert columns_of(report)["city"]["values"] == 2


def test_cells_that_are_not_finite_or_no_times_are_named(tmp_path):
    rows = pa.table({"y": [0, 1], "x": [0.5, float("inf")], "when": ["2014-10-21", "soon"]})
    parquet.write_table(rows, tmp_path / "t.parquet")
    report = inspect(tmp_path / "t.parquet", "--label", "y", "--column", "when=datetime", code=3)
    assert any("column 'x', row 2: inf is not finite" in line for line in report["findings"])
    assert any("column 'when', row 2: expected a time" in line for line in report["findings"])


@pytest.mark.parametrize(
    ("cells", "kind", "values", "top"),
    [
        (pa.array([True, None, True, False]), "category", 2, "true"),
        (pa.array([np.float16(1.5), None, np.float16(1.5), np.float16(2)], pa.float16()), "bins", 2, "1.5"),
        (pa.array([-0.0, None, 0.0, 2]), "category", 2, "0"),
        (pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("1.5"), decimal.Decimal("2.5")]), "bins", 2, "1.5"),
        (pa.array([2**63 + 5, None, 2**63 + 5, 1], pa.uint64()), "category", 2, str(2**63 + 5)),
        (pa.array([b"a", None, b"a", b"b"]), "category", 2, "a"),
        (pa.array(["a", None, "a", "b"]).dictionary_encode(), "category", 2, "a"),
        (pa.array([9, None, 9, 1], pa.date32()), "datetime", 2, "1970-01-10"),
        (pa.array([9, None, 9, 1], pa.timestamp("us")), "datetime", 2, "1970-01-01 00:00:00.0..."),
        (pa.array([["a", "b"], None, ["a"], []]), "list", 2, "a"),
        (pa.nulls(4), "category", 0, None),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_cells_of_every_type_are_looked_at(tmp_path, cells, kind, values, top):
    parquet.write_table(pa.table({"y": [0, 1, 0, 1], "x": cells}), tmp_path / "t.parquet")
    found = columns_of(inspect(tmp_path / "t.parquet", "--label", "y"))["x"]
    assert (found["kind"], found["values"], found["top"]) == (kind, values, top)
    assert found["missing"] == (1 if top is None else 0.25)


def test_repeated_rows_are_counted(tmp_path):
    text = "".join(f"{i % 2},u{i % 7},{i % 3}.5\n" for i in range(420))
    (tmp_path / "t.csv").write_text("y,user,price\n" + text)
    report = inspect(tmp_path / "t.csv", "--label", "y")
    assert report["duplicates"] == {"rows": 420 - 42, "exact": True}
    assert "378 rows (90.0 %) repeat an earlier one" in report["findings"][-1]


@pytest.mark.parametrize("form", ["{y} {a}:1 {b}:2\n", "{y} 0:{a}:1 3:{b}:2\n"], ids=["libsvm", "libffm"])
def test_repeated_rows_with_ids_are_counted_whatever_their_order(tmp_path, form):
    rows = [form.format(y=i % 2, a=i % 5, b=100 + i % 3) for i in range(300)]
    (tmp_path / "t.txt").write_text("".join(rows))
    assert inspect(tmp_path / "t.txt")["duplicates"]["rows"] == 300 - 30
    changed = [rows[0].replace(":2", ":2.5"), "5" + rows[0][1:], *rows]
    (tmp_path / "t.txt").write_text("".join(changed))
    assert inspect(tmp_path / "t.txt")["duplicates"]["rows"] == 300 - 30


BAD = {
    "libsvm": (
        "1 3:1 7:{i}\n",
        ["1 x\n", "nan 3:1\n", "1 5:1 5:2\n", "1 5:1e39\n", "1 5:3402823567797336616375394e14\n"],
    ),
    "libffm": ("1 0:3:1 1:7:{i}\n", ["1 3:1\n", "nan 0:3:1\n", "1 0:5:1 1:5:2\n", "1 0:5:1e39\n", "1 -1:5:1\n"]),
    "csv": ("1,u{i},{i}.5\n", ["1,u\n", "1,u,1,2\n", "1,\xff,1\n", "x,u,1\n", "1,u,1e999\n", '1,"a\nb",zz\n']),
}


@pytest.mark.parametrize("format", BAD)
@pytest.mark.parametrize("size", [64, 1 << 18])
def test_bad_lines_are_numbered_and_left_out_and_reading_goes_on(tmp_path, monkeypatch, format, size):
    """Text of good lines, blank ones and every kind of bad one; the good ones must be all that is counted."""
    monkeypatch.setattr(examining, "TEXT_BYTES", size)
    draw = np.random.default_rng(0)
    good, kinds = BAD[format]
    text, lines, n_good = ("y,user,x\n" + good.format(i=0) if format == "csv" else ""), [], int(format == "csv")
    for i in range(1, 500):
        line = text.count("\n") + 1
        if draw.random() < 0.2:
            text += kinds[draw.integers(len(kinds))]
            lines.append(line)
        elif draw.random() < 0.1:
            text += "\n"
        else:
            text, n_good = text + good.format(i=i), n_good + 1
    path = tmp_path / f"t.{format}"
    path.write_bytes(text.encode("latin-1"))
    options = ["--label", "y", "--column", "x=number", "--task", "regression"] if format == "csv" else []
    report = inspect(path, "--format", format, *options, code=3)
    assert report["rows"] == n_good
    assert report["bad_lines"]["count"] == len(lines)
    assert [bad["line"] for bad in report["bad_lines"]["first"]] == lines[:20]
    assert all(f"{path}:{bad['line']}:" in bad["message"] for bad in report["bad_lines"]["first"])
    assert report["findings"][0] == f"{len(lines)} bad lines: training stops at the first"


def test_bad_lines_are_listed_with_the_error_of_training_and_exit_code_3(tmp_path):
    (tmp_path / "t.svm").write_text(rows_of_pairs(50) + "1 17;1\n" + rows_of_pairs(50))
    ran = run("inspect", tmp_path / "t.svm")
    assert ran.code == 3
    assert ran.err == f"error: {tmp_path / 't.svm'}: 1 bad line; see the report\n"
    assert f'{tmp_path / "t.svm"}:51:3: expected "id:value", found "17;1"\n' in ran.out
    assert "rows           100\n" in ran.out


def test_reading_ends_at_very_many_bad_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(examining, "MAX_BAD", 50)
    (tmp_path / "t.svm").write_text("1 1:1\n" + "x\n" * 100)
    report = inspect(tmp_path / "t.svm", "--format", "libsvm", code=3)
    assert report["bad_lines"]["count"] == 50
    assert report["bad_lines"]["complete"] is False
    assert "is this really libsvm?" in report["findings"][0]
    (tmp_path / "t.csv").write_text("a,b\n1,2\n" + "x\n" * 100)  # tables are sampled before the first row is looked at
    assert run("inspect", tmp_path / "t.csv").error() == f"{tmp_path / 't.csv'}:3: expected 2 columns, found 1"


def test_damage_behind_good_rows_is_a_bad_line_too(tmp_path):
    packed = gzip.compress("".join(f"1 {i}:1\n" for i in range(5000)).encode())
    (tmp_path / "t.svm.gz").write_bytes(packed[: len(packed) // 2])
    report = inspect(tmp_path / "t.svm.gz", code=3)
    assert 0 < report["rows"] < 5000
    assert "compressed data ends early" in report["bad_lines"]["first"][0]["message"]


def test_a_parquet_folder_with_a_damaged_part_is_looked_at_up_to_it(table, tmp_path):
    folder = write(table, tmp_path, "folder")
    data = bytearray((folder / "3.parquet").read_bytes())
    data[100:400] = bytes(300)
    (folder / "3.parquet").write_bytes(data)
    report = inspect(folder, "--label", "click", code=3)
    assert report["rows"] == 3000
    assert "broken Parquet file" in report["bad_lines"]["first"][0]["message"]


def test_fields_of_libffm_are_columns(tmp_path):
    draw, rows = np.random.default_rng(0), []
    for i in range(1000):
        y = int(draw.random() < 0.5)
        late = f" 9:{900 + y}:1" if i >= 10 else ""
        rows.append(f"{y} 0:5:1 2:{10 + i % 4}:1 3:7:{i}{late}\n")
    (tmp_path / "t.ffm").write_text("".join(rows))
    report = inspect(tmp_path / "t.ffm")
    columns = columns_of(report)
    assert [*columns] == ["field 0", "field 2", "field 3", "field 9"]
    assert (columns["field 2"]["values"], columns["field 2"]["top_share"]) == (4, 0.25)
    assert columns["field 9"]["missing"] == 0.01
    assert columns["field 3"]["missing"] == 0.001  # its first value is a zero
    assert [line.split("`")[1] for line in report["findings"]] == ["field 9", "field 0"]
    assert report["largest_id"] == 901


def test_a_feature_of_libsvm_that_tells_the_label_is_suspected(tmp_path):
    draw = np.random.default_rng(0)
    rows = [(int(draw.random() < 0.5), 100 + i) for i in range(1000)]
    (tmp_path / "t.svm").write_text("".join(f"{y} {i}:1{' 77:1' * y}\n" for y, i in rows))
    report = inspect(tmp_path / "t.svm")
    assert report["findings"] == ["feature 77 alone has AUC 1.000: is it known before the label?"]
    (tmp_path / "t.svm").write_text("".join(f"{2.5 * y + 7} {i + 1}:1{' 77:1' * y}\n" for y, i in rows))
    report = inspect(tmp_path / "t.svm", "--index-base", "1", "--task", "regression")
    assert report["findings"] == ["feature 77 alone has R2 1.000: is it known before the label?"]


def test_a_converted_table_has_the_columns_of_the_table(table, tmp_path):
    path, out = write(table, tmp_path, "parquet"), tmp_path / "t.arrow"
    assert run("convert", path, out, "--label", "click").code == 0
    report, raw = inspect(out), inspect(path, "--label", "click")
    assert report["format"] == "arrow"
    columns = columns_of(report)
    assert [*columns] == sorted(columns_of(raw))
    assert columns["city"]["top"] == "Rome"
    assert columns["user_id"]["values"] == columns_of(raw)["user_id"]["values"]
    assert columns["user_id"]["auc"] == columns_of(raw)["user_id"]["auc"]
    assert columns["score"]["auc"] > 0.99
    # Blocks of the two files differ in size, so sums of squares may differ in the last digit.
    assert report["labels"].pop("std") == pytest.approx(raw["labels"].pop("std"), rel=1e-14)
    assert report["labels"] == raw["labels"]


@pytest.mark.parametrize(
    ("labels", "finding"),
    [
        ("0 0 0", "all labels are 0: there is nothing to learn"),
        ("0 1 -1", "the labels 0 and -1 are mixed: use 0 and 1, or -1 and 1"),
        ("1 " + "0 " * 1999, "0.05 % of the labels are positive: AUC and log loss will be unreliable"),
    ],
)
def test_labels_that_cannot_teach_are_named(tmp_path, labels, finding):
    (tmp_path / "t.svm").write_text("".join(f"{y} {i}:1\n" for i, y in enumerate(labels.split())))
    assert inspect(tmp_path / "t.svm")["findings"][0] == finding


def test_good_data_have_no_findings(tmp_path):
    (tmp_path / "t.svm").write_text("".join(f"{i % 2} {i // 2}:1 {500 + i}:2\n" for i in range(1000)))
    assert inspect(tmp_path / "t.svm")["findings"] == []
    assert "* nothing suspicious" in run("inspect", tmp_path / "t.svm").out


def test_the_report_for_people_has_the_numbers_of_the_report_for_programs(table, tmp_path):
    path = write(table, tmp_path, "parquet")
    report, text = inspect(path, "--label", "click"), run("inspect", path, "--label", "click").out
    for column in report["columns"]:
        line = next(line.split() for line in text.splitlines() if line.startswith(column["name"] + " "))
        assert line[1:5] == [column["kind"], *(str(column[name]) for name in ("values", "once", "twice"))]
        assert line[6] == f"{column['auc']:.3f}"
    for line in report["findings"]:
        assert f"* {line}\n" in text
    assert "--ranks 8,32" in text


@given(st.lists(st.integers(1, 20_000), min_size=1, max_size=40))
def test_every_feature_is_in_the_one_range_that_its_count_lies_in(counts):
    found = histogram(Frequencies(*np.unique(counts, return_counts=True)))
    assert [name.split("-")[0] for name, _, _ in found] == [str(low) for low in BINS]
    for name, size, share in found:
        low, high = (int(end) if end else 10**9 for end in name.split("-"))
        inside = [count for count in counts if low <= count <= high]
        assert size == len(inside)
        assert share == pytest.approx(sum(inside) / sum(counts))


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=40), st.sampled_from([0.3, 1.0, 4.0]))
def test_a_plan_from_frequencies_is_that_of_the_features_one_by_one(counts, scale):
    expected, order = plan_ranks("rafm", (8, 32, 128), np.array(counts), NearestRank(scale))
    found = plan_for(Frequencies(*np.unique(counts, return_counts=True)), (8, 32, 128), scale, 50)
    assert found.plan == expected
    assert json.dumps(found.described) == json.dumps(describe_plan(expected, np.array(counts)[order], 50))


@pytest.mark.parametrize(("task", "labels"), [("binary", 2), ("regression", 5)])
def test_the_plan_is_that_of_training(tmp_path, task, labels):
    path, out = tmp_path / "t.svm", tmp_path / "m.rafm"
    path.write_text("".join(f"{i % labels} {i % 20}:1 {20 + i % 3}:1\n" for i in range(1400)))
    ran, report = run("inspect", path, "--task", task), inspect(path, "--task", task)
    assert run("train", path, "--out", out, "--epochs", "1", "--task", task).code == 0
    trained = load(out).model.plan
    assert report["ranks"] == [*trained.ranks]
    assert f"--ranks {','.join(map(str, trained.ranks))} --rank-scale 4 (the default) would give\n" in ran.out
    assert f"{trained.n_parameters} " in ran.out


MEASURE = """
import re, sys
from rafm.read.open import ReadOptions
from rafm.inspect.examine import examine
def megabytes():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1000
read_options = ReadOptions("regression", "csv")
peaks = []
for path in sys.argv[1:]:
    found = examine(path, read_options)
    peaks.append(megabytes())
print(found.rows, found.distinct.is_exact, peaks[1] - peaks[0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_memory_does_not_grow_with_the_rows_even_if_all_values_differ(tmp_path):
    for name, n_rows in (("small", 1_600_000), ("large", 3_600_000)):
        numbers = np.arange(n_rows)
        csv.write_csv(pa.table({"id": numbers, "name": pa.array(numbers * 7).cast(pa.string())}), tmp_path / name)
    process = run_script(MEASURE, tmp_path / "small", tmp_path / "large")
    assert process.returncode == 0, process.stderr
    rows, exact, grown = process.stdout.split()
    assert (rows, exact) == ("3600000", "False")
    assert float(grown) < 150  # exact counts of two columns take 100 bytes and more of each row


def test_a_cell_that_training_would_stop_at_gives_exit_code_3(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("click,day,u\n1,2024-01-02,a\n0,2024-01-03,b\n1,2024-13-45,a\n0,2024-01-05,b\n")
    given = ("--label", "click", "--column", "day=datetime")
    for bad, reason in (("2024-13-45", "3: expected a time"), ("2024-01-04T08:00Z", "1: some times have a time zone")):
        path.write_text(path.read_text().replace("2024-13-45", bad))
        ran = run("inspect", path, *given)
        assert ran.code == 3
        assert ran.err.startswith(f"error: {path}: training would stop: column 'day', row {reason}")
        (fault,) = inspect(path, *given, code=3)["faults"]
        trained = run("train", path, *given, "--out", tmp_path / "m.rafm", "--epochs", 1)
        assert trained.code == 3
        assert fault in trained.err
    path.write_text(path.read_text().replace(bad, "2024-01-04"))
    assert inspect(path, *given)["faults"] == []


def test_prose_is_advised_to_be_a_list_of_words(tmp_path):  # case 133
    lines = [f"good {'old ' * (k % 3)}film number {k},{k % 2}" for k in range(200)]
    (tmp_path / "t.csv").write_text("review,y\n" + "\n".join(lines) + "\n")
    [finding] = inspect(tmp_path / "t.csv", "--label", "y")["findings"]
    assert finding == "column `review` has text of several words: to learn from them, use --column 'review=list: '"
