"""More room, or one more column, must not make a model worse."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack
from sklearn.metrics import root_mean_squared_error

from rafm import RaFMRegressor

N_ROWS, N_IDS = 1_500, 40


def ratings(seed, n_rows=N_ROWS):
    """Return rows of users and items with a long tail, and ratings that depend on pairs: two samples."""
    draw = np.random.default_rng(seed)
    ids = np.minimum(draw.zipf(1.4, (2 * n_rows, 2)) - 1, N_IDS - 1)
    user, item = draw.normal(size=(N_IDS, 4)), draw.normal(size=(N_IDS, 4))
    score = (user[ids[:, 0]] * item[ids[:, 1]]).sum(axis=1) + draw.normal(size=N_IDS)[ids[:, 0]]
    y = score + draw.normal(size=2 * n_rows)
    ends = np.arange(0, ids.size + 1, 2)
    X = csr_matrix((np.ones(ids.size, np.float32), (ids + N_IDS * np.arange(2)).ravel(), ends), (2 * n_rows, 2 * N_IDS))
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def useless_columns(n_rows):
    """Return a column of ids at random for each of two samples."""
    draw, ends = np.random.default_rng(50), np.arange(n_rows + 1)
    return [csr_matrix((np.ones(n_rows), draw.integers(0, 300, n_rows), ends), (n_rows, 300)) for _ in range(2)]


def test_a_larger_budget_is_no_worse_on_the_validation_rows():  # case 141
    X, y, Z, z = ratings(seed=2)
    losses = []
    for budget in (500, 900):
        model = RaFMRegressor(ranks="auto", max_parameters=budget).fit(X, y, eval_set=(Z, z))
        assert model.n_parameters_ <= budget
        losses.append(root_mean_squared_error(z, model.predict(Z)))
    assert losses[1] <= losses[0] * (1 + 1e-5)


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="penalties of few rows do not find out what says nothing")
def test_a_column_of_ids_that_say_nothing_does_no_harm_beyond_luck():  # case 142
    X, y, Z, z = ratings(seed=0)
    more, losses = useless_columns(N_ROWS), []
    for left, right in ((X, Z), (hstack([X, more[0]]).tocsr(), hstack([Z, more[1]]).tocsr())):
        losses.append(root_mean_squared_error(z, RaFMRegressor().fit(left, y).predict(right)))
    assert losses[1] < 1.05 * losses[0]


def test_a_column_of_ids_that_say_nothing_does_no_harm_to_ratings_of_known_fields():
    n_rows, names = 6000, ["user"] * N_IDS + ["item"] * N_IDS
    X, y, Z, z = ratings(0, n_rows)
    more, losses = useless_columns(n_rows), []
    wider = hstack([X, more[0]]).tocsr(), hstack([Z, more[1]]).tocsr(), names + ["nothing"] * 300
    for left, right, fields in ((X, Z, names), wider):
        model = RaFMRegressor(fields=fields).fit(left, y)
        assert model.model_.options["optimizer"] == "gibbs"
        losses.append(root_mean_squared_error(z, model.predict(right)))
    assert losses[1] < 1.03 * losses[0]
