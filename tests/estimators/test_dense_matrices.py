"""Matrices of hundreds of numbers: by default no worse than a linear model whose penalty was tuned."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, root_mean_squared_error

from rafm import RaFMClassifier, RaFMRegressor

N_TRAIN, N_TEST = 5_200, 2_000  # just enough for one share to be held out
WORSE = 1.02  # at most, and only by luck


def numbers(n_columns, seed=0):
    """Return columns of standard normal numbers, and a sum of all that has a variance of 1."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(N_TRAIN + N_TEST, n_columns)).astype(np.float32)
    score = X @ draw.normal(size=n_columns)
    return X, score / score.std(), draw


def tuned(models, loss, X, y):
    """Return the loss on test rows of the model that is best on the last fifth of the training rows."""
    first, train = slice(0, N_TRAIN * 4 // 5), slice(0, N_TRAIN)
    rest, test = slice(N_TRAIN * 4 // 5, N_TRAIN), slice(N_TRAIN, None)
    best = min(models, key=lambda model: loss(model.fit(X[first], y[first]), X[rest], y[rest]))
    return loss(best.fit(X[train], y[train]), X[test], y[test])


def loss_of_clicks(model, X, y):
    return log_loss(y, model.predict_proba(X)[:, 1])


def loss_of_numbers(model, X, y):
    return root_mean_squared_error(y, model.predict(X))


@pytest.mark.parametrize("n_columns", [300, 600])
def test_clicks_that_depend_on_hundreds_of_numbers_are_learnt_by_default(n_columns):  # case 132
    X, score, draw = numbers(n_columns)
    y = (draw.logistic(size=score.size) < 2.5 * score).astype(int)
    models = [LogisticRegression(C=C, max_iter=500) for C in (1e-3, 1e-2, 3e-2, 1e-1, 1)]
    found = loss_of_clicks(RaFMClassifier(random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN]), X[N_TRAIN:], y[N_TRAIN:])
    assert found < WORSE * tuned(models, loss_of_clicks, X, y)


def test_numbers_that_depend_on_hundreds_of_numbers_are_learnt_by_default():  # case 132
    X, score, draw = numbers(300)
    y = score + draw.normal(size=score.size) / 2
    models = [Ridge(alpha=alpha) for alpha in (1, 10, 100, 1000)]
    found = loss_of_numbers(RaFMRegressor(random_state=0).fit(X[:N_TRAIN], y[:N_TRAIN]), X[N_TRAIN:], y[N_TRAIN:])
    assert found < WORSE * tuned(models, loss_of_numbers, X, y)
