"""What tests of fitted estimators share: small data in several forms, and estimators that train on them quickly."""

import numpy as np
import pandas as pd
import worlds
from scipy import sparse

from rafm import RaFMClassifier, RaFMRegressor
from rafm.checks import effective

KINDS = {"binary": RaFMClassifier, "regression": RaFMRegressor}
RANKS = {"rafm": (2, 5, 12), "difacto": (2, 5, 12), "fm": 5, "lr": None, "mrma": (2, 5)}


def long_tail(task="binary", n_rows=400, seed=0):
    """Return a CSR matrix of 0 to 3 in 60 columns, most of them rare and the last never used, and labels."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n_rows, 60), np.float32)
    for _ in range(4):
        X[np.arange(n_rows), np.minimum(rng.zipf(1.5, n_rows), 59) - 1] = rng.integers(1, 4, n_rows)
    truth = X[:, :6] @ rng.normal(size=6) + X[:, 0] * X[:, 1]
    y = truth if task == "regression" else (truth > np.median(truth)).astype(int)
    return sparse.csr_matrix(X), y


def two_fields(task="binary", n_rows=900):
    """Return training and validation data of exactly two features per row, as pairs of CSR matrix and labels."""
    pairs = []
    for batch in worlds.planted(task, n_rows):
        X = sparse.csr_matrix((batch.values, batch.indices, batch.indptr), shape=(batch.n_rows, 50))
        pairs.append((X, batch.labels if task == "regression" else batch.labels.astype(int)))
    return pairs


def make(task="binary", model="rafm", **options):
    usual = {"ranks": RANKS.get(model), "model": model, "n_epochs": 3, "l2": 0.001, "validation_fraction": 0}
    return KINDS[task](**effective({**usual, **options}))


def scores_of(estimator, X):
    return getattr(estimator, "decision_function", estimator.predict)(X)


def mixed_table():
    """Return a table of text and numbers with 400 rows."""
    rng = np.random.default_rng(0)
    words = np.array(["ham", "spam", "eggs", None], object)
    return pd.DataFrame({"word": words[rng.integers(0, 4, 400)], "size": rng.normal(size=400)})
