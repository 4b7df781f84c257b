"""Events as JSON lines tell what the events hold, whatever becomes of their reader."""

import json

import pytest
from commands import rows_of_pairs, run
from event_streams import EVENTS, Gone
from worlds import planted

from rafm.model.file import load
from rafm.options import resolve
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe
from rafm.train.event_log import log_events
from rafm.train.resources import Resources
from rafm.train.steps import record_engine

KEYS = {
    "planned": {"event", "rows", "features", "parameters", "model", "plan"},
    "start": {"event", "valid_log_loss", "valid_auc"},
    "resumed": {"event", "folder", "epoch", "rows", "finished", "best_value"},
    "piece": {"event", "epoch", "rows", "of", "train_loss", "rows_per_second", "seconds"},
    "checkpoint": {"event", "path", "epoch", "rows"},
    "epoch": {"event", "epoch", "train_loss", "valid_log_loss", "valid_auc", "best", "seconds"},
    "finished": {"event", "reason", "epochs", "best_epoch"},
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 64)
    for name, seed in (("rows", 0), ("valid", 1)):
        (tmp_path / f"{name}.svm").write_text(rows_of_pairs(200, seed=seed))
    monkeypatch.chdir(tmp_path)
    return ("rows.svm", "--valid", "valid.svm", "--out", "m.rafm", "--ranks", "2,4", "--epochs", "2")


def test_every_kind_of_event_has_its_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 64)
    data, valid = planted(n_rows=600)
    records = []
    for _ in range(2):
        with Checkpoint(tmp_path, 3600) as checkpoint:
            events = run_recipe(data, resolve(task="binary", n_epochs=2), valid, Resources(checkpoint=checkpoint))
            records += [json.loads(json.dumps(event.record())) for event in events]
    assert {record["event"]: set(record) for record in records} == KEYS


def test_pieces_count_up_to_the_rows_and_epochs_follow_them(files):
    assert run("train", *files, "--events", "log.jsonl").code == 0
    with open("log.jsonl") as log:
        records = [json.loads(line) for line in log]
    kinds = [record["event"] for record in records]
    assert kinds == ["planned", "start", *["piece"] * 3, "epoch", *["piece"] * 3, "epoch", "finished"]
    assert [record["rows"] for record in records[2:5]] == [64, 128, 192]
    history = load("m.rafm").model.history
    told = [{key: record[key] for key in history[0]} for record in records if record["event"] == "epoch"]
    assert told == history
    pieces = [record for record in records if record["event"] == "piece"]
    assert all(record["rows_per_second"] == record["rows"] / record["seconds"] for record in pieces)


def test_lines_are_appended(files):
    for _ in range(2):
        run("train", *files, "--events", "log.jsonl")
    with open("log.jsonl") as log:
        assert [json.loads(line)["event"] for line in log].count("finished") == 2


def test_on_the_standard_output_they_are_alone(files):
    ran = run("train", *files, "--events", "-", "--json")
    *events, report = [json.loads(line) for line in ran.out.splitlines()]
    assert events[0]["event"] == "planned"
    assert events[-1]["event"] == "finished"
    assert report["history"]
    ran = run("train", *files, "--events", "-")
    assert all(line.startswith('{"event": ') for line in ran.out.splitlines())
    assert "saved m.rafm" in ran.err


def test_a_file_that_cannot_be_opened_is_an_error_before_training(files):
    assert run("train", *files, "--events", "nowhere/log.jsonl").error().startswith("nowhere/log.jsonl: ")


def test_a_reader_that_has_left_does_not_stop_the_events():
    assert list(log_events(EVENTS[:3], Gone())) == EVENTS[:3]
