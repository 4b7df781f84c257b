"""Metrics against plain counting and against scikit-learn."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import mean_absolute_error, mean_poisson_deviance, roc_auc_score, root_mean_squared_error

from rafm.losses import loss_named
from rafm.losses.huber import Huber
from rafm.metrics import METRICS, is_better, shown_metrics
from rafm.metrics.auc import auc
from rafm.metrics.evaluation import Evaluation, evaluate, with_predictions
from rafm.metrics.ranking import Ranking, sortable

LOG_LOSS, SQUARED_LOSS, POISSON = (loss_named(name) for name in ("log", "squared", "poisson"))


def log_loss(labels, scores, weights):
    return evaluate(LOG_LOSS, labels, scores, weights, ["log_loss"])["log_loss"]


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


# Adding up batch by batch


def many_rows(n_rows=5000, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(-1, 1.5, n_rows).astype(np.float32)
    labels = (rng.random(n_rows) < naive.sigmoid(scores)).astype(np.float32)
    return labels, scores, rng.choice([0.5, 1, 2], n_rows)


def tally_of(loss, rows, n_parts=7):
    tally = Evaluation(loss)
    for part in zip(*(np.array_split(column, n_parts) for column in rows)):
        tally.add(*part)
    return tally.report()


def test_batches_add_up_to_the_metrics_of_all_rows():
    rows = many_rows()
    found, expected = tally_of(LOG_LOSS, rows), evaluate(LOG_LOSS, *rows, LOG_LOSS.metrics)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    labels, scores, weights = rows
    assert found["rows"] == labels.size
    assert found["mean_label"] == pytest.approx(np.average(labels, weights=weights), rel=1e-12)
    assert found["mean_prediction"] == pytest.approx(np.average(naive.sigmoid(scores), weights=weights), rel=1e-7)


def test_ratings_add_up_too():
    labels, scores, weights = many_rows()
    found, expected = tally_of(SQUARED_LOSS, (labels, scores, weights)), evaluate(SQUARED_LOSS, labels, scores, weights)
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-12)
    assert found["mean_prediction"] == pytest.approx(np.average(scores, weights=weights), rel=1e-6)


def test_normalized_entropy_is_the_loss_over_that_of_the_mean_label():
    labels, scores, weights = many_rows()
    constant = np.full(labels.size, np.average(labels, weights=weights))
    expected = sklearn_log_loss(labels, naive.sigmoid(scores), sample_weight=weights)
    expected /= sklearn_log_loss(labels, constant, sample_weight=weights)
    assert tally_of(LOG_LOSS, (labels, scores, weights))["normalized_entropy"] == pytest.approx(expected, rel=1e-6)
    assert tally_of(LOG_LOSS, (np.ones(5), scores[:5], weights[:5]), 1)["normalized_entropy"] is None


def test_bins_hold_equal_weight_and_what_was_predicted_and_happened_in_them():
    labels, scores, _ = many_rows()
    table = tally_of(LOG_LOSS, (labels, scores, np.ones(labels.size)))["reliability"]
    parts = np.array_split(np.argsort(scores, kind="stable"), 10)
    assert [line["weight"] for line in table] == [len(part) for part in parts]
    np.testing.assert_allclose([line["mean_label"] for line in table], [labels[part].mean() for part in parts])
    expected = [naive.sigmoid(scores[part]).mean() for part in parts]
    np.testing.assert_allclose([line["mean_prediction"] for line in table], expected, rtol=1e-6)
    gaps = [abs(naive.sigmoid(scores[part]).mean() - labels[part].mean()) for part in parts]
    found = tally_of(LOG_LOSS, (labels, scores, np.ones(labels.size)))["calibration_error"]
    assert found == pytest.approx(np.mean(gaps), rel=1e-6)


def test_equal_scores_are_never_split_between_bins():
    labels = np.array([0, 1] * 50)
    table = tally_of(LOG_LOSS, (labels, np.repeat([-1.0, 2.0], 50), np.ones(100)))["reliability"]
    assert [line["weight"] for line in table] == [50, 50]
    assert [line["mean_prediction"] for line in table] == pytest.approx([naive.sigmoid(-1.0), naive.sigmoid(2.0)])


@pytest.mark.parametrize("limit", [2, 30, 400])
def test_many_distinct_scores_are_merged_with_their_neighbours(limit):
    labels, scores, weights = many_rows()
    ranking = Ranking(limit)
    for part in zip(*(np.array_split(column, 9) for column in (labels, scores, weights))):
        ranking.add(with_predictions(LOG_LOSS, *part))
    area, exact = ranking.auc(), auc(labels, scores, weights)
    assert ranking.keys.size <= limit
    assert ranking.columns[:, :2].sum() == pytest.approx(weights.sum())
    if limit == 400:
        assert area == pytest.approx(exact, abs=1e-4)
        assert area != exact


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=20))
def test_keys_are_in_the_order_of_scores(scores):
    scores = np.array(scores, np.float32)
    keys = sortable(scores)
    np.testing.assert_array_equal(np.sign(np.subtract.outer(keys, keys)), compare(scores))


def compare(scores):
    return (scores[:, None] > scores).astype(int) - (scores[:, None] < scores)


def test_no_rows_tell_nothing():
    assert Evaluation(LOG_LOSS).report() == {"rows": 0}


@given(scored_rows)
def test_poisson_deviance_agrees_with_scikit_learn(rows):
    labels, scores, weights = rows
    expected = mean_poisson_deviance(labels, np.exp(scores), sample_weight=weights)
    found = evaluate(POISSON, labels, scores, weights, ["poisson_deviance"])["poisson_deviance"]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(scored_rows, st.sampled_from([0.5, 1.0, 3.0]))
def test_huber_loss_is_the_mean_of_its_definition(rows, delta):
    labels, scores, weights = rows
    losses = [delta**2 * naive.loss("huber", score / delta, label / delta) for label, score in zip(labels, scores)]
    found = evaluate(Huber(delta), labels, scores, weights, ["huber_loss"])["huber_loss"]
    assert found == pytest.approx(np.average(losses, weights=weights), rel=1e-9, abs=1e-12)


def test_an_auc_that_rises_is_better_and_all_else_that_falls():
    rising = ["auc", "pair_auc", "ndcg", "recall"]
    assert [name for name in METRICS if is_better(name, 0.6, 0.5)] == rising
    assert [name for name in METRICS if is_better(name, 0.5, 0.6)] == [name for name in METRICS if name not in rising]
    assert is_better("auc", 0.5, None)
    assert not is_better("auc", None, 0.5)


def test_training_shows_two_metrics_and_the_chosen_one():
    assert shown_metrics(LOG_LOSS, "log_loss") == ["log_loss", "auc"]
    assert shown_metrics(LOG_LOSS, "normalized_entropy") == ["log_loss", "auc", "normalized_entropy"]
