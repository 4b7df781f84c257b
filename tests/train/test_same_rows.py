"""The same rows give the same model, byte for byte, however they are stored: by default, which is where rows decide."""

import gzip
import hashlib
import json

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from commands import run

from rafm import RaFMClassifier, RaFMRegressor
from rafm.files.container import parse_container

N_ROWS = 5_100  # enough to hold a share out and to sample
TASKS = {"binary": RaFMClassifier, "regression": RaFMRegressor}
COMPARED = {"rafm", "lr", "fm", "sampled fm"}
SEED = 3


@pytest.fixture(scope="module", params=TASKS)
def task(request):
    return request.param


@pytest.fixture(scope="module")
def table(task):
    """Return rows of users, items and prices, some of which are missing; ratings are from 1 to 5."""
    draw = np.random.default_rng(1)
    user, item, price = draw.integers(0, 60, N_ROWS), draw.integers(0, 40, N_ROWS), draw.normal(5, 2, N_ROWS)
    score = draw.normal(size=60)[user] + draw.normal(size=40)[item] + (price - 5) / 2
    score += (draw.normal(size=(60, 3))[user] * draw.normal(size=(40, 3))[item]).sum(axis=1)
    ratings = np.clip(np.round(3 + score / 2 + draw.normal(size=N_ROWS) / 2), 1, 5)
    label = (score + draw.logistic(size=N_ROWS) > 0).astype(int) if task == "binary" else ratings
    columns = {"user": [f"u{i}" for i in user], "item": [f"i{i}" for i in item]}
    return pa.table({**columns, "price": pa.array(price, mask=draw.random(N_ROWS) < 0.05), "y": label})


@pytest.fixture(scope="module")
def text(table):
    """Return the users and items as libsvm text."""
    users, items = ([int(name[1:]) for name in table[column].to_pylist()] for column in ("user", "item"))
    rows = zip(table["y"].to_pylist(), users, items)
    return "".join(f"{label} {user}:1 {60 + item}:1\n" for label, user, item in rows)


def competed(path, task, *options):
    """Train from a file with the seed alone; return the bytes of the model and the models that competed."""
    ran = run("train", path, "--task", task, "--seed", SEED, *options, "--out", f"{path}.rafm", "--json")
    assert ran.code == 0, ran
    return (path.parent / f"{path.name}.rafm").read_bytes(), set(ran.json()["competition"])


def digests(models):
    """Return the SHA-256 of each model; print them, for a failure to show which one differs."""
    found = {name: hashlib.sha256(model).hexdigest() for name, model in models.items()}
    print(json.dumps(found, indent=1))
    return set(found.values())


@pytest.fixture(scope="module")
def from_text(text, task, tmp_path_factory):
    """Return the models of one libsvm file in its forms, and who competed for each."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "rows.libsvm").write_text(text)
    (folder / "rows.libsvm.gz").write_bytes(gzip.compress(text.encode()))
    assert run("convert", folder / "rows.libsvm", folder / "rows.arrow", "--task", task).code == 0
    return {name: competed(folder / name, task) for name in ("rows.libsvm", "rows.libsvm.gz", "rows.arrow")}


@pytest.fixture(scope="module")
def from_tables(table, task, tmp_path_factory):
    """Return the models of one table in files of several formats, and who competed for each."""
    folder, label = tmp_path_factory.mktemp("tables"), ("--label", "y")
    pyarrow.csv.write_csv(table, folder / "rows.csv")
    (folder / "rows.csv.gz").write_bytes(gzip.compress((folder / "rows.csv").read_bytes()))
    pyarrow.parquet.write_table(table, folder / "rows.parquet")
    assert run("convert", folder / "rows.csv", folder / "rows.arrow", "--task", task, *label).code == 0
    found = {name: competed(folder / name, task, *label) for name in ("rows.csv", "rows.csv.gz", "rows.parquet")}
    return found | {"rows.arrow": competed(folder / "rows.arrow", task)}


def saved(task, X, y, path):
    """Fit an estimator with the seed alone; return the bytes of the model and the models that competed."""
    model = TASKS[task](random_state=SEED).fit(X, y)
    model.save(path)
    return path.read_bytes(), set(model.competition_)


@pytest.fixture(scope="module")
def from_frames(table, task, tmp_path_factory):
    """Return the models of the table in memory, and who competed for each."""
    folder, X, y = tmp_path_factory.mktemp("frames"), table.drop(["y"]), table["y"].to_numpy()
    forms = {"pandas": X.to_pandas(), "polars": pl.from_arrow(X), "arrow": X}
    return {name: saved(task, form, y, folder / f"{name}.rafm") for name, form in forms.items()}


@pytest.mark.parametrize("group", ["from_text", "from_tables", "from_frames"])
def test_the_same_rows_give_the_same_bytes_in_any_form(task, group, request):  # case 117
    models = request.getfixturevalue(group)
    assert len(digests({name: model for name, (model, _) in models.items()})) == 1
    assert all(names == COMPARED - {"rafm"} or names == COMPARED for _, names in models.values())


def header_of(model):
    """Return the description of a model file, without the checksum of its bytes."""
    return parse_container(memoryview(model))[0]


def test_a_frame_and_a_file_differ_in_what_only_one_of_them_knows(task, from_tables, from_frames):  # case 117
    by_command, by_estimator = (
        header_of(models[name][0]) for models, name in ((from_tables, "rows.csv"), (from_frames, "pandas"))
    )
    # X has no label column; it has an order of columns, by which rows without names may be given. y has classes, which
    # are not stored for the labels 0 and 1 of a file.
    assert by_command["encoder"].pop("table") == {"label": "y"}
    assert by_estimator["encoder"].pop("table") == {}
    assert by_estimator.pop("columns") == ["user", "item", "price"]
    assert "columns" not in by_command
    assert by_estimator.pop("classes") == ([0, 1] if task == "binary" else None)
    assert by_command.pop("classes") is None
    assert by_estimator == by_command
