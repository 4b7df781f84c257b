"""The supplement's inequalities, checked numerically on the paper's equations and on trained models."""

import itertools

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.train.dispatch import train_model

probabilities = st.floats(1e-6, 1 - 1e-6)
deltas = st.floats(1.001, 100)


def log_loss(prediction, label):
    return -label * np.log(prediction) - (1 - label) * np.log1p(-prediction)


def divergence(first, second):
    """Return the KL divergence of two coins."""
    return first * np.log(first / second) + (1 - first) * (np.log1p(-first) - np.log1p(-second))


def constant(theta, delta):
    """Return C of the supplement's third section."""
    other = (1 - theta) * (np.log1p(-theta) - np.log1p(-theta / delta))
    return np.log(delta) / (theta * np.log(delta) + other)


@given(probabilities, probabilities, st.sampled_from([0, 1]), deltas, st.floats(0.01, 1))
def test_log_loss_obeys_the_quasi_triangle_inequality(first, second, label, delta, part):
    theta = part * (label * first + (1 - label) * (1 - first))  # any theta up to the probability of the label
    bound = log_loss(first, label) + constant(theta, delta) * divergence(first, second) + np.log(delta)
    assert log_loss(second, label) <= bound * (1 + 1e-9) + 1e-9


@given(st.floats(1e-4, 0.98), st.floats(1.0001, 1.01), deltas)
def test_the_constant_is_positive_and_falls_as_theta_rises(theta, step, delta):
    assert 0 < constant(theta * step, delta) <= constant(theta, delta) * (1 + 1e-9)


@given(st.lists(st.tuples(*[st.floats(-5, 5)] * 3), min_size=1, max_size=20))
def test_the_root_of_the_squared_loss_obeys_the_triangle_inequality(rows):
    first, second, label = np.array(rows).T
    size = lambda errors: np.sqrt(np.mean(errors**2))  # noqa: E731
    assert size(first - label) <= size(second - label) + size(first - second) + 1e-9


def random_rows(rng, n_features, n_rows):
    lengths = rng.integers(2, 5, n_rows)
    return [(rng.choice(n_features, size, replace=False), rng.normal(1, 0.3, size)) for size in lengths]


@pytest.mark.parametrize("seed", range(5))
def test_what_a_lower_level_loses_is_bounded_by_the_steps_between_levels(seed):
    """The part of Theorem 1 that holds for all parameters: sqrt L(B_1k, y) <= sqrt L(B_1m, y) + sum of steps."""
    rng = np.random.default_rng(seed)
    model = naive.random_model(rng, (2, 3, 5), sorted(rng.integers(1, 4, 8), reverse=True))
    rows, labels = random_rows(rng, 8, 30), rng.normal(0, 1, 30)
    at = [np.array([naive.rafm_score(model, row, 1, level) for row in rows]) for level in (1, 2, 3)]
    size = lambda errors: np.sqrt(np.mean(errors**2))  # noqa: E731
    for k in range(3):
        steps = sum(size(at[p] - at[p + 1]) for p in range(k, 2))
        assert size(at[k] - labels) <= size(at[2] - labels) + steps + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_the_lemma_holds_where_the_next_level_repeats_the_one_below(seed):
    """B_{l,k} = B_{l-1,k} if v_i^(l) is v_i^(l-1) with zeros in front, for all features."""
    rng = np.random.default_rng(seed)
    model = naive.random_model(rng, (2, 4, 5), [3] * 6)
    model["levels"] = [3, 3, 2, 2, 1, 1]
    for i in range(6):
        model["v"][1][i] = np.concatenate([np.zeros(2), model["v"][0][i]])
    for row in random_rows(rng, 6, 10):
        assert naive.rafm_score(model, row, 2, 3) == pytest.approx(naive.rafm_score(model, row, 1, 3), rel=1e-12)


def test_the_lemma_needs_the_constraint_that_levels_agree():
    """Without it RaFM fits what an FM of its top rank cannot: a counterexample with both ranks 1.

    The pair of the frequent features a and b wants 1, a and c want 1, b and c want -1. The product of the three dot
    products of an FM of rank 1 is (v_a v_b v_c)^2, never negative, so no FM fits; RaFM has v_a^(2) v_b^(2) apart.
    """
    rows = [(np.array(pair), np.ones(2)) for pair in itertools.combinations(range(3), 2)]
    wanted = np.array([1.0, 1.0, -1.0])
    low, high = [np.array([1.0]), np.array([-1.0]), np.array([1.0])], [np.array([1.0]), np.array([1.0]), None]
    model = {"family": "rafm", "ranks": (1, 1), "levels": [2, 2, 1], "bias": 0.0, "w": np.zeros(3), "v": [low, high]}
    assert [naive.rafm_score(model, row, 1, 2) for row in rows] == wanted.tolist()
    numbers = np.linspace(-2, 2, 41)
    a, b, c = np.meshgrid(numbers, numbers, numbers)
    errors = (a * b - 1) ** 2 + (a * c - 1) ** 2 + (b * c + 1) ** 2
    assert errors.min() > 0.5


def planted(n_rows=6000, seed=0):
    """Return ratings of a planted FM over 40 frequent and 60 rare features of two fields."""
    rng = np.random.default_rng(seed)
    users = np.where(rng.random(n_rows) < 0.8, rng.integers(0, 20, n_rows), rng.integers(20, 50, n_rows))
    items = 50 + np.where(rng.random(n_rows) < 0.8, rng.integers(0, 20, n_rows), rng.integers(20, 50, n_rows))
    tastes = rng.normal(0, 0.7, (100, 4))
    labels = (tastes[users] * tastes[items]).sum(1) + rng.normal(0, 0.3, n_rows)
    indices = np.stack([users, items], 1).ravel()
    indptr, ones = np.arange(0, 2 * n_rows + 1, 2), np.ones(2 * n_rows, np.float32)
    return check_batch(Batch(indptr, indices, ones, 100, labels.astype(np.float32)))


def test_the_training_error_of_every_fm_is_below_the_bound_of_a_trained_rafm():
    """Theorem 1 with FMs trained on their own: sqrt L(B_kk) <= sqrt L(B_1m) + sum of the steps between levels."""
    rows, ranks = planted(), (1, 2, 4)
    shared = {"task": "regression", "l2": 0.0, "n_epochs": 30, "patience": None}
    levels = np.tile(np.repeat([3, 2, 1], [10, 10, 30]), 2)  # users, then items, frequent ones first
    rafm = train_model(rows, resolve(ranks=ranks, update="algorithm1", levels=levels, **shared))
    at = [rafm.scores(rows, level=level).astype(float) for level in (1, 2, 3)]
    size = lambda errors: np.sqrt(np.mean(errors**2))  # noqa: E731
    for k, rank in enumerate(ranks):
        fm = train_model(rows, resolve(model="fm", ranks=rank, **shared))
        error = size(fm.scores(rows) - rows.labels)
        bound = size(at[2] - rows.labels) + sum(size(at[p] - at[p + 1]) for p in range(k, 2))
        assert error <= bound + 0.01, (rank, error, bound)  # FMs are trained, not at their optimum
    assert size(at[2] - rows.labels) < 0.8 * np.std(rows.labels)  # the bound says something
