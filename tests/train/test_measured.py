"""Measured ranks: a large model is cut to its budget and trained on, to the same bytes however it is interrupted."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from commands import rows_of_pairs, run
from worlds import planted

from rafm import RaFMClassifier, RaFMRegressor
from rafm.errors import ConfigError
from rafm.model.file import Saved, file_bytes
from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.rows.source import InMemory
from rafm.rows.stats import count_rows
from rafm.train import policy
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import Cut, EpochFinished, Finished, Measuring, Planned, Resumed
from rafm.train.policy import adapted
from rafm.train.recipe import Recipe
from rafm.train.resources import Resources
from rafm.train.steps import measured, record_engine
from rafm.train.steps.job import Job
from rafm.train.steps.run import choose_label_scale


@pytest.fixture(scope="module")
def clicks():
    return planted(n_rows=3000)


@pytest.fixture(scope="module")
def ratings():
    return planted("regression", n_rows=3000)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(record_engine, "PIECE_ROWS", 512)


def options(task="binary", **chosen):
    usual = {"ranks": "auto", "n_epochs": 6, "l2": 0.01, "learning_rate": 0.2 if task == "binary" else 0.1}
    return resolve(**{"task": task, **usual, **chosen})


def bytes_of(model):
    return {name: array.tobytes() for name, array in model.parameters.arrays().items()} | {"history": model.history}


def of_kind(events, kind):
    return [event for event in events if isinstance(event, kind)]


@pytest.mark.parametrize("limit", [51, 80, 200, 420])
def test_the_number_of_parameters_is_met_and_prefix_vectors_are_left(limit, clicks, monkeypatch):
    monkeypatch.setattr(measured, "SIZES", ())  # a smaller model may be better
    *_, last = run_recipe(clicks[0], options(max_parameters=limit), clicks[1])
    assert limit - 12 < last.model.n_parameters <= limit
    assert last.model.plan.family == ("lr" if limit == 51 else "difacto")


@pytest.mark.parametrize("limit", [6500, 7000])
def test_the_size_of_the_file_is_met(limit, ratings):
    *_, last = run_recipe(ratings[0], options("regression", max_bytes=limit), ratings[1])
    assert limit - 3000 < file_bytes(Saved(last.model)) <= limit


def test_without_a_budget_the_smallest_model_near_the_best_is_kept(clicks):
    """The truth has rank 2: far less than the large model is enough, and better than none."""
    events = list(run_recipe(clicks[0], options(), clicks[1]))
    (cut,) = of_kind(events, Cut)
    assert 51 < cut.parameters < cut.before / 2
    assert cut.value < 1.02 * cut.value_before
    assert events[-1].model.n_parameters == cut.parameters


def test_stages_are_told_and_epochs_go_on_counting(clicks):
    events = list(run_recipe(clicks[0], options(max_parameters=150), clicks[1]))
    assert isinstance(events[0], Measuring)
    assert [event.plan.family for event in of_kind(events, Planned)] == ["fm", "difacto"]
    epochs = [event.epoch for event in of_kind(events, EpochFinished)]
    assert epochs == list(range(1, len(epochs) + 1))
    model = events[-1].model
    assert [entry["epoch"] for entry in model.history] == epochs
    assert all(json.dumps(event.record(), allow_nan=False) for event in events)
    lines = [line for event in events for line in event.lines()]
    assert lines[0].startswith("measuring ranks: starting from rank 16, 851 parameters, about")
    assert any(line.startswith("cut from 851 to ") for line in lines)


def test_the_best_of_the_cut_and_the_epochs_after_it_is_kept(clicks):
    events = list(run_recipe(clicks[0], options(max_parameters=120), clicks[1]))
    (cut,), model = of_kind(events, Cut), events[-1].model
    after = [event for event in events[events.index(cut) :] if isinstance(event, EpochFinished)]
    best = min(cut.value, *(event.metrics["log_loss"] for event in after))
    scores = model.scores(clicks[1]).astype(float)
    assert np.mean(np.logaddexp(0, scores) - clicks[1].labels * scores) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_a_run_killed_in_either_stage_ends_with_the_same_model(task, clicks, ratings, tmp_path):
    data, valid = clicks if task == "binary" else ratings
    chosen = options(task, max_parameters=150, n_epochs=3)
    expected = bytes_of(list(run_recipe(data, chosen, valid))[-1].model)
    stages = set()
    for life in range(200):
        with Checkpoint(tmp_path, 0) as checkpoint:
            seen = []
            for event in run_recipe(
                data,
                options(task, max_parameters=150, n_epochs=3, threads=1 + life % 2),
                valid,
                Resources(checkpoint=checkpoint),
            ):
                seen.append(event)
                if len(seen) == 8 or isinstance(event, Finished):
                    break
        stages |= {event.epoch > 3 for event in of_kind(seen, Resumed)}
        if isinstance(seen[-1], Finished):
            break
    assert stages == {False, True}
    assert bytes_of(seen[-1].model) == expected


def test_two_threads_give_the_same_bytes(clicks):
    one, two = (list(run_recipe(clicks[0], options(threads=n, max_parameters=150), clicks[1]))[-1] for n in (1, 2))
    assert bytes_of(one.model) == bytes_of(two.model)


def test_values_and_labels_of_any_scale_are_measured_alike(ratings):
    """Powers of 2 and 4: training sees the same numbers, so the same lengths must come out."""
    from worlds import changed_rows

    chosen = options("regression", max_parameters=200, n_epochs=2)
    large = [changed_rows(rows, values=rows.values * 64, labels=rows.labels * 16) for rows in ratings]
    first, second = (list(run_recipe(rows[0], chosen, rows[1]))[-1].model for rows in (ratings, large))
    assert first.plan == second.plan
    np.testing.assert_allclose(second.scores(large[1]), first.scores(ratings[1]) * 16, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_one_training_gives_every_size_the_model_of_its_own_training(task, clicks, ratings):
    rows, valid = clicks if task == "binary" else ratings
    sizes, chosen = (420, 80, 200), options(task, max_parameters=420, averaging=True, calibrate="off")
    found = count_rows([rows])
    scale = choose_label_scale(found.label_spread, chosen.loss)
    job = Job(InMemory(rows), InMemory(valid), found, scale, Resources(), None)
    fitted = adapted(Recipe.of(chosen), found)
    cut = [event.model for event in measured.train_sizes(job, fitted, sizes) if isinstance(event, Finished)]
    for size, model in zip(sizes, cut, strict=True):
        assert bytes_of(model) == bytes_of(train_model(rows, replace(chosen, max_parameters=size), valid))


def test_out_of_time_the_model_is_cut_all_the_same(clicks):
    *_, last = run_recipe(clicks[0], options(max_parameters=150, max_seconds=1e-9), clicks[1])
    assert last.reason == "time"
    assert last.model.n_parameters <= 150


def test_the_large_model_is_bounded_by_rows_and_memory_or_ranks_go_by_counts(clicks):
    many = planted(n_rows=80_000)[0]
    first = next(iter(run_recipe(many, options(), clicks[1])))
    assert (first.rank, first.parameters, first.fallback) == (512, 1 + 50 * 513, None)
    assert next(iter(run_recipe(many, options(max_parameters=300), clicks[1]))).rank == 512
    narrow = next(iter(run_recipe(many, options(), clicks[1], Resources(memory=6.05))))
    assert narrow.rank < 256
    assert narrow.megabytes <= 6.05
    assert narrow.fallback is None
    events = list(run_recipe(many, options(max_parameters=300, n_epochs=1), clicks[1], Resources(memory=0.001)))
    assert "MB in training, more than 0.001" in events[0].fallback
    assert events[0].lines()[0].startswith("ranks by count, not measured: a model of rank 16")
    assert events[-1].model.plan.family == "rafm"
    assert events[-1].model.n_parameters <= 300


def resident(name="VmRSS"):
    """Return the memory of this process in megabytes, now or (VmHWM) at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1e3


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells the peak of memory")
def test_the_memory_that_is_told_is_taken(monkeypatch, clicks):
    """Arrays of over 32 MB are always given back when they are freed, so that the peak does not depend on the past."""
    monkeypatch.setattr(policy, "CLICK_RANK", 64)
    monkeypatch.setattr(measured, "FINE_EPOCHS", 1)
    train_model(clicks[0], options(n_epochs=1, max_parameters=150), clicks[1])  # loads the kernels
    n, told, before = 140_000, 0.0, 0.0
    ids, labels = np.arange(n).reshape(n // 4, 4), np.arange(n // 4) % 2
    rows = check_batch(Batch(np.arange(0, n + 1, 4), ids.ravel(), np.ones(n), n, labels.astype(float)))
    for event in run_recipe(rows, options(n_epochs=2, max_parameters=7_000_000), rows):
        if isinstance(event, Measuring):
            told = event.megabytes
        elif not before:
            before = resident()
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    assert event.model.n_parameters > 6_000_000
    assert 0.8 < (resident("VmHWM") - before) / told < 1.2


def test_without_validation_rows_it_says_what_is_missing(clicks):
    with pytest.raises(ConfigError, match="needs validation rows"):
        list(run_recipe(clicks[0], options()))


@pytest.mark.parametrize("kind", [RaFMClassifier, RaFMRegressor])
def test_an_estimator_goes_on_from_measured_ranks(kind, clicks, ratings):
    from scipy import sparse

    data, valid = clicks if kind is RaFMClassifier else ratings
    X, V = (sparse.csr_matrix((rows.values, rows.indices, rows.indptr), (rows.n_rows, 50)) for rows in (data, valid))
    y, v = (rows.labels.astype(int) if kind is RaFMClassifier else rows.labels for rows in (data, valid))
    model = kind(ranks="auto", max_parameters=200, n_epochs=2, learning_rate=0.1).fit(X, y, eval_set=(V, v))
    assert model.n_parameters_ <= 200
    assert model.levels_.max() == len(model.model_.plan.ranks)
    assert model.partial_fit(V, v).n_parameters_ <= 200
    first = kind(ranks="auto").partial_fit(X, y)  # visited once: by counts
    assert first.model_.plan.ranks == ((8, 32, 128) if kind is RaFMClassifier else (8, 32))


def test_the_command_trains_within_the_size_of_its_file(tmp_path):
    for name, seed in (("train", 0), ("valid", 1)):
        (tmp_path / name).write_text(rows_of_pairs(3000, seed))
    flags = ("--valid", tmp_path / "valid", "--out", tmp_path / "m.rafm", "--epochs", 3, "--ranks", "auto", "--json")
    found = run("train", tmp_path / "train", *flags, "--max-bytes", 7000)
    assert found.code == 0, found.err
    assert found.json()["model"] == "difacto"
    assert (tmp_path / "m.rafm").stat().st_size == found.json()["model_bytes"] <= 7000
    again = run("train", tmp_path / "train", "--resume-from", tmp_path / "m.rafm", "--out", tmp_path / "n.rafm")
    assert again.code == 0, again.err


WRONG = {
    "a budget without auto": ({"ranks": (8,), "max_parameters": 100}, "max_parameters requires ranks='auto'"),
    "another word": (
        {"ranks": "best"},
        "ranks must be comma-separated whole numbers such as 8,32,128, or auto; found 'best'",
    ),
    "another family": ({"model": "fm"}, "ranks='auto' requires model='rafm', found 'fm'"),
    "an optimiser with slots": ({"optimizer": "adam"}, "ranks='auto' requires optimizer='adagrad', 'sgd' or 'gibbs'"),
    "levels": ({"levels": [1, 2]}, "levels cannot be given with ranks='auto'"),
    "penalties by rank": ({"l2": (0.1, 0.2, 0.3)}, "l2 must be one number with ranks='auto'"),
    "no size": ({"max_bytes": 0}, "max_bytes must be a whole number"),
}


@pytest.mark.parametrize(("chosen", "message"), WRONG.values(), ids=WRONG)
def test_what_cannot_work_is_named(chosen, message):
    with pytest.raises(ConfigError, match=message):
        options(**chosen)


def test_the_cut_is_judged_by_the_loss_of_its_validation_rows(clicks):
    model = train_model(clicks[0], resolve(task="binary", model="fm", ranks=4, n_epochs=1))
    from rafm.rows.source import InMemory

    scores = model.scores(clicks[1]).astype(float)
    loss = np.mean(np.logaddexp(0, scores) - clicks[1].labels * scores)
    assert measured.validation_loss(model, InMemory(clicks[1])) == pytest.approx(loss, rel=1e-6)
