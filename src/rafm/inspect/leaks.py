"""How well one column alone predicts the label.

The rows are dealt into two halves by a hash of their number. Each value of the column is scored by the mean label of
its rows in one half, drawn towards the mean of all as if two more rows had that, and the scores are compared with the
labels of the other half: by AUC if there are two classes, else by the squared correlation. A value that is only in one
half has the mean of all, so ids that are each seen once get an AUC of 0.5, however well they would memorise. Numbers
and times are also scored by the 256 quantiles of the first rows, and missing values count as one more value.
"""

from __future__ import annotations

import numpy as np

from ..metrics.auc import auc
from .keys import mixed
from .labels import Labels
from .sketch import LABEL_A, LABEL_B, WEIGHT_A, WEIGHT_B

PRIOR_ROWS = 2.0
N_BINS = 256


def deal(first: int, n_rows: int) -> np.ndarray:
    """Return the half of each of these rows, 0 or 1."""
    return (mixed(np.arange(first, first + n_rows)) >> np.uint64(63)).astype(np.int64)


def power(groups: np.ndarray, labels: Labels) -> float | None:
    """Return the AUC or squared correlation of a column, given the sums of each of its values; None if it has none.

    >>> labels = Labels()
    >>> labels.add(np.array([0.0, 1.0] * 10), np.ones(20))
    >>> power(np.array([[5.0, 0.0, 5.0, 0.0], [5.0, 5.0, 5.0, 5.0]]), labels)
    1.0
    """
    spread = labels.high - labels.low
    if not groups.size or not labels.weight or not spread > 0:
        return None
    prior, weights = labels.mean, groups[:, WEIGHT_B]
    scores = (groups[:, LABEL_A] + PRIOR_ROWS * prior) / (groups[:, WEIGHT_A] + PRIOR_ROWS)
    if labels.is_binary:
        positive = (groups[:, LABEL_B] - labels.low * weights) / spread
        classes = np.repeat([1, 0], weights.size)
        return auc(classes, np.tile(scores, 2), np.maximum(np.concatenate([positive, weights - positive]), 0))
    return _squared_correlation(scores, weights, groups[:, LABEL_B], (labels.held_out or labels).spread)


def presence_power(groups: np.ndarray, totals: np.ndarray, labels: Labels) -> np.ndarray:
    """Return the AUC or squared correlation of every feature that is there or not, given the sums of its rows."""
    weights, sums = groups[:, WEIGHT_A] + groups[:, WEIGHT_B], groups[:, LABEL_A] + groups[:, LABEL_B]
    weight, total = totals[WEIGHT_A] + totals[WEIGHT_B], totals[LABEL_A] + totals[LABEL_B]
    with np.errstate(divide="ignore", invalid="ignore"):
        if labels.is_binary:
            spread = labels.high - labels.low
            positive, all_positive = (sums - labels.low * weights) / spread, (total - labels.low * weight) / spread
            rates = positive / all_positive - (weights - positive) / (weight - all_positive)
            return np.nan_to_num(0.5 + np.abs(rates) / 2, nan=0.5)
        share = weights / weight
        covariance = sums / weight - share * total / weight
        return np.nan_to_num(covariance**2 / (share * (1 - share) * labels.spread**2))


def _squared_correlation(scores: np.ndarray, weights: np.ndarray, sums: np.ndarray, spread: float) -> float | None:
    weight = weights.sum()
    if not weight or not spread:
        return None
    center, mean = (weights @ scores) / weight, sums.sum() / weight
    variance = (weights @ (scores - center) ** 2) / weight
    covariance = ((scores - center) @ (sums - mean * weights)) / weight
    return float(min(covariance**2 / (variance * spread**2), 1.0)) if variance > 0 else 0.0


class Bins:
    """Sums by quantile bin, for numbers; the edges are those of the first rows."""

    def __init__(self) -> None:
        self._edges: np.ndarray | None = None
        self._sums = np.zeros((N_BINS + 1, 4))

    def add(self, numbers: np.ndarray, halves: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> None:
        """Take numbers in, none of them NaN, with the labels of their rows."""
        if not numbers.size:
            return
        if self._edges is None:
            self._edges = np.unique(np.quantile(numbers, np.arange(N_BINS) / N_BINS, method="higher"))
        places = 2 * np.searchsorted(self._edges, numbers, side="right") + halves
        for column, terms in enumerate((weights, weights * labels)):
            sums = np.bincount(places, terms, 2 * len(self._sums)).reshape(-1, 2)
            self._sums[:, [column, column + 2]] += sums

    def groups(self) -> np.ndarray:
        """Return the sums of the bins."""
        return self._sums
