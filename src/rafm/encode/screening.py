"""Choose conjunctions by what they would add to the predictions of rows held out: see decision 0043.

A linear model of the values of all columns is fitted to the rows outside of each fold. A pair of columns is judged by
one shrunken Newton step of a term per combination of values: fitted to these rows, it must lower the loss of the fold,
and by more than products of vectors do, which a factorization machine has anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from statistics import NormalDist

import numpy as np

from ..rows.hashes import mixed

SAMPLE_ROWS, SAMPLE_WORK = 200_000, 10_000_000  # most rows, and most rows times pairs
LEAST_ROWS = 1000  # fewer show nothing
FOLDS = 4
SWEEPS = 4  # of the linear model over its columns
SHRINKAGE = (1.0, 3.0, 10.0, 30.0)  # added to the curvature of a term; the best one is taken
ERRORS = 2.0  # a gain must exceed this many of its standard errors if there is one pair, more if there are many
MOST_CROSSES = 10
RANK, PRODUCT_SWEEPS, PRODUCT_SHRINKAGE = 4, 6, 6.0  # of the product of vectors that a pair must beat
Pair = tuple[int, int]


def sampled_rows(n_rows: int, n_columns: int) -> np.ndarray:
    """Return the rows that are looked at, evenly spaced.

    >>> sampled_rows(3, 2), sampled_rows(10**9, 2).size, sampled_rows(10**9, 41).size
    (array([0, 1, 2]), 200000, 12195)
    """
    n_pairs = max(n_columns * (n_columns - 1) // 2, 1)
    return np.linspace(0, n_rows - 1, min(n_rows, SAMPLE_ROWS, SAMPLE_WORK // n_pairs)).astype(np.int64)


def by_block(rows: np.ndarray, sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the rows of each block, counted from its first row.

    >>> by_block(np.array([0, 2, 5]), [3, 4])
    [array([0, 2]), array([2])]
    """
    ends = np.cumsum(sizes)
    return [own - end + size for own, end, size in zip(np.split(rows, np.searchsorted(rows, ends[:-1])), ends, sizes)]


def least_errors(n_pairs: int) -> float:
    """Return how many standard errors a gain must exceed, so that luck is as rare among many pairs as with one.

    >>> [round(least_errors(n), 2) for n in (1, 3, 36, 741)]
    [2.0, 2.43, 3.22, 4.01]
    """
    normal = NormalDist()
    return -normal.inv_cdf(normal.cdf(-ERRORS) / n_pairs)


def choose_pairs(codes: Sequence[np.ndarray], labels: np.ndarray, weights: np.ndarray | None = None) -> list[Pair]:
    """Return the pairs of columns that predict better than their values alone, the most useful first.

    codes: of the values of each column. labels: two classes, or numbers.
    """
    if labels.dtype.kind not in "iuf":
        labels = np.unique(labels, return_inverse=True)[1]
    labels = labels.astype(float)
    if labels.size < LEAST_ROWS or np.unique(labels).size < 2 or not np.isfinite(labels).all():
        return []
    screen, chosen = Screen(codes, labels, weights), list[Pair]()
    candidates = list(combinations(range(len(codes)), 2))
    errors = least_errors(max(len(candidates), 1))
    while len(chosen) < MOST_CROSSES:
        gains = {pair: screen.gain(pair) for pair in candidates}
        candidates = [pair for pair, (mean, error) in gains.items() if mean > errors * error]
        if not candidates:
            break
        best = max(candidates, key=lambda pair: gains[pair])
        candidates.remove(best)
        if screen.product_gain(best) < gains[best][0]:
            chosen.append(best)
            screen.add(best)
    return chosen


class Screen:
    """Rows, and a linear model of them for each fold that has not seen the rows of that fold."""

    def __init__(self, codes: Sequence[np.ndarray], labels: np.ndarray, weights: np.ndarray | None):
        kinds = np.unique(labels)
        self.is_binary = kinds.size == 2
        self.labels = (labels == kinds[-1]) * 1.0 if self.is_binary else (labels - labels.mean()) / labels.std()
        self.weights = np.ones(labels.size) if weights is None else weights / max(weights.mean(), 1e-30)
        self.codes = [np.unique(own, return_inverse=True)[1] for own in codes]
        rows = np.arange(labels.size)
        self.fold = (mixed(rows.astype(np.uint64)) % np.uint64(FOLDS)).astype(np.int64)
        self.outside = [np.flatnonzero(self.fold != fold) for fold in range(FOLDS)]
        self._own = (self.fold, rows)
        self._fit()

    def keys_of(self, pair: Pair) -> np.ndarray:
        """Return the number of the combination of each row."""
        a, b = (self.codes[place] for place in pair)
        return np.unique(a * (int(b.max()) + 1) + b, return_inverse=True)[1]

    def add(self, pair: Pair) -> None:
        """Add a pair to the linear model."""
        self.codes.append(self.keys_of(pair))
        self._fit()

    def gain(self, pair: Pair) -> tuple[float, float]:
        """Return the mean of what terms of a pair lower the loss of held-out rows by, and its standard error."""
        keys = self.keys_of(pair)
        slopes, curvatures = self._sums(keys, self._slopes), self._sums(keys, self._curvatures)
        found = []
        for shrinkage in SHRINKAGE:
            terms = slopes / (curvatures + shrinkage)
            gains = self._held_losses - self._losses(self._held + terms[self.fold, keys])
            found.append((float(gains.mean()), float(gains.std() / np.sqrt(gains.size))))
        return max(found)

    def product_gain(self, pair: Pair) -> float:
        """Return the mean of what products of vectors lower the loss of the first fold by.

        Factors of the values of both columns are fitted one after the other to the other folds, in turns.
        """
        a, b = (self.codes[place] for place in pair)
        rows, held = self.outside[0], self.fold == 0
        scores = self._first_scores.copy()
        for factor in range(RANK):
            left, right = 0.3 * np.cos(factor + 1 + 2.6 * np.arange(a.max() + 1)), np.zeros(int(b.max()) + 1)
            for _ in range(PRODUCT_SWEEPS):
                self._step(scores, rows, (right, b), left[a])
                self._step(scores, rows, (left, a), right[b])
        return float((self._held_losses - self._losses(scores))[held].mean())

    def _step(self, scores: np.ndarray, rows: np.ndarray, of: tuple[np.ndarray, np.ndarray], by: np.ndarray) -> None:
        """Make a shrunken Newton step of the factors of one column, whose values are multiplied by others."""
        factors, own = of
        slopes, curvatures = self._derivatives(scores, rows)
        up = np.bincount(own[rows], slopes * by[rows], factors.size) - PRODUCT_SHRINKAGE * factors
        steps = up / (np.bincount(own[rows], curvatures * by[rows] ** 2, factors.size) + PRODUCT_SHRINKAGE)
        factors += steps
        scores += steps[own] * by

    def _fit(self) -> None:
        """Fit the models with the shrinkage that predicts rows held out best."""
        models = [self._scores(shrinkage) for shrinkage in SHRINKAGE]
        scores = min(models, key=lambda found: float(self._losses(found[self._own]).mean()))
        self._held, self._first_scores = scores[self._own], scores[0]
        self._held_losses = self._losses(self._held)
        derived = [self._derivatives(own, rows) for own, rows in zip(scores, self.outside)]
        self._slopes, self._curvatures = ([pair[k] for pair in derived] for k in range(2))

    def _scores(self, shrinkage: float) -> np.ndarray:
        """Return the scores of all rows by the model of each fold."""
        found = np.empty((FOLDS, self.labels.size))
        for scores, rows in zip(found, self.outside):
            scores[:] = self._constant(rows)
            for own in self.codes * SWEEPS:
                slopes, curvatures = self._derivatives(scores, rows)
                size = int(own.max()) + 1
                steps = np.bincount(own[rows], slopes, size) / (np.bincount(own[rows], curvatures, size) + shrinkage)
                scores += steps[own]
        return found

    def _constant(self, rows: np.ndarray) -> float:
        mean = (self.labels[rows] * self.weights[rows]).sum() / max(self.weights[rows].sum(), 1e-30)
        return float(np.log((mean + 1e-9) / (1 - mean + 1e-9))) if self.is_binary else float(mean)

    def _derivatives(self, scores: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the negative slope of the loss of each of the rows, and its curvature."""
        labels, weights, scores = self.labels[rows], self.weights[rows], scores[rows]
        if not self.is_binary:
            return weights * (labels - scores), weights
        chances = 1 / (1 + np.exp(-scores))
        return weights * (labels - chances), weights * chances * (1 - chances)

    def _losses(self, scores: np.ndarray) -> np.ndarray:
        if not self.is_binary:
            return self.weights * (self.labels - scores) ** 2 / 2
        return self.weights * (np.logaddexp(0, scores) - self.labels * scores)

    def _sums(self, keys: np.ndarray, of_folds: list[np.ndarray]) -> np.ndarray:
        """Return the sum per fold and combination over the rows outside of the fold."""
        size = int(keys.max()) + 1
        return np.stack([np.bincount(keys[rows], own, size) for rows, own in zip(self.outside, of_folds)])
