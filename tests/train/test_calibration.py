"""Calibration: scale and offset are the best ones, exact in every family, and left alone where luck explains them."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from models import by_id, model_of
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from worlds import make_world, random_rows

from rafm import RaFMClassifier, RaFMRegressor, load
from rafm.errors import ConfigError
from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.train import train
from rafm.train.calibration import KEY, calibrated, fit
from rafm.train.checkpoint import Checkpoint
from rafm.train.dispatch import run_recipe
from rafm.train.events import Calibrated, Finished
from rafm.train.resources import Resources

WORLDS = {
    "lr": ("lr", (), [0] * 7, 0),
    "fm": ("fm", (5,), [1] * 7, 2),
    "rafm": ("rafm", (3, 5), [2, 2, 2, 1, 1, 0], 3),
    "difacto": ("difacto", (2, 5), [2, 2, 1, 1, 0], 0),
    "mrma": ("mrma", (2, 4), [2] * 6, 0),
    "ffm": ("ffm", (3,), [1] * 6, 2),
}


# ---- The numbers


@pytest.mark.parametrize("name", WORLDS)
def test_a_calibrated_model_scores_scale_times_score_plus_offset(name):
    model = model_of(make_world(*WORLDS[name][:3], n_fields=WORLDS[name][3]), "log")
    batch = by_id(model, random_rows(np.random.default_rng(0), model.plan.n_features, 30, 2 if name == "mrma" else 5))
    before, after = model.scores(batch), calibrated(model, 0.7, -0.3).scores(batch)
    # Within some roundings of float32 of the largest term.
    np.testing.assert_allclose(after, 0.7 * before - 0.3, rtol=2e-6, atol=1e-5)
    assert calibrated(model, 0.7, -0.3).options[KEY] == [0.7, -0.3]


def clicks_of(scores, scale, offset, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.logistic(size=scores.size) < scale * scores + offset).astype(float)


@pytest.mark.parametrize(("scale", "offset"), [(0.6, 0.4), (1.8, -1.0)])
def test_the_fit_is_that_of_logistic_regression_with_row_weights(scale, offset):
    rng = np.random.default_rng(1)
    scores, weights = rng.normal(-1, 2, 5000), rng.uniform(0, 3, 5000)
    weights[:50] = 0
    labels = clicks_of(scores, scale, offset)
    labels[:50] = 1  # which count nothing
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(scores[:, None], labels, weights)
    found = fit(scores, labels, weights)
    np.testing.assert_allclose([found.scale, found.offset], [expected.coef_[0, 0], expected.intercept_[0]], rtol=1e-4)
    assert found.after < found.before


SCORES = np.random.default_rng(2).normal(0, 1.5, 4000)
LEFT_ALONE = {
    "good scores": (SCORES, clicks_of(SCORES, 1, 0), 14.0),
    "scores that rank the wrong way round": (SCORES, clicks_of(SCORES, -1, 0), 0.0),
    "scores that separate the classes": (SCORES, (SCORES > 0).astype(float), 0.0),
    "scores without meaning": (SCORES, clicks_of(SCORES, 0.02, 0), 0.0),
    "one class": (SCORES, np.ones(4000), 0.0),
    "a constant": (np.ones(4000), clicks_of(SCORES, 1, 0), 0.0),
    "no rows": (np.zeros(0), np.zeros(0), 0.0),
}


@pytest.mark.parametrize(("scores", "labels", "least"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_scores_are_left_alone_where_no_scale_is_sensible(scores, labels, least):
    assert fit(scores, labels, np.ones(labels.size), least) is None


def test_a_few_rows_are_not_enough_to_correct_scores():
    labels = clicks_of(SCORES, 0.8, 0)
    assert fit(SCORES[-100:], labels[-100:], np.ones(100), 14.0) is None
    assert fit(SCORES, labels, np.ones(4000), 14.0) is not None


# ---- Training


def noisy(n_rows=6000, seed=0):
    """Return rows of two noisy features whose effects a model overrates, and labels."""
    rng = np.random.default_rng(seed)
    ids = np.array([0, 400]) + rng.integers(0, 400, (n_rows, 2))
    labels = (rng.logistic(size=n_rows) < 1.2 * np.sin(ids[:, 0])).astype(np.float32)
    return ids, labels


def rows_of(ids, labels):
    return check_batch(Batch(2 * np.arange(len(ids) + 1), ids.ravel(), np.ones(ids.size), 800, labels))


def matrix_of(ids):
    return sparse.csr_matrix((np.ones(ids.size), ids.ravel(), 2 * np.arange(len(ids) + 1)), shape=(len(ids), 800))


GREEDY = {"model": "fm", "ranks": 4, "l2": 0, "learning_rate": 1.0, "n_epochs": 3, "averaging": False, "metric": "auc"}
GREEDY |= {"validation_fraction": 0.4}


def options(**given):
    return resolve(task="binary", **GREEDY | given)


@pytest.fixture(scope="module")
def data():
    return rows_of(*noisy()), rows_of(*noisy(seed=1))


def test_overconfident_scores_are_corrected_and_told(data):
    events, plain = (
        [*run_recipe(data[0], options(), data[1])],
        [*run_recipe(data[0], options(calibrate="off"), data[1])],
    )
    (told,) = (event for event in events if isinstance(event, Calibrated))
    assert told.scale < 0.9
    assert told.after < told.before - 0.005
    assert events[-1].model.options[KEY] == [told.scale, told.offset]
    assert not any(isinstance(event, Calibrated) for event in plain)
    expected = told.scale * plain[-1].model.scores(data[1]) + told.offset
    np.testing.assert_allclose(events[-1].model.scores(data[1]), expected, rtol=1e-5, atol=1e-5)


def test_the_model_file_keeps_it_and_rows_held_out_give_it_to_the_model_of_all_rows(tmp_path):
    ids, labels = noisy()
    given = {**GREEDY, "random_state": 0}
    found, plain = (RaFMClassifier(**given, calibrate=how).fit(matrix_of(ids), labels) for how in ("auto", "off"))
    scale, offset = found.model_.options[KEY]
    expected = scale * plain.decision_function(matrix_of(ids)) + offset
    np.testing.assert_allclose(found.decision_function(matrix_of(ids)), expected, rtol=1e-5, atol=1e-5)
    found.save(tmp_path / "m.rafm")
    again = load(tmp_path / "m.rafm")
    np.testing.assert_array_equal(again.decision_function(matrix_of(ids)), found.decision_function(matrix_of(ids)))


def test_threads_change_no_bit(data):
    one, two = ([*run_recipe(data[0], options(threads=n), data[1])][-1].model.parameters for n in (1, 2))
    np.testing.assert_array_equal(one.weights, two.weights)


class Killed(Exception):
    """Stands for the end of a process."""


@pytest.mark.parametrize("has_valid", [True, False])
def test_a_killed_run_resumes_to_the_same_bytes(data, has_valid, tmp_path, monkeypatch):
    monkeypatch.setattr("rafm.train.steps.record_engine.PIECE_ROWS", 2048)
    valid = data[1] if has_valid else None
    *_, last = train(data[0], options(), valid)
    assert KEY in last.model.options
    lives, events = 0, []
    while lives < 60 and not (events and isinstance(events[-1], Finished)):
        lives, events = lives + 1, []
        with suppress(Killed), Checkpoint(tmp_path, seconds=0) as checkpoint:
            for event in train(data[0], options(), valid, Resources(checkpoint=checkpoint)):
                events.append(event)
                if len(events) == 12:
                    raise Killed
    assert lives > 1
    for name, array in last.model.parameters.arrays().items():
        np.testing.assert_array_equal(events[-1].model.parameters.arrays()[name], array)


REFUSED = {
    "ratings": (RaFMRegressor, {}, "requires task='binary'"),
    "sampling": (
        RaFMClassifier,
        {"optimizer": "gibbs", "ranks": 4, "model": "fm"},
        "has no effect with optimizer='gibbs'",
    ),
    "sampled negatives": (RaFMClassifier, {"negative_rate": 0.5}, "would undo negative_rate"),
    "no validation rows": (RaFMClassifier, {"validation_fraction": 0}, "needs validation rows, or more than 5000 rows"),
    "few rows": (RaFMClassifier, {}, "needs validation rows, or more than 5000 rows"),
}


@pytest.mark.parametrize(("kind", "given", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_calibrated_is_refused(kind, given, message):
    ids, labels = noisy(60)
    with pytest.raises(ConfigError, match=message):
        kind(calibrate="on", **given).fit(matrix_of(ids), labels)


def test_a_model_that_keeps_its_state_goes_on_from_what_was_calibrated(data):
    *_, last = run_recipe(data[0], replace(options(), keep_state=True), data[1])
    assert KEY in last.model.options
    assert last.model.parameters.states.bias[0] == last.model.parameters.bias[0]


def test_the_state_of_ftrl_would_undo_it(data):
    kept = {"keep_state": True}
    *_, last = run_recipe(data[0], replace(options(optimizer="ftrl"), **kept), data[1])
    assert KEY not in last.model.options
    with pytest.raises(ConfigError, match="cannot keep the optimiser state of 'ftrl'"):
        [*run_recipe(data[0], replace(options(optimizer="ftrl", calibrate="on"), **kept), data[1])]
