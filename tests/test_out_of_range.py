"""A score that no prediction belongs to is an error with row and likely cause, wherever scores become predictions."""

import asyncio
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from commands import run
from starlette.requests import Request

from rafm import RaFMRegressor, Scorer, load
from rafm.errors import DataValueError
from rafm.serve.app import Application
from rafm.serve.metrics import SharedMetrics
from rafm.serve.requests import RequestError
from rafm.serve.served import ModelStore
from rafm.serve.settings import Settings

DRAW = np.random.default_rng(0)
N_ROWS = 400
TABLE = pa.table({"size": DRAW.normal(size=N_ROWS), "shop": [f"s{i % 3}" for i in range(N_ROWS)]})
COUNTS = DRAW.poisson(np.exp(0.5 + 0.5 * TABLE["size"].to_numpy()))
LARGE = 1e5  # a score of some ten thousand
FACT = r"the score \d+(\.\d+)?(e\+\d+)? is too large: its exp is infinite"
CAUSE = r"; its largest value is 1\d{5}, of feature size"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Return the file of a model of counts, on a table."""
    folder = tmp_path_factory.mktemp("counts")
    pyarrow.csv.write_csv(TABLE.append_column("y", pa.array(COUNTS)), folder / "train.csv")
    flags = [
        "--label",
        "y",
        "--task",
        "count",
        "--model",
        "lr",
        "--epochs",
        "3",
        "--valid-share",
        "0",
        "--column",
        "size=number",
    ]
    assert run("train", folder / "train.csv", "--out", folder / "m.rafm", "--valid-share", 0, *flags).code == 0
    return folder / "m.rafm"


def rows_with(n_rows, row):
    """Return a table whose row of this number (from 1) is out of range."""
    sizes = np.zeros(n_rows)
    sizes[row - 1] = LARGE
    return pa.table({"size": sizes, "shop": ["s1"] * n_rows})


@pytest.fixture
def data(tmp_path):
    table = rows_with(1000, 900).append_column("y", pa.array([1] * 1000))
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "rows.csv")
    return tmp_path


@pytest.mark.parametrize("n_rows", [1, 2, 200])
def test_a_count_beyond_all_numbers_is_refused_in_python(path, n_rows):  # case 121
    table, model, scorer = rows_with(n_rows, n_rows), load(path), Scorer(path)
    rows = table.to_pylist()
    expected = rf"^row {n_rows} \(counted from 1\): {FACT}{CAUSE}$"
    for predict, given in (
        (model.predict, table),
        (model.explain, table),
        (scorer.predict, rows),
        (scorer.predict, [tuple(row[name] for name in scorer.columns) for row in rows]),
    ):
        with pytest.raises(DataValueError, match=expected):
            predict(given)
    with pytest.raises(DataValueError, match=expected.replace(str(n_rows), "1", 1)):
        scorer.predict(rows[-1])
    scores = scorer.score(rows)
    assert np.isfinite(scores).all()
    with pytest.raises(DataValueError, match=rf"^row {n_rows} \(counted from 1\): {FACT}$"):
        scorer.link(scores)
    assert scorer.link(709.0) < np.inf


@pytest.mark.parametrize("command", ["predict", "predict --json", "evaluate", "explain --rows 1000", "report"])
def test_a_count_beyond_all_numbers_is_refused_by_commands(path, data, command):  # case 121
    name, *flags = command.split()
    files = [path, "--data", data / "rows.parquet", "--out", data / "r.html"] if name == "report" else None
    ran = run(name, *(files or [path, data / "rows.parquet"]), *flags)
    assert ran.code == 3
    assert "row 900 (counted from 1): the score " in ran.err
    assert "of feature size" in ran.err


def test_a_row_of_csv_is_told_by_its_line(path, data):  # case 121
    for command in ("predict", "evaluate"):
        ran = run(command, path, data / "rows.csv")
        assert f"{data / 'rows.csv'}:901: the score " in ran.err


def test_rows_are_counted_from_the_first_of_the_file(path, data):  # case 121
    pa.parquet.write_table(rows_with(3000, 2500), data / "groups.parquet", row_group_size=1000)
    table = pa.parquet.read_table(data / "groups.parquet").append_column("y", pa.array([1] * 3000))
    pa.parquet.write_table(table, data / "groups.parquet", row_group_size=1000)
    for command in ("predict", "evaluate"):
        assert "row 2500 (counted from 1)" in run(command, path, data / "groups.parquet").err


def stream_of(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("form", ["rows", "explain", "arrow", "tensors"])
@pytest.mark.parametrize("n_rows", [1, 300])
def test_a_count_beyond_all_numbers_is_refused_over_http(path, form, n_rows):  # case 121
    settings, table = Settings(str(path)), rows_with(n_rows, n_rows)
    app = Application(settings, ModelStore(settings), SharedMetrics.create(1))
    rows = table.slice(n_rows - 1).to_pylist() if form == "explain" else table.to_pylist()
    inputs = [
        {"name": "size", "shape": [n_rows], "datatype": "FP64", "data": table["size"].to_pylist()},
        {"name": "shop", "shape": [n_rows], "datatype": "BYTES", "data": table["shop"].to_pylist()},
    ]
    content = {"tensors": {"inputs": inputs}, "explain": {"rows": rows, "explain": 1}}.get(form, {"rows": rows})
    body = stream_of(table) if form == "arrow" else json.dumps(content).encode()
    kind = b"application/vnd.apache.arrow.stream" if form == "arrow" else b"application/json"

    async def receive():
        return {"type": "http.request", "body": body}

    scope = {"type": "http", "headers": [(b"content-type", kind)], "path_params": {"name": "m"}}
    with pytest.raises(RequestError) as caught:
        asyncio.run((app.infer if form == "tensors" else app.score)(Request(scope, receive)))
    row = 1 if form == "explain" else n_rows
    assert caught.value.status == 422
    assert caught.value.message.startswith(f"row {row} (counted from 1): the score ")
    assert "of feature size" in caught.value.message


def test_a_model_of_ids_names_the_id(tmp_path):  # case 121
    lines = [f"{i % 4} {1 + i % 4}:1 9:0.5\n" for i in range(200)]
    (tmp_path / "train.svm").write_text("".join(lines))
    (tmp_path / "test.svm").write_text("1 1:1\n1 1:1 9:1e6\n")
    flags = ["--task", "count", "--model", "lr", "--index-base", 1, "--valid-share", 0, "--epochs", 2]
    assert run("train", tmp_path / "train.svm", "--out", tmp_path / "m.rafm", *flags).code == 0
    score = abs(Scorer(tmp_path / "m.rafm").score({9: 1e6}))
    assert score > 800
    sign = np.sign(Scorer(tmp_path / "m.rafm").score({9: 1e6}))
    (tmp_path / "test.svm").write_text(f"1 1:1\n1 1:1 9:{sign * 1e6:g}\n")
    ran = run("predict", tmp_path / "m.rafm", tmp_path / "test.svm")
    assert (ran.code, "row 2 (counted from 1)" in ran.err) == (3, True)
    assert ran.err.endswith(f"its largest value is {sign * 1e6:g}, of feature 9\n")


def test_other_links_take_any_score(path):
    for loss in ("squared", "huber"):
        model = RaFMRegressor(loss=loss, model="lr", n_epochs=1, validation_fraction=0, columns={"size": "number"})
        assert np.isfinite(model.fit(TABLE, COUNTS * 1.0).predict(rows_with(2, 2))).all()
