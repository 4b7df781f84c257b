"""Metrics against plain counting and against scikit-learn."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import mean_absolute_error, roc_auc_score, root_mean_squared_error

from rafm.losses import LOG_LOSS, SQUARED_LOSS, loss_for
from rafm.metrics import Tally, auc, evaluate, log_loss

scored_rows = st.lists(
    st.tuples(st.sampled_from([0.0, 1.0]), st.integers(-4, 4).map(float), st.sampled_from([0.5, 1.0, 3.0])),
    min_size=1,
    max_size=30,
).map(lambda rows: [np.array(column) for column in zip(*rows)])


@given(scored_rows)
def test_auc_counts_pairs_in_the_right_order_and_ties_by_half(rows):
    labels, scores, _ = rows
    if labels.min() == labels.max():
        assert auc(labels, scores, np.ones(labels.size)) is None
    else:
        assert auc(labels, scores, np.ones(labels.size)) == pytest.approx(naive.auc(labels, scores), rel=1e-12)


@given(scored_rows)
def test_weighted_metrics_agree_with_scikit_learn(rows):
    labels, scores, weights = rows
    probabilities = naive.sigmoid(scores)
    expected = sklearn_log_loss(labels, probabilities, sample_weight=weights, labels=[0, 1])
    assert log_loss(labels, scores, weights) == pytest.approx(expected, rel=1e-9)
    assert log_loss(labels, scores, weights) == pytest.approx(naive.log_loss(labels, scores, weights), rel=1e-9)
    if labels.min() < labels.max():
        expected = roc_auc_score(labels, scores, sample_weight=weights)
        assert auc(labels, scores, weights) == pytest.approx(expected, rel=1e-9)


@given(scored_rows)
def test_regression_metrics_agree_with_scikit_learn(rows):
    labels, scores, weights = rows
    found = evaluate(SQUARED_LOSS, labels, scores, weights)
    assert list(found) == ["rmse", "mae"]  # the first is watched
    assert found["rmse"] == pytest.approx(root_mean_squared_error(labels, scores, sample_weight=weights), rel=1e-12)
    assert found["mae"] == pytest.approx(mean_absolute_error(labels, scores, sample_weight=weights), rel=1e-12)


@given(scored_rows)
def test_binary_metrics_are_log_loss_then_auc(rows):
    found = evaluate(LOG_LOSS, *rows)
    assert list(found) == ["log_loss", "auc"]
    assert found["log_loss"] == log_loss(*rows)
    assert found["auc"] == auc(*rows)


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_a_single_class_has_no_auc(label):
    assert auc(np.full(3, label), np.array([0.1, 0.5, 0.3]), np.ones(3)) is None
    assert evaluate(LOG_LOSS, np.full(3, label), np.zeros(3), np.ones(3))["auc"] is None


def test_a_class_of_weight_0_does_not_count_as_one():
    assert auc(np.array([0, 1, 1]), np.array([0.1, 0.5, 0.3]), np.array([0.0, 1.0, 1.0])) is None


def test_no_rows_have_no_auc():
    assert auc(np.array([]), np.array([]), np.array([])) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_scores_have_a_finite_exact_loss(dtype):
    """Warnings are errors here, so overflow would show."""
    scores, labels = np.array([1e4, -1e4, 1e4, -1e4], dtype), np.array([1, 0, 0, 1], dtype)
    assert log_loss(labels[:2], scores[:2], np.ones(2)) == 0
    assert log_loss(labels[2:], scores[2:], np.ones(2)) == 1e4
    assert evaluate(LOG_LOSS, labels, scores, np.ones(4)) == {"log_loss": 5e3, "auc": 0.5}


def test_squares_are_taken_in_double_precision():
    labels, scores = np.zeros(2, np.float32), np.array([1e25, -1e25], np.float32)
    assert evaluate(SQUARED_LOSS, labels, scores, np.ones(2, np.float32))["rmse"] == pytest.approx(1e25, rel=1e-6)


# ---- Rows in pieces


@pytest.mark.parametrize("task", ["binary", "regression"])
@pytest.mark.parametrize("many", [10_000, 500, 7], ids=["few rows", "many rows", "more scores than are kept"])
def test_rows_in_pieces_have_the_metrics_of_the_whole(task, many, monkeypatch):
    monkeypatch.setattr("rafm.metrics.MANY", many)
    draw = np.random.default_rng(0)
    scores = draw.normal(size=3000).astype(np.float32).round(2 if many == 500 else 6)
    labels = (draw.random(3000) < 1 / (1 + np.exp(-scores))).astype(np.float32)
    weights = draw.integers(0, 4, 3000).astype(np.float32)
    whole, found = evaluate(loss_for(task), labels, scores, weights), []
    for order in (np.arange(3000), draw.permutation(3000)):
        tally = Tally(loss_for(task))
        for part in np.array_split(order, 11):
            tally.add(labels[part], scores[part], weights[part])
        assert tally.rows == 3000
        assert tally.weight == weights.sum()
        found.append(tally.metrics())
    room = {10_000: 1e-12, 500: 1e-12, 7: 0.2}[many]
    assert found[0] == pytest.approx(whole, rel=room)
    assert found[1] == pytest.approx(found[0], rel=1e-12)
    assert (found[0] == pytest.approx(whole, rel=1e-6)) == (many != 7 or task != "binary")


def test_scores_that_are_cut_move_the_auc_by_little(monkeypatch):
    monkeypatch.setattr("rafm.metrics.MANY", 5000)
    draw = np.random.default_rng(1)
    scores = draw.normal(-1, 1.5, size=60_000).astype(np.float32)
    labels = (draw.random(60_000) < 1 / (1 + np.exp(-scores))).astype(np.float32)
    tally = Tally(loss_for("binary"))
    tally.add(labels, scores, np.ones(60_000))
    assert tally.metrics()["auc"] == pytest.approx(auc(labels, scores, np.ones(60_000)), abs=1e-5)


def test_one_class_in_pieces_has_no_auc(monkeypatch):
    monkeypatch.setattr("rafm.metrics.MANY", 3)
    tally = Tally(loss_for("binary"))
    tally.add(np.ones(9), np.arange(9.0), np.ones(9))
    assert tally.metrics()["auc"] is None
