"""Values of any size in the sampler: the prior of a field holds for what a row has of it, in the user's units."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, hstack
from worlds import pack_rows

from rafm.options import resolve
from rafm.plan.ranks import RankPlan
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train.dispatch import run_recipe
from rafm.train.events import Finished
from rafm.train.gibbs.engine import GibbsEngine

N_USERS, N_ITEMS, N_ROWS, NOISE, RANK = 80, 250, 5000, 1.0, 2
BOUNDS = (0, N_USERS, N_USERS + N_ITEMS, N_USERS + 2 * N_ITEMS)
FIELDS = Fields.of_ranges(("user", "item", "history"), BOUNDS)
ENDS = (0, 3000, 4000, N_ROWS)


def ones(columns, width):
    """Return a matrix with a 1 in one column of each row."""
    return csr_matrix((np.ones(columns.size), columns, np.arange(columns.size + 1)), (columns.size, width))


@pytest.fixture(scope="module")
def histories():
    """Return rows of a user, an item and about a hundred other items, each with 1 / sqrt(n); labels and the truth."""
    rng = np.random.default_rng(1)
    users, items = rng.integers(0, N_USERS, N_ROWS), rng.integers(0, N_ITEMS, N_ROWS)
    has = rng.random((N_USERS, N_ITEMS)) < rng.uniform(0.1, 0.7, (N_USERS, 1))
    lists = csr_matrix(has / np.sqrt(has.sum(axis=1, keepdims=True)))
    X = hstack([ones(users, N_USERS), ones(items, N_ITEMS), lists[users]]).tocsr()
    spreads = np.repeat([0.3, 0.2, 0.3], np.diff(BOUNDS))
    vectors = rng.normal(0, 0.5, (BOUNDS[-1], RANK)) * (np.arange(BOUNDS[-1]) >= N_USERS)[:, None]
    sums, squares = X @ vectors, X.power(2) @ vectors**2
    truth = 3 + X @ rng.normal(0, spreads) + 0.5 * (sums**2 - squares).sum(axis=1)
    return X, truth + rng.normal(0, NOISE, N_ROWS), truth


def batch(X, labels):
    return check_batch(Batch(X.indptr, X.indices, X.data, X.shape[1], labels))


def error_of_model(X, labels, truth):
    """Return the distance of a sampled and distilled model from the truth of the last rows."""
    train, valid, test = (batch(X[a:b], labels[a:b]) for a, b in pairwise(ENDS))
    options = resolve(task="regression", model="fm", ranks=RANK, optimizer="gibbs", n_epochs=60, patience=None)
    *_, last = run_recipe(InMemory(train, FIELDS), options, valid)
    assert isinstance(last, Finished)
    return last.model.predict(test), float(np.sqrt(np.mean((last.model.predict(test) - truth[ENDS[2] :]) ** 2)))


def error_of_chain(X, labels, truth):
    """Return the same of the mean of 45 samples of a chain as in the books, in the units of the values."""
    rng, fields = np.random.default_rng(0), np.repeat(np.arange(3), np.diff(BOUNDS))
    Z, y, test = X[: ENDS[1]], labels[: ENDS[1]], X[ENDS[2] :]
    columns, bias, total = Z.tocsc(), labels[: ENDS[1]].mean(), np.zeros(test.shape[0])
    numbers = np.concatenate([np.zeros((1, BOUNDS[-1])), rng.normal(0, 0.1, (RANK, BOUNDS[-1]))])
    prior = np.repeat([[[5.0, 0.0]], [[20.0, 0.0]]], [1, RANK], axis=0).repeat(3, axis=1)  # precision and mean

    def scores(rows):
        sums, squares = rows @ numbers[1:].T, rows.power(2) @ numbers[1:].T ** 2
        return bias + rows @ numbers[0] + 0.5 * (sums**2 - squares).sum(axis=1)

    for sweep in range(60):
        errors = y - scores(Z)
        step = errors.mean() + rng.normal() * NOISE / np.sqrt(y.size)
        bias, errors = bias + step, errors - step
        for f, own in enumerate(numbers):
            sums = Z @ own
            for k in range(3) if sweep >= 3 else ():
                v, mean = own[fields == k], prior[f, k, 1]
                rate = 0.5 * (((v - mean) ** 2).sum() + mean**2 + 1)
                precision = rng.gamma(0.5 * v.size + 1) / rate
                prior[f, k] = precision, rng.normal(v.sum() / (v.size + 1), ((v.size + 1) * precision) ** -0.5)
            for i, k in enumerate(fields):
                entries = slice(columns.indptr[i], columns.indptr[i + 1])
                rows, x = columns.indices[entries], columns.data[entries]
                h = x * (sums[rows] - x * own[i]) if f else x
                precision = prior[f, k, 0] + (h @ h) / NOISE**2
                mean = ((h @ errors[rows] + (h @ h) * own[i]) / NOISE**2 + prior[f, k].prod()) / precision
                change = mean + rng.normal() / np.sqrt(precision) - own[i]
                errors[rows] -= h * change
                sums[rows] += x * change
                own[i] += change
        total += scores(test) if sweep >= 15 else 0
    return float(np.sqrt(np.mean((total / 45 - truth[ENDS[2] :]) ** 2)))


def test_rows_of_a_hundred_values_are_learnt_as_well_as_by_a_chain_in_their_own_units(histories):
    _, found = error_of_model(*histories)
    assert found < 1.02 * error_of_chain(*histories)


@pytest.mark.parametrize("factor", [1e-4, 1000])
def test_a_field_in_other_units_gives_the_same_predictions(factor, histories):
    X, labels, truth = histories
    other = X @ csr_matrix(np.diag(np.repeat([1, 1, factor], np.diff(BOUNDS))))
    found, expected = error_of_model(other.tocsr(), labels, truth)[0], error_of_model(X, labels, truth)[0]
    np.testing.assert_allclose(found, expected, atol=0.01 * truth.std())


@given(st.lists(st.floats(-4, 4), min_size=3, max_size=3))
@settings(max_examples=20, deadline=None)
def test_draws_scale_with_the_units_of_each_field(powers):
    rng, sizes = np.random.default_rng(3), (4, 3, 1)
    X = np.where(rng.random((50, 8)) < 0.6, rng.normal(size=(50, 8)), 0)
    fields, labels = np.repeat(np.arange(3), sizes), rng.normal(size=50).astype(np.float32)
    found = []
    for units in (np.ones(8), 10.0 ** np.repeat(powers, sizes)):
        rows = pack_rows([(np.flatnonzero(x), (x * units)[np.flatnonzero(x)]) for x in X], labels, None, np.float32)
        engine = GibbsEngine(rows, RankPlan("fm", (2,), (8, 8, 0)), fields, seed=1, bias=0.0)
        for sweep in range(6):
            engine.sample(0, 3, sweep, True)
        found.append(engine.chain.means[:, engine.arrangement.places] * units)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-2, atol=1e-2)
