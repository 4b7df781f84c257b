"""Training without validation rows: which rows choose the number of epochs, and what is trained then."""

import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from commands import finish, rows_of_pairs, run, run_alone, start
from worlds import changed_rows, planted

from rafm import RaFMClassifier, RaFMRegressor, load
from rafm.checks import effective
from rafm.errors import CheckpointError, ConfigError, DataValueError
from rafm.model.file import load as load_file
from rafm.options import resolve
from rafm.rows.blocks import join_rows, take_rows
from rafm.rows.spill import SpilledRows, SpillOptions
from rafm.train import policy, train
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import train_model
from rafm.train.events import (
    EpochFinished,
    Finished,
    HeldOut,
    OneClass,
    Planned,
    Resumed,
    Selected,
    Slowed,
    StartEvaluated,
)
from rafm.train.resources import Resources
from rafm.train.steps import record_engine

FAMILIES = {"lr": (), "fm": (8,), "difacto": (4, 8), "mrma": (4, 8), "rafm": (4, 8)}


def options(task="binary", **chosen):
    return resolve(**effective({"task": task, "ranks": (4, 8), "rank_scale": 0.2, "n_epochs": 20, "l2": 0, **chosen}))


@pytest.fixture(scope="module")
def clicks():
    return join_rows(planted(n_rows=3000))


@pytest.fixture
def many_rows(monkeypatch):
    """Let a share be held out, as of more rows than the tests have."""
    monkeypatch.setattr(policy, "FOLD_ROWS", 100)


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()}


def model_of(events):
    *_, last = events
    assert isinstance(last, Finished)
    return last.model


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


# What is chosen


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_is_trained_on_all_rows_for_the_epochs_that_were_best(family, clicks, many_rows):
    chosen = options(model=family, ranks=FAMILIES[family], learning_rate=0.1)
    events = list(train(clicks, chosen))
    (held_out,), (selected,), last = of_kind(events, HeldOut), of_kind(events, Selected), events[-1]
    assert held_out == HeldOut(3000, held_out.n_valid)
    assert 270 <= held_out.n_valid <= 330
    assert [event.n_rows for event in of_kind(events, Planned)] == [3000 - held_out.n_valid, 3000]
    (judged,), history = of_kind(events, StartEvaluated), last.model.history
    losses = [judged.metrics["log_loss"], *(entry["valid_log_loss"] for entry in history)]
    assert last.model.best_epoch == selected.n_epochs == int(np.argmin(losses))
    assert last.model.n_rows == 3000
    again = train_model(clicks, replace(chosen, n_epochs=selected.n_epochs, patience=None))
    assert bytes_of(last.model) == bytes_of(again)
    assert last.model.options == {**again.options, "n_epochs": 20, "patience": 3, "validation_fraction": 0.1}


def test_few_rows_are_all_held_out_fold_by_fold(clicks):
    data, chosen = take_rows(clicks, 0, 400), options(learning_rate=0.1, n_epochs=5, patience=None)
    events = list(train(data, chosen))
    assert of_kind(events, HeldOut) == [HeldOut(400, 400, 10)]
    history = events[-1].model.history
    assert [entry["epoch"] for entry in history] == [1, 2, 3, 4, 5]
    losses = [of_kind(events, StartEvaluated)[0].metrics["log_loss"], *(entry["valid_log_loss"] for entry in history)]
    assert events[-1].model.best_epoch in (0, int(np.argmin(losses)))  # 0 unless the gain is above its error
    again = train_model(data, replace(chosen, n_epochs=events[-1].model.best_epoch))
    assert bytes_of(events[-1].model) == bytes_of(again)


def test_labels_of_one_class_are_told_before_the_work(clicks):
    few = take_rows(clicks, 0, 60)
    same = changed_rows(few, labels=np.ones(60, np.float32))
    assert next(train(same, options())) == OneClass(60)
    assert not of_kind(train(few, options(n_epochs=1)), OneClass)


def test_a_fraction_of_zero_trains_as_without_validation_rows(clicks):
    chosen = options(validation_fraction=0, n_epochs=2)
    events = list(train(clicks, chosen))
    assert not of_kind(events, HeldOut | Selected | StartEvaluated)
    expected = train_model(clicks, chosen)
    assert bytes_of(events[-1].model) == bytes_of(expected)
    assert events[-1].model.options == expected.options
    assert "validation_fraction" not in expected.options  # files are as they were before there was this option


def test_given_validation_rows_are_used_instead(clicks):
    data, valid = take_rows(clicks, 0, 2500), take_rows(clicks, 2500, 3000)
    events = list(train(data, options(), valid))
    assert not of_kind(events, HeldOut | Selected)
    assert bytes_of(events[-1].model) == bytes_of(train_model(data, options(), valid))


def test_noise_gives_a_constant_and_says_so(clicks, many_rows):
    draw = np.random.default_rng(0)
    noise = changed_rows(clicks, labels=(draw.random(3000) < 0.3).astype(np.float32))
    events = list(train(noise, options()))
    model = events[-1].model
    assert model.best_epoch == 0 < len(model.history)
    assert np.ptp(model.predict(noise)) < 0.01
    assert model.predict(noise).mean() == pytest.approx(noise.labels.mean(), abs=0.01)


def test_few_rows_of_noise_are_no_worse_than_a_constant_on_average():
    """Over training sets drawn anew, by the exact expected loss of labels that are 1 with probability 1/2."""
    gaps = []
    for seed in range(10):
        draw = np.random.default_rng(seed)
        codes, y = draw.integers(0, 10, (120, 6)), draw.integers(0, 2, 120)
        X = np.eye(10)[codes].reshape(120, 60)
        p = RaFMClassifier(2, model="fm", n_epochs=6).fit(X, y).predict_proba(X)[:, 1]
        constant = y.mean()
        loss, usual = (-np.mean(np.log(q) + np.log(1 - q)) / 2 for q in (p, np.full(120, constant)))
        gaps.append(loss - usual)
    error = np.std(gaps, ddof=1) / np.sqrt(10)
    assert np.mean(gaps) < 2 * error + 1e-3
    assert sum(abs(gap) < 1e-3 for gap in gaps) >= 7  # 9 are constants; 5 if any gain over a constant were enough


def test_a_lower_learning_rate_is_tried_if_the_best_epoch_is_one_of_the_first(clicks, many_rows):
    """Which of the rates is better is told by their metrics; a rate that was given is never changed."""
    events = list(train(clicks, options(averaging=False)))
    (slowed, *_), model = of_kind(events, Slowed), events[-1].model
    assert slowed.share == 0.25
    at = events.index(slowed)
    epochs = [
        (place, event) for place, event in enumerate(events) if isinstance(event, EpochFinished) and event.metrics
    ]
    first = min(event.metrics["log_loss"] for place, event in epochs if place < at)
    second = min(event.metrics["log_loss"] for place, event in epochs if place > at)
    assert (model.options["learning_rate"] < 0.2) == (second < first)
    assert not of_kind(train(clicks, options(learning_rate=0.2)), Slowed)


@pytest.fixture
def early(clicks):
    """Rows, validation rows and options whose best epoch is one of the first."""
    data, valid = take_rows(clicks, 0, 700), take_rows(clicks, 700, 1000)
    return data, valid, options(averaging=False, patience=1, ranks=(16, 32), rank_scale=5)


def test_a_lower_learning_rate_is_tried_with_given_validation_rows_too(early):
    data, valid, chosen = early
    events = list(train(data, chosen, valid))
    shares = [event.share for event in of_kind(events, Slowed)]
    assert shares == [0.25, 0.0625][: len(shares)]
    assert shares
    losses = [event.metrics["log_loss"] for event in of_kind(events, EpochFinished)]
    assert events[-1].best_value == min(losses)
    rate = model_of(events).options["learning_rate"]
    alone = model_of(
        train(data, replace(chosen, learning_rate=rate, adaptable=chosen.adaptable - {"learning_rate"}), valid)
    )
    assert bytes_of(alone) == bytes_of(model_of(events))
    assert not of_kind(train(data, replace(chosen, adaptable=chosen.adaptable - {"learning_rate"}), valid), Slowed)


def test_runs_with_lower_rates_resume_where_they_were_killed(early, monkeypatch, tmp_path):
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 256)
    data, valid, chosen = early
    expected, seen, resumed = model_of(train(data, chosen, valid)), [], 0
    for stop_after in range(5, 200, 3):
        seen = []
        with suppress(Killed), Checkpoint(tmp_path, seconds=0) as checkpoint:
            for event in train(data, chosen, valid, Resources(checkpoint=checkpoint)):
                seen.append(event)
                if len(seen) == stop_after:
                    raise Killed
        resumed += any("run-2" in event.folder for event in of_kind(seen, Resumed))
        if isinstance(seen[-1], Finished):
            break
    assert resumed
    assert bytes_of(model_of(seen)) == bytes_of(expected)
    assert model_of(seen).history == expected.history


@pytest.mark.parametrize("metric", ["auc", "normalized_entropy"])
@pytest.mark.parametrize("few", [100, 5000])
def test_a_rare_class_is_among_the_rows_that_are_held_out(metric, few, clicks, monkeypatch):  # case 107
    monkeypatch.setattr(policy, "FOLD_ROWS", few)
    labels = np.zeros(3000, np.float32)
    labels[[17, 801, 2222]] = 1
    model = model_of(train(changed_rows(clicks, labels=labels), options(metric=metric, n_epochs=2)))
    assert all(entry[f"valid_{metric}"] is not None for entry in model.history)


def test_labels_of_rows_to_be_held_out_are_checked_too(clicks):
    for row in range(0, 3000, 500):
        labels = clicks.labels.copy()
        labels[row] = 5
        with pytest.raises(DataValueError, match="binary labels must be between 0 and 1"):
            next(iter(train(changed_rows(clicks, labels=labels), options())))


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5])
def test_hardly_any_rows_are_enough(n_rows, clicks):
    assert model_of(train(take_rows(clicks, 0, n_rows), options(n_epochs=2))).n_rows == n_rows


@pytest.mark.parametrize("value", [1, 1.5, -0.1, float("nan"), "0.1", None])
def test_a_share_that_leaves_no_rows_is_refused(value):
    with pytest.raises(ConfigError, match="validation_fraction must be"):
        options(validation_fraction=value)


# Memory, threads, checkpoints


def test_memory_disk_batches_and_threads_make_no_difference(clicks, many_rows, monkeypatch):
    monkeypatch.setattr("rafm.rows.blocks.BLOCK_ROWS", 700)
    expected = None
    for megabytes, threads, size in ((1000, 1, 3000), (0, 2, 450)):
        parts = [take_rows(clicks, first, min(first + size, 3000)) for first in range(0, 3000, size)]
        room = SpillOptions(megabytes)
        source = SpilledRows(iter(parts), room, clicks.n_features)
        model = model_of(train(source, options(threads=threads, n_epochs=4), resources=Resources(room=room)))
        found = {**bytes_of(model), "history": model.history}
        assert found == (expected or found)
        expected = found


class Killed(BaseException):
    """Ends a run without a word, as kill -9 does."""


@pytest.mark.parametrize("few", [100, 5000])
@pytest.mark.parametrize("family", ["rafm", "mrma"])
def test_a_run_killed_after_every_few_events_ends_with_the_same_model(family, few, clicks, monkeypatch, tmp_path):
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 256)
    monkeypatch.setattr(policy, "FOLD_ROWS", few)
    data = take_rows(clicks, 0, 900)
    chosen = options(model=family, n_epochs=4)
    expected = model_of(train(data, chosen))
    places = []
    for stop_after in [*range(6, 60, 7)] * 9:
        seen = []
        try:
            with Checkpoint(tmp_path, seconds=0) as checkpoint:
                for event in train(data, chosen, resources=Resources(checkpoint=checkpoint)):
                    seen.append(event)
                    if len(seen) == stop_after:
                        raise Killed
        except Killed:
            pass
        places += of_kind(seen, Resumed)
        if isinstance(seen[-1], Finished):
            break
    assert places or few > 900  # folds of few rows are trained again
    model = model_of(seen)
    assert (bytes_of(model), model.history, model.best_epoch) == (
        bytes_of(expected),
        expected.history,
        expected.best_epoch,
    )


def test_another_share_is_another_run(clicks, many_rows, tmp_path):
    data = take_rows(clicks, 0, 300)
    for share in (0.2, 0.25):
        with Checkpoint(tmp_path) as checkpoint:
            events = train(
                data, options(validation_fraction=share, n_epochs=2), resources=Resources(checkpoint=checkpoint)
            )
            if share == 0.2:
                model_of(events)
            else:
                with pytest.raises(CheckpointError, match=r"valid_share was 0\.2, now 0\.25"):
                    next(iter(events))


@pytest.mark.slow
def test_a_killed_command_goes_on_to_the_same_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text(rows_of_pairs(120_000))
    command = ("train", "rows.svm", "--ranks", "8,64", "--epochs", "6", "--learning-rate", "0.05", "--patience", "6")
    assert run_alone(*command, "--out", "whole.rafm").code == 0
    for _ in range(3):
        more = ("--out", "m.rafm", "--checkpoint", "states", "--checkpoint-seconds", "0")
        process = start(*command, *more, stdin=subprocess.DEVNULL)
        before = {path.name for path in (tmp_path / "states").glob("*.rafm")}
        while process.poll() is None and {path.name for path in (tmp_path / "states").glob("*.rafm")} <= before:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        finish(process)
    assert run_alone(*command, *more).code == 0
    assert (tmp_path / "m.rafm").read_bytes() == (tmp_path / "whole.rafm").read_bytes()


# Commands and estimators


def test_the_command_says_what_it_holds_out_and_writes_what_the_estimator_trains(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = rows_of_pairs(6000)
    (tmp_path / "rows.svm").write_text(text)
    ran = run("train", "rows.svm", "--out", "m.rafm", "--ranks", "4", "--model", "fm", "--epochs", "3")
    assert ran.code == 0
    (line,) = (line for line in ran.out.splitlines() if line.startswith("holding out"))
    assert line.endswith("of 6000 rows to choose the number of epochs")
    assert "training on all 6000 rows for" in ran.out
    X = np.zeros((6000, 22), np.float32)
    for row, words in enumerate(text.splitlines()):
        for word in words.split()[1:]:
            X[row, int(word.split(":")[0])] = 1
    y = [int(line[0]) for line in text.splitlines()]
    model = RaFMClassifier(4, model="fm", n_epochs=3).fit(X, y)
    assert f"holding out {model.n_validation_rows_} of" in line
    assert bytes_of(load_file("m.rafm").model) == bytes_of(model.model_)
    assert model.history_ == load("m.rafm").history_
    assert {"valid_log_loss", "valid_auc"} <= set(model.history_[0])
    assert load("m.rafm").validation_fraction == 0.1


def test_two_sources_of_validation_rows_are_one_too_many(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text(rows_of_pairs(60))
    ran = run("train", "rows.svm", "--valid", "rows.svm", "--valid-share", "0.2", "--out", "m.rafm")
    assert ran.code == 2
    assert "--valid-share holds out training rows, which is not needed with --valid FILE" in ran.error()


def test_continuing_holds_out_nothing_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text(rows_of_pairs(600))
    assert run("train", "rows.svm", "--out", "m.rafm", "--ranks", "4,8").code == 0
    ran = run("train", "rows.svm", "--resume-from", "m.rafm", "--out", "n.rafm")
    assert (ran.code, "holding out" in ran.out) == (0, False)
    more = ("--valid-share", "0.2", "--epochs", "3")
    ran = run("train", "rows.svm", "--resume-from", "m.rafm", "--out", "n.rafm", *more)
    assert (ran.code, "holding out" in ran.out) == (0, True)


def test_pair_effects_in_few_kinds_of_rows_are_still_learnt():
    X = np.array([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]] * 50)
    model = RaFMClassifier(4, model="fm", l2=0).fit(X, [1, 0, 0, 1] * 50)
    assert model.predict(X[:4]).tolist() == [1, 0, 0, 1]
    rated = RaFMRegressor(4, model="fm", l2=0).fit(X, [5.0, 1.0, 1.0, 5.0] * 50)
    np.testing.assert_allclose(rated.predict(X[:4]), [5, 1, 1, 5], atol=0.3)
    assert rated.n_validation_rows_ == 200


def test_lines_of_commands_name_flags(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text(rows_of_pairs(600))
    common = ("train", "rows.svm", "--out", "m.rafm", "--ranks", "4,8")
    ran = run(*common, "--learning-rate", "0.02", "--epochs", "2", "--valid", "rows.svm")
    assert "the last of 2 epochs was the best: more --epochs may improve the model" in ran.out.splitlines()
    ran = run(*common, "--valid-share", "0")
    assert "30 may be too many for 600 rows; lower --epochs, or hold out rows with --valid-share" in ran.out
    assert "may be too many" not in run(*common, "--valid-share", "0", "--epochs", "3").out
