"""Losses: predictions, slopes, the best constant, labels and what is reported, each against its definition."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from rafm.errors import ConfigError
from rafm.kernels import losses as kernels
from rafm.losses import KERNELS, LOSSES, SAME_CODE, TASKS, loss_for, loss_named, losses_of
from rafm.losses.huber import Huber

KINDS = {"log": "logistic", "whole-data": "squared"}
LABELS = {"log": [0.0, 1.0], "squared": [-2.0, 0.5, 9.0], "poisson": [0.0, 1.0, 7.0], "huber": [-2.0, 0.5, 9.0]}
LABELS["bpr"] = LABELS["log"]  # of the rows of a pair
LABELS["whole-data"] = [0.0, 1.0]
WRONG = {"log": [-1.0, 3.0], "poisson": [-1.0]}  # labels that a loss rejects
ALL = [loss_named(name) for name in LOSSES]
LINK, VALUE, SLOPE = map(njit, (kernels.link, kernels.loss_value, kernels.loss_slope))
by_name = pytest.mark.parametrize("loss", ALL, ids=LOSSES)


def kind_of(loss):
    """Return what the slow twin calls a loss."""
    return KINDS.get(loss.name, loss.name)


@by_name
@given(scores=st.lists(st.floats(-30, 30), min_size=1).map(np.array))
def test_predictions_are_what_the_definition_says(loss, scores):
    expected = [naive.predicted(kind_of(loss), score) for score in scores]
    np.testing.assert_allclose(loss.predict(scores), expected, rtol=1e-12)


@by_name
def test_exported_models_know_the_link(loss):
    scores = np.linspace(-3, 3, 7)
    links = {"identity": scores, "sigmoid": naive.sigmoid(scores), "exp": np.exp(scores)}
    np.testing.assert_allclose(loss.predict(scores), links[loss.link_name], rtol=1e-12)


def test_probabilities_of_huge_scores_are_0_and_1_without_warnings():
    assert loss_named("log").predict(np.array([-1e4, -1e300, 1e4])).tolist() == [0, 0, 1]


@by_name
@given(data=st.data(), score=st.floats(-20, 20))
def test_values_and_slopes_match_the_definition_compiled_and_not(loss, data, score):
    score, label = np.float64(score), np.float64(data.draw(st.sampled_from(LABELS[loss.name])))
    small = np.exp(-abs(score))
    kind = KINDS.get(SAME_CODE.get(loss.name), kind_of(loss))
    expected = naive.loss(kind, score, label), naive.slope(kind, score, label)
    prediction, shape = loss.link(score, small), np.float64(loss.shape())
    assert LINK(loss.code, score, small) == pytest.approx(prediction, rel=1e-12)
    for own, compiled in ((loss.value, VALUE), (loss.slope, SLOPE)):
        given = (score, label, small, np.log1p(small)) if own == loss.value else (score, prediction, label)
        wanted = expected[0] if own == loss.value else expected[1]
        assert own(*given, shape) == pytest.approx(wanted, rel=1e-7, abs=1e-9)
        assert compiled(loss.code, *given, shape) == pytest.approx(wanted, rel=1e-7, abs=1e-9)


@by_name
@given(data=st.data(), score=st.floats(-5, 5))
def test_slopes_are_derivatives_of_values(loss, data, score):
    score, label = np.float64(score), np.float64(data.draw(st.sampled_from(LABELS[loss.name])))
    step, shape = np.float64(1e-6), np.float64(loss.shape())

    def value(at):
        small = np.exp(-abs(at))
        return float(loss.value(at, label, small, np.log1p(small), shape))

    slope = loss.slope(score, loss.link(score, np.exp(-abs(score))), label, shape)
    assert (value(score + step) - value(score - step)) / (2 * step) == pytest.approx(slope, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", ["log", "squared", "poisson"])
@given(data=st.data(), seed=st.integers(0, 99))
def test_no_constant_beats_the_prior(name, data, seed):
    loss = loss_named(name)
    labels = np.array(data.draw(st.lists(st.sampled_from(LABELS[name]), min_size=2, max_size=20)))
    weights = np.random.default_rng(seed).uniform(0.5, 3, labels.size)
    if name != "squared" and labels.min() == labels.max():
        return
    prior = loss.prior(np.average(labels, weights=weights), weights.sum())

    def total(constant):
        return sum(weight * naive.loss(kind_of(loss), constant, label) for label, weight in zip(labels, weights))

    assert total(prior) <= min(total(prior + 0.01), total(prior - 0.01)) + 1e-12


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_the_prior_of_a_single_class_is_that_of_half_a_row_of_the_other(label):
    prior = loss_named("log").prior(label, 10)
    assert naive.sigmoid(prior) == pytest.approx(0.95 if label else 0.05, rel=1e-12)


@by_name
def test_the_prior_of_rows_without_weight_is_finite(loss):
    assert np.isfinite(loss.prior(0.0, 0.0))


def test_mean_losses_are_reported_in_the_units_of_the_labels():
    errors = np.array([1.0, 3.0, -2.0])
    rmse = np.sqrt(np.mean(errors**2))
    assert loss_named("squared").report(np.mean(errors**2 / 2)) == pytest.approx(rmse, rel=1e-12)
    assert loss_named("squared").report(np.mean((errors / 4) ** 2 / 2), 4.0) == pytest.approx(rmse, rel=1e-12)
    assert loss_named("log").report(0.25) == 0.25
    assert loss_named("poisson").report(0.25) == 0.5
    assert loss_named("huber").report(0.5, 4.0) == 8.0


def test_the_baseline_of_counts_is_near_the_deviance_of_their_mean():
    counts = np.random.default_rng(0).poisson(3.0, 20_000).astype(float)
    deviance = 2 * np.mean([naive.loss("poisson", np.log(counts.mean()), count) for count in counts])
    assert loss_named("poisson").baseline(counts.mean(), counts.std()) == pytest.approx(deviance, rel=0.2)


@by_name
def test_labels_outside_of_a_loss_are_named(loss):
    low, high = min(LABELS[loss.name]), max(LABELS[loss.name])
    assert loss.wrong_labels(low, high) is None
    for label in WRONG.get(loss.name, []):
        assert f"{label:g}" in loss.wrong_labels(min(low, label), max(high, label))


def test_an_unknown_task_or_a_loss_of_another_task_is_refused():
    with pytest.raises(ConfigError, match="binary, regression, count or ranking") as caught:
        loss_for("multiclass")
    assert caught.value.key == "task"
    with pytest.raises(ConfigError, match="loss 'log' needs task='binary', found 'regression'") as caught:
        loss_for("regression", "log")
    assert caught.value.key == "loss"


def test_losses_are_found_by_task_and_by_name():
    assert [loss_for(task).name for task in TASKS] == ["log", "squared", "poisson", "bpr"]
    assert losses_of("regression") == ["squared", "huber"]
    assert loss_for("regression", Huber(delta=2.0)) == Huber(2.0)
    assert [loss_named(name).code for name in KERNELS] == list(range(len(KERNELS)))
    assert loss_named("bpr").code == loss_named("log").code


def test_hubers_delta_must_be_positive_and_is_scaled_with_the_labels():
    with pytest.raises(ConfigError, match="delta must be a positive number, found 0"):
        Huber(delta=0)
    assert Huber(2.0).shape(label_scale=4.0) == 0.5
