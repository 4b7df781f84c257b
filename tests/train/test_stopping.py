"""When training ends, which epoch is kept, and what negatives that were left out do to probabilities."""

import itertools
import time

import numpy as np
import pytest
from commands import rows_of_pairs, run
from worlds import changed_rows, one_hot, planted

from rafm import RaFMClassifier, load
from rafm.checks import effective
from rafm.errors import ConfigError, DataValueError
from rafm.losses import loss_named
from rafm.options import resolve
from rafm.train.checkpoint import Checkpoint
from rafm.train.course import divergence
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import CheckpointWritten, EpochFinished, Finished, PieceFinished, Resumed
from rafm.train.resources import Resources
from rafm.train.steps import record_engine

WRONG_METRICS = {"binary": "rmse", "regression": "auc"}


def options(task="binary", **chosen):
    return resolve(**effective({"task": task, "ranks": (4, 8), "rank_scale": 0.2, "n_epochs": 12, "l2": 0, **chosen}))


@pytest.fixture(scope="module")
def clicks():
    return planted(n_rows=900)


@pytest.fixture(scope="module")
def ratings():
    return planted("regression", n_rows=900)


# Metrics


@pytest.mark.parametrize(
    ("task", "metric", "best"),
    [
        ("binary", "log_loss", min),
        ("binary", "auc", max),
        ("binary", "normalized_entropy", min),
        ("regression", "rmse", min),
        ("regression", "mae", min),
    ],
)
def test_the_epoch_that_is_best_by_the_metric_is_kept(task, metric, best, clicks, ratings):
    data, valid = clicks if task == "binary" else ratings
    model = train_model(data, options(task, metric=metric, patience=None), valid)
    values = [entry[f"valid_{metric}"] for entry in model.history]
    assert len(values) == 12
    assert model.best_epoch == 1 + values.index(best(values))
    assert model.best_epoch > 1
    assert model.best_epoch < 12 or task == "regression"  # ratings without noise are never learnt too well
    assert model.options["metric"] == metric


def test_metrics_choose_different_epochs(clicks):
    chosen = {"patience": None}
    kept = {
        metric: train_model(clicks[0], options(metric=metric, **chosen), clicks[1]) for metric in ("log_loss", "auc")
    }
    assert kept["log_loss"].best_epoch != kept["auc"].best_epoch


def test_patience_counts_epochs_without_a_better_metric(clicks):
    model = train_model(clicks[0], options(metric="auc", patience=2, n_epochs=40), clicks[1])
    best = 1 + int(np.argmax([entry["valid_auc"] for entry in model.history]))
    assert len(model.history) == best + 2 < 40


@pytest.mark.parametrize("task", WRONG_METRICS)
def test_a_metric_of_another_task_is_refused(task):
    with pytest.raises(ConfigError, match=f"metric must be .* found {WRONG_METRICS[task]!r}"):
        options(task, metric=WRONG_METRICS[task])


@pytest.mark.parametrize("metric", ["auc", "normalized_entropy"])
@pytest.mark.parametrize("label", [0, 1])
def test_a_metric_that_one_class_has_not_is_refused_before_training(metric, label, clicks, tmp_path):  # case 107
    data, valid = clicks
    same = one_hot(valid.indices.reshape(-1, 2), np.full(valid.n_rows, float(label)))
    events = run_recipe(data, options(metric=metric), same)
    with pytest.raises(DataValueError, match=f"metric '{metric}' is undefined for the validation rows: .* one class"):
        next(events)
    X, rest = np.eye(8), np.tile(np.eye(8)[:3], (10, 1))
    with pytest.raises(DataValueError, match="all of one class"):
        RaFMClassifier(2, metric=metric).fit(X, [0, 1] * 4, eval_set=(rest, [label] * 30))
    (tmp_path / "rows.svm").write_text(rows_of_pairs(50))
    (tmp_path / "valid.svm").write_text(f"{label} 1:1\n{label} 2:1\n")
    files = (tmp_path / "rows.svm", "--valid", tmp_path / "valid.svm", "--out", tmp_path / "m.rafm")
    assert "all of one class" in run("train", *files, "--metric", metric).error()
    assert run("train", *files, "--epochs", "2").code == 0  # by log loss, which is defined
    assert run("train", *files[:3], "--out", tmp_path / "m.rafm", "--epochs", "2", "--valid", files[0]).code == 0


def test_rows_without_weight_are_of_no_class(clicks):  # case 107
    data, valid = clicks
    weights = (valid.labels > 0).astype(np.float32)
    with pytest.raises(DataValueError, match="all of one class"):
        next(run_recipe(data, options(metric="auc"), changed_rows(valid, weights=weights)))


# Time


class Clock:
    """Stands for the time: every look at it takes a second."""

    def __init__(self, monkeypatch):
        ticks = itertools.count()
        monkeypatch.setattr(time, "perf_counter", lambda: float(next(ticks)))


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 64)


def test_time_ends_training_between_pieces_with_the_best_epoch(clicks, small_pieces, monkeypatch):
    whole = list(run_recipe(clicks[0], options(n_epochs=50, patience=None), clicks[1]))
    Clock(monkeypatch)
    events = list(run_recipe(clicks[0], options(n_epochs=50, patience=None, max_seconds=100), clicks[1]))
    assert events[-1].reason == "time"
    assert whole[-1].reason == "epochs"
    n_epochs = len(events[-1].model.history)
    assert 1 < n_epochs < 50
    assert events[-1].model.history == whole[-1].model.history[:n_epochs]
    expected = train_model(clicks[0], options(n_epochs=n_epochs, patience=None), clicks[1])
    np.testing.assert_array_equal(events[-1].model.parameters.weights, expected.parameters.weights)


def test_time_that_ends_before_the_first_epoch_keeps_what_is_trained(clicks, small_pieces, monkeypatch):
    Clock(monkeypatch)
    *_, last = run_recipe(clicks[0], options(max_seconds=10), clicks[1])
    assert (last.reason, last.model.best_epoch, last.model.history) == ("time", 0, [])
    assert np.any(last.model.parameters.weights)


def test_time_counts_in_all_lives_together_and_more_of_it_goes_on(clicks, small_pieces, monkeypatch, tmp_path):
    def life(max_seconds):
        Clock(monkeypatch)
        with Checkpoint(tmp_path, 3600) as checkpoint:
            return list(
                run_recipe(
                    clicks[0], options(max_seconds=max_seconds, patience=None), None, Resources(checkpoint=checkpoint)
                )
            )

    first, again, more, all_of_it = (life(limit) for limit in (60, 60, 120, 1e9))
    assert [events[-1].reason for events in (first, again, more, all_of_it)] == ["time", "time", "time", "epochs"]
    assert [type(event).__name__ for event in again] == ["Planned", "Resumed", "Finished"]
    places = [next(event for event in events if isinstance(event, Resumed)) for events in (more, all_of_it)]
    assert (places[0].epoch, places[0].rows) < (places[1].epoch, places[1].rows)
    whole = train_model(clicks[0], options(patience=None))
    np.testing.assert_array_equal(all_of_it[-1].model.parameters.weights, whole.parameters.weights)
    assert all_of_it[-1].model.history == whole.history


class SetClock:
    """Stands for the time, which passes only when a test says so."""

    def __init__(self, monkeypatch, now):
        self.now = now
        monkeypatch.setattr(time, "perf_counter", lambda: self.now)


def test_the_seconds_of_an_epoch_count_those_before_it_was_resumed(clicks, small_pieces, monkeypatch, tmp_path):
    """An epoch that took 3 s before the stop and 4 s after it took 7 s, whatever the clocks of both processes say."""
    clock = SetClock(monkeypatch, 50.0)
    with Checkpoint(tmp_path, 0) as checkpoint:
        for event in run_recipe(clicks[0], options(n_epochs=2), None, Resources(checkpoint=checkpoint)):
            if isinstance(event, PieceFinished) and event.epoch == 1:
                clock.now += 20
            if isinstance(event, EpochFinished):
                clock.now += 3  # which the second epoch takes before the stop
            if isinstance(event, CheckpointWritten) and event.epoch == 2 and event.rows:
                break
    clock = SetClock(monkeypatch, 7.0)
    with Checkpoint(tmp_path, 3600) as checkpoint:
        events = run_recipe(clicks[0], options(n_epochs=2), None, Resources(checkpoint=checkpoint))
        resumed = next(event for event in events if isinstance(event, Resumed))
        assert (resumed.epoch, resumed.rows > 0) == (2, True)
        clock.now += 4
        piece = next(events)
        assert isinstance(piece, PieceFinished)
        assert piece.seconds == pytest.approx(7)
        [epoch] = [event for event in events if isinstance(event, EpochFinished)]
    assert epoch.seconds == pytest.approx(7)


def test_the_command_says_that_time_is_used_up(tmp_path):
    (tmp_path / "rows.svm").write_text(rows_of_pairs(100_000))
    arguments = ("train", tmp_path / "rows.svm", "--out", tmp_path / "m.rafm", "--epochs", "1000000")
    arguments += ("--valid-share", "0")  # no loss of held-out rows can end it before
    ran = run(*arguments, "--max-seconds", "0.5")
    assert ran.code == 0
    assert "stopped: out of time; kept " in ran.out
    assert run(*arguments, "--max-seconds", "0.5", "--json").json()["stopped_by"] == "time"
    assert run(*arguments, "--max-seconds", "0").error() == "--max-seconds must be a positive number, found 0.0"


# Negatives that were left out


@pytest.fixture(scope="module")
def sampled():
    """Rows with about a tenth of positives, and the same with a quarter of the negatives."""
    rng = np.random.default_rng(0)
    columns = np.stack([rng.integers(0, 8, 60_000), 8 + rng.integers(0, 6, 60_000)], axis=1)
    labels = rng.random(60_000) < 0.02 + 0.18 * ((columns.sum(axis=1) % 3) == 0)
    kept = labels | (rng.random(60_000) < 0.25)
    return one_hot(columns, labels), one_hot(columns[kept], labels[kept])


def test_probabilities_are_those_of_all_rows(sampled):
    every, some = sampled
    plain, corrected = (train_model(some, options(negative_rate=rate, n_epochs=6)) for rate in (1.0, 0.25))
    assert plain.predict(every).mean() > 2 * every.labels.mean()
    assert corrected.predict(every).mean() == pytest.approx(every.labels.mean(), rel=0.05)
    np.testing.assert_allclose(corrected.scores(every), plain.scores(every) + np.log(0.25), atol=1e-5)
    odds = plain.predict(every) / (1 - plain.predict(every)) * 0.25
    np.testing.assert_allclose(corrected.predict(every), odds / (1 + odds), rtol=1e-4)


def test_validation_rows_are_judged_by_the_corrected_model(sampled):
    every, some = sampled
    model = train_model(some, options(negative_rate=0.25, n_epochs=2), every)
    p = model.predict(every)
    loss = -np.mean(np.log(np.where(every.labels > 0, p, 1 - p)))
    assert model.history[model.best_epoch - 1]["valid_log_loss"] == pytest.approx(loss, rel=1e-5)


def test_the_rate_is_kept_in_the_file(sampled, tmp_path):
    model = RaFMClassifier(2, model="fm", n_epochs=1, negative_rate=0.5, metric="auc").fit(np.eye(4), [0, 1, 0, 1])
    model.save(tmp_path / "m.rafm")
    again = load(tmp_path / "m.rafm")
    assert (again.negative_rate, again.metric) == (0.5, "auc")
    np.testing.assert_array_equal(again.predict_proba(np.eye(4)), model.predict_proba(np.eye(4)))


@pytest.mark.parametrize(
    ("task", "rate", "message"),
    [
        ("binary", 0, "negative_rate must be a positive number"),
        ("binary", 1.5, "negative_rate must be at most 1, found 1.5"),
        ("regression", 0.5, "negative_rate requires task='binary'"),
    ],
)
def test_a_rate_that_cannot_be_is_refused(task, rate, message):
    with pytest.raises(ConfigError, match=message):
        options(task, negative_rate=rate)


def test_the_command_takes_metric_and_rate(tmp_path):
    for name, seed in (("rows", 0), ("valid", 1)):
        (tmp_path / f"{name}.svm").write_text(rows_of_pairs(600, seed=seed))
    files = (tmp_path / "rows.svm", "--valid", tmp_path / "valid.svm", "--out", tmp_path / "m.rafm")
    ran = run("train", *files, "--metric", "normalized_entropy", "--negative-rate", "0.5", "--ranks", "2,4")
    assert ran.code == 0
    assert "   valid loss    valid auc     valid ne   seconds" in ran.out
    found = load(tmp_path / "m.rafm").model_.options
    assert (found["metric"], found["negative_rate"]) == ("normalized_entropy", 0.5)


def test_finished_by_patience_is_told(clicks):
    *events, last = run_recipe(clicks[0], options(patience=1, n_epochs=40), clicks[1])
    assert isinstance(last, Finished)
    assert last.reason == "patience"
    assert not events[-1].best
    assert isinstance(events[-1], EpochFinished)


def test_infinite_sums_of_squares_are_divergence_even_if_the_loss_is_finite():
    for total, what in ((3e38, None), (np.inf, "the squared gradients of epoch 3 are not finite")):
        bias = np.array([0.5, total], np.float32)
        assert divergence(loss_named("squared"), 1.0, 1.0, {}, bias, 3) == what
