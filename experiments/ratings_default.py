"""Is a regressor without options better sampled than trained by steps? Generated rows of many kinds and sizes.

    python -m experiments.ratings_default [KIND ...] [--rows 200,1000,5000,20000] [--seeds 3]

Prints, for each kind and number of rows, the test RMSE in standard deviations of the label, the mean over seeds: of the
default with `optimizer="adagrad"`, of an FM of rank 8 that is sampled, and which of them the default chooses. Public
ratings are compared by no_option.py.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

import rafm

TEST_ROWS = 5000
SIZES = (5, 10, 20, 50, 100, 200, 500, 3, 7, 30)  # of the fields of "ten fields"
PAIRS = ((0, 4), (2, 5), (6, 9))  # of them, whose features interact
Made = tuple[Any, np.ndarray, list[str] | None]  # rows, labels, and the field of each feature
SAMPLED = {"model": "fm", "ranks": 8, "optimizer": "gibbs"}


def one_hot(columns: np.ndarray, sizes: tuple[int, ...]) -> tuple[csr_matrix, list[str]]:
    """Return one feature per field and row, and the fields of all features."""
    (n_rows, n_fields), starts = columns.shape, np.cumsum((0, *sizes))
    ids, indptr = (columns + starts[:-1]).ravel(), np.arange(n_rows + 1) * n_fields
    fields = [str(field) for field, size in enumerate(sizes) for _ in range(size)]
    return csr_matrix((np.ones(ids.size, np.float32), ids, indptr), shape=(n_rows, starts[-1])), fields


def ratings(rng: np.random.Generator, n_rows: int, noise: float = 0.8, pairs: float = 0.5) -> Made:
    """Return ratings of items by users, about 15 of each user."""
    sizes = max(5, n_rows // 15), max(4, n_rows // 30)
    ids = np.stack([(rng.random(n_rows + TEST_ROWS) ** 1.5 * size).astype(int) for size in sizes], axis=1)
    truth = 3.5 + sum(rng.normal(0, 0.4, size)[own] for size, own in zip(sizes, ids.T))
    vectors = [rng.normal(size=(size, 3))[own] for size, own in zip(sizes, ids.T)]
    truth = truth + pairs * (vectors[0] * vectors[1]).sum(axis=1) / np.sqrt(3)
    X, fields = one_hot(ids, sizes)
    return X, truth + rng.normal(0, noise, len(ids)), fields


def stars(rng: np.random.Generator, n_rows: int) -> Made:
    """Return ratings of one to five stars."""
    X, y, fields = ratings(rng, n_rows)
    return X, np.clip(np.round(y), 1, 5), fields


def additive(rng: np.random.Generator, n_rows: int) -> Made:
    """Return ratings without interactions."""
    return ratings(rng, n_rows, pairs=0.0)


def amounts(rng: np.random.Generator, n_rows: int) -> Made:
    """Return labels with a long tail on one side."""
    X, y, fields = ratings(rng, n_rows)
    return X, np.exp(y - 3.5), fields


def outliers(rng: np.random.Generator, n_rows: int) -> Made:
    """Return labels with Student's noise, of hardly any variance."""
    X, y, fields = ratings(rng, n_rows, noise=0.0)
    return X, y + 0.5 * rng.standard_t(2.1, y.size), fields


def ten_fields(rng: np.random.Generator, n_rows: int) -> Made:
    """Return rows of ten categories; three pairs of fields interact."""
    ids = np.stack([(rng.random(n_rows + TEST_ROWS) ** 2 * size).astype(int) for size in SIZES], axis=1)
    y = rng.normal(0, 0.7, len(ids)) + sum(rng.normal(0, 0.3, size)[own] for size, own in zip(SIZES, ids.T))
    for a, b in PAIRS:
        vectors = [rng.normal(size=(SIZES[field], 2))[ids[:, field]] for field in (a, b)]
        y = y + 0.4 * (vectors[0] * vectors[1]).sum(axis=1)
    X, fields = one_hot(ids, SIZES)
    return X, y, fields


def curves(rng: np.random.Generator, n_rows: int) -> Made:
    """Return Friedman's function of ten numbers, five of which matter."""
    X = rng.random((n_rows + TEST_ROWS, 10))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + rng.normal(0, 1, len(X)), None


def lines(rng: np.random.Generator, n_rows: int) -> Made:
    """Return a linear function of twenty numbers, a third of which matter."""
    X = rng.normal(size=(n_rows + TEST_ROWS, 20))
    return X, X @ (rng.normal(size=20) * (rng.random(20) < 0.3)) + rng.normal(0, 2, len(X)), None


def nothing(rng: np.random.Generator, n_rows: int) -> Made:
    """Return labels that twenty numbers do not tell."""
    return rng.normal(size=(n_rows + TEST_ROWS, 20)), rng.normal(0, 2, n_rows + TEST_ROWS), None


KINDS: dict[str, Callable[..., Made]] = {
    make.__name__: make for make in (ratings, stars, additive, ten_fields, amounts, outliers, curves, lines, nothing)
}


def error(made: Made, n_rows: int, seed: int, **given: Any) -> tuple[float, float, Any]:
    """Train a model; return its test RMSE, CPU seconds and the model."""
    (X, y, fields), begun = made, time.process_time()
    fitted = rafm.RaFMRegressor(random_state=seed, fields=fields, **given).fit(X[:n_rows], y[:n_rows])
    spent, test = time.process_time() - begun, y[n_rows:]
    return float(np.sqrt(np.mean((fitted.predict(X[n_rows:]) - test) ** 2)) / test.std()), spent, fitted


def compare(kind: str, n_rows: int, n_seeds: int) -> None:
    """Print a line of the table."""
    found, chosen = [], ""
    for seed in range(n_seeds):
        made = KINDS[kind](np.random.default_rng(seed), n_rows)
        stepped, sampled = (
            error(made, n_rows, seed, **given)[:2] for given in ({"optimizer": "adagrad"}, dict(SAMPLED))
        )
        found.append([*stepped, *sampled])
        if not seed:
            chosen = error(made, n_rows, seed)[2].model_.options["optimizer"]
    a, a_seconds, b, b_seconds = np.mean(found, axis=0)
    print(f"| {kind} | {n_rows} | {a:.4f} | {b:.4f} | {chosen} | {a_seconds:.1f} | {b_seconds:.1f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", default=[*KINDS])
    parser.add_argument("--rows", default="200,1000,5000,20000")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    print("| rows | number | steps | sampled | default | CPU s | CPU s, sampled |\n|---|--:|--:|--:|---|--:|--:|")
    for kind in given.kinds:
        for n_rows in map(int, given.rows.split(",")):
            compare(kind, n_rows, given.seeds)


if __name__ == "__main__":
    main()
