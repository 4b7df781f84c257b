"""A served file becomes something else: what is no model, or answers other requests, is refused."""

import asyncio
import logging
import os
import shutil
import signal
import socket

import numpy as np
import pyarrow as pa
import pytest
from commands import run
from fitted import long_tail, make
from serving import serving, until

from rafm import Scorer
from rafm.errors import DataFormatError, ModelFormatError
from rafm.serve.metrics import SharedMetrics
from rafm.serve.served import ModelStore, load_served
from rafm.serve.settings import Settings

N_ROWS = 200
CITIES = [f"c{i % 3}" for i in range(N_ROWS)]
AGES = [i % 40 + 0.5 for i in range(N_ROWS)]
LABELS = np.arange(N_ROWS) % 2


def fitted(columns, labels=LABELS, task="binary"):
    return make(task, "lr").fit(pa.table(columns), labels)


MODELS = {
    "first": lambda: fitted({"city": CITIES, "age": AGES}),
    "again": lambda: fitted({"city": [*CITIES[1:], "new"], "age": [*AGES[1:], 7.0]}),
    "of more columns": lambda: fitted({"city": CITIES, "age": AGES, "sky": CITIES}),
    "of fewer columns": lambda: fitted({"city": CITIES}),
    "of other types": lambda: fitted({"city": CITIES, "age": CITIES}),
    "in another order": lambda: fitted({"age": AGES, "city": CITIES}),
    "of another task": lambda: fitted({"city": CITIES, "age": AGES}, LABELS * 2.0, "regression"),
    "of other classes": lambda: fitted({"city": CITIES, "age": AGES}, np.array(["no", "yes"])[LABELS]),
    "of ids": lambda: make("binary", "lr").fit(*long_tail()),
}
CHANGES = {
    "of more columns": "the new column 'sky'",
    "of fewer columns": "no column 'age'",
    "of other types": "column 'age' of type text instead of number",
    "in another order": "the columns in another order",
    "of another task": "the task regression instead of binary",
    "of other classes": "the classes ['no', 'yes'] instead of",
    "of ids": "feature ids instead of the columns of a table",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a folder with a file of each of MODELS."""
    folder = tmp_path_factory.mktemp("models")
    for name, fit in MODELS.items():
        fit().save(folder / f"{name}.rafm")
    return folder


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    bound = socket.socket(socket.AF_UNIX)
    bound.bind(os.path.relpath(path))
    bound.close()


ODD = {
    "a pipe": make_pipe,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terminal's twin": lambda path: path.symlink_to("/dev/null"),
    "a socket": make_socket,
    "a folder": lambda path: path.mkdir(),
}


def put(make, path):
    """Put what a function makes in the place of a file."""
    path.unlink()
    make(path)


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_regular_file_is_never_a_model(tmp_path, monkeypatch, name):  # case 125
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.rafm"
    ODD[name](path)
    expected = r"^m\.rafm: is a (folder|pipe, socket or device)"
    for load in (Scorer, lambda path: load_served(Settings(str(path)))):
        with pytest.raises(ModelFormatError, match=expected):
            load(path)
    (tmp_path / "rows.svm").write_text("1 1:1\n")
    for command in ("predict", "evaluate"):
        ran = run(command, path, "rows.svm")
        assert (ran.code, ran.error().startswith("m.rafm: is a ")) == (4, True)


@pytest.mark.parametrize("name", ODD)
def test_a_served_file_that_becomes_something_else_is_refused(files, tmp_path, monkeypatch, name):  # case 125
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.rafm"
    shutil.copy(files / "first.rafm", path)

    async def story():
        store = ModelStore(Settings(str(path)))
        first = store.current
        put(ODD[name], path)
        level, text = await store.refresh()
        assert (level, "the new file is bad: m.rafm: is a " in text, store.current) == (logging.ERROR, True, first)
        assert await store.refresh() is None  # once is enough
        (path.rmdir if path.is_dir() else path.unlink)()
        assert await store.refresh() is None
        shutil.copy(files / "again.rafm", path)
        assert (await store.refresh())[0] == logging.INFO
        assert store.current.sha256 != first.sha256

    asyncio.run(story())


def test_items_in_a_pipe_are_refused(files, tmp_path):  # case 125
    os.mkfifo(tmp_path / "items.csv")
    with pytest.raises(DataFormatError, match="is a pipe or device, but items are read again"):
        load_served(Settings(str(files / "first.rafm"), items=str(tmp_path / "items.csv")))


@pytest.mark.parametrize("name", [*CHANGES, "again"])
@pytest.mark.parametrize("allow_change", [False, True])
def test_a_model_that_takes_other_requests_needs_permission(files, tmp_path, name, allow_change):  # case 126
    path = tmp_path / "m.rafm"
    shutil.copy(files / "first.rafm", path)

    async def story():
        store = ModelStore(Settings(str(path), allow_change=allow_change))
        first = store.current
        shutil.copy(files / f"{name}.rafm", tmp_path / "new")
        (tmp_path / "new").replace(path)
        level, text = await store.refresh()
        assert CHANGES.get(name, "serving") in text
        is_loaded = allow_change or name == "again"
        assert (level, store.current is first) == (logging.INFO if is_loaded else logging.WARNING, not is_loaded)
        assert is_loaded or "--allow-change" in text

    asyncio.run(story())


def test_digests_of_workers_have_places_of_their_own():
    metrics = [SharedMetrics.create(2)]
    metrics.append(SharedMetrics(metrics[0].file_number, 2, worker=1))
    for worker, mine in enumerate(metrics):
        for name in ("sha256", "contract"):
            mine.set_digest(name, f"{worker}{name[0]}" * 32)
    mine.set("ready", 1)
    assert [metrics[0].digest("sha256", worker) for worker in (0, 1)] == ["0s" * 32, "1s" * 32]
    assert [metrics[0].digest("contract", worker) for worker in (0, 1)] == ["0c" * 32, "1c" * 32]


@pytest.mark.slow
def test_a_server_refuses_a_pipe_and_another_model_and_stops_in_time(files, tmp_path):  # cases 125 and 126
    path = tmp_path / "m.rafm"
    shutil.copy(files / "first.rafm", path)
    with serving(path, tmp_path, "--reload-seconds", 0.05, "--drain-seconds", 0) as server:
        row = {"rows": [{"city": "c1", "age": 1.5}]}
        before = server.ask("/score", row).json()
        put(make_pipe, path)
        until(lambda: server.metric("rafm_model_reload_failures_total") == 1)
        shutil.copy(files / "of ids.rafm", tmp_path / "new")
        (tmp_path / "new").replace(path)
        until(lambda: server.metric("rafm_model_reload_failures_total") == 2)
        assert server.ask("/score", row).json() == before
        assert "ERROR worker 0: kept the model before, since the new file is bad: m.rafm: is a pipe" in server.errors()
        assert "WARNING worker 0: kept the model before, since the new one has feature ids" in server.errors()

        [worker] = server.workers()
        os.kill(worker, signal.SIGKILL)
        until(lambda: "has other columns, task or classes than the model served so far" in server.errors())
        shutil.copy(files / "again.rafm", tmp_path / "new")
        (tmp_path / "new").replace(path)
        until(lambda: server.metric("rafm_workers_ready") == 1)
        assert server.ask("/score", row).json()["sha256"] != before["sha256"]

        put(make_pipe, path)
        until(lambda: server.metric("rafm_model_reload_failures_total") == 3)
        assert server.stop() == 0
