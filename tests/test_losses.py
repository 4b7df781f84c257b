"""Losses: predictions, the best constant, and what is reported, each against its definition."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.errors import ConfigError
from rafm.kernels import records as kernels
from rafm.losses import LOG_LOSS, LOSSES, SQUARED_LOSS, loss_for

KINDS = {"logistic": LOG_LOSS, "squared": SQUARED_LOSS}


@given(st.lists(st.floats(-30, 30), min_size=1).map(np.array))
def test_predictions_are_probabilities_for_the_log_loss_and_scores_else(scores):
    np.testing.assert_allclose(LOG_LOSS.predict(scores), naive.sigmoid(scores), rtol=1e-12)
    np.testing.assert_array_equal(SQUARED_LOSS.predict(scores), scores)


def test_probabilities_of_huge_scores_are_0_and_1_without_warnings():
    assert LOG_LOSS.predict(np.array([-1e4, -1e300, 1e4])).tolist() == [0, 0, 1]


@pytest.mark.parametrize("kind", KINDS)
@given(score=st.floats(-20, 20), label=st.sampled_from([0.0, 1.0]))
def test_the_kernels_know_the_same_losses(kind, score, label):
    code, fading = KINDS[kind].code, np.exp(-abs(score))
    loss, slope = naive.loss(kind, score, label), naive.slope(kind, score, label)
    assert kernels.loss_value(code, score, label, np.log1p(fading)) == pytest.approx(loss, rel=1e-7, abs=1e-12)
    assert kernels.link(code, score, fading) - label == pytest.approx(slope, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(
    labels=st.lists(st.sampled_from([0.0, 0.0, 1.0]), min_size=2, max_size=20).map(np.array),
    seed=st.integers(0, 99),
)
def test_no_constant_beats_the_prior(kind, labels, seed):
    weights = np.random.default_rng(seed).uniform(0.5, 3, labels.size)
    if kind == "logistic" and labels.min() == labels.max():
        return
    prior = KINDS[kind].prior(np.average(labels, weights=weights), weights.sum())

    def total(constant):
        return sum(weight * naive.loss(kind, constant, label) for label, weight in zip(labels, weights))

    assert total(prior) <= min(total(prior + 0.01), total(prior - 0.01)) + 1e-12


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_the_prior_of_a_single_class_is_that_of_half_a_row_of_the_other(label):
    prior = LOG_LOSS.prior(label, 10)
    assert naive.sigmoid(prior) == pytest.approx(0.95 if label else 0.05, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_the_prior_of_rows_without_weight_is_finite(loss):
    assert np.isfinite(loss.prior(0.0, 0.0))


def test_the_mean_of_half_squares_is_reported_as_rmse():
    errors = np.array([1.0, 3.0, -2.0])
    assert SQUARED_LOSS.report(np.mean(errors**2 / 2)) == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-12)
    assert LOG_LOSS.report(0.25) == 0.25


def test_an_unknown_task_is_refused():
    with pytest.raises(ConfigError, match="binary or regression") as caught:
        loss_for("multiclass")
    assert caught.value.key == "task"


def test_losses_are_found_by_task():
    assert loss_for("binary") is LOG_LOSS
    assert loss_for("regression") is SQUARED_LOSS
