"""Measure how well one column alone predicts the label, to find leaks.

Rows are assigned to two halves by a hash of their number. Each value of the column is scored by the mean label of its
rows in one half, shrunk towards the overall mean as by two more rows. The scores are compared with the labels of the
other half: by AUC for two classes, else by the squared correlation. A value that occurs only in the other half is
scored by the overall mean, so ids that occur once get an AUC of 0.5, however well they could be memorised. Numbers and
times are also scored by 256 quantile bins of the first rows. Missing counts as one more value.
"""

from __future__ import annotations

import numpy as np

from ..metrics.auc import auc
from .keys import hash_numbers
from .labels import Labels
from .sketch import LABEL_A, LABEL_B, WEIGHT_A, WEIGHT_B

PRIOR_ROWS = 2.0  # weight of the overall mean in the score of a value
N_BINS = 256


def assign_halves(first: int, n_rows: int) -> np.ndarray:
    """Return the half of each row, 0 or 1."""
    return (hash_numbers(np.arange(first, first + n_rows)) >> np.uint64(63)).astype(np.int64)


def column_power(sums: np.ndarray, labels: Labels) -> float | None:
    """Return the AUC or squared correlation of a column, given the label sums of its values; None if there are none.

    >>> labels = Labels()
    >>> labels.add(np.array([0.0, 1.0] * 10), np.ones(20))
    >>> column_power(np.array([[5.0, 0.0, 5.0, 0.0], [5.0, 5.0, 5.0, 5.0]]), labels)
    1.0
    """
    spread = labels.high - labels.low
    if not sums.size or not labels.weight or not spread > 0:
        return None
    prior, weights = labels.mean, sums[:, WEIGHT_B]
    scores = (sums[:, LABEL_A] + PRIOR_ROWS * prior) / (sums[:, WEIGHT_A] + PRIOR_ROWS)
    if labels.is_binary:
        # All rows with the same value have the same score, so two weighted entries per value stand for them.
        positive = (sums[:, LABEL_B] - labels.low * weights) / spread
        classes = np.repeat([1, 0], weights.size)
        return auc(classes, np.tile(scores, 2), np.maximum(np.concatenate([positive, weights - positive]), 0))
    return _squared_correlation(scores, weights, sums[:, LABEL_B], (labels.held_out or labels).spread)


def presence_power(label_sums: np.ndarray, totals: np.ndarray, labels: Labels) -> np.ndarray:
    """Return the AUC or squared correlation of the presence of each feature, given the label sums of its rows."""
    # Both halves together: presence is a single bit, which cannot memorise labels.
    weights = label_sums[:, WEIGHT_A] + label_sums[:, WEIGHT_B]
    sums = label_sums[:, LABEL_A] + label_sums[:, LABEL_B]
    weight, total = totals[WEIGHT_A] + totals[WEIGHT_B], totals[LABEL_A] + totals[LABEL_B]
    with np.errstate(divide="ignore", invalid="ignore"):
        if labels.is_binary:
            spread = labels.high - labels.low
            positive, all_positive = (sums - labels.low * weights) / spread, (total - labels.low * weight) / spread
            rates = positive / all_positive - (weights - positive) / (weight - all_positive)
            # the AUC of a yes-or-no score; a feature that predicts the opposite is just as suspicious
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


class BinSums:
    """Label sums of numbers by quantile bin; the edges are those of the first block."""

    def __init__(self) -> None:
        self._edges: np.ndarray | None = None
        self._sums = np.zeros((N_BINS + 1, 4))

    def add(self, numbers: np.ndarray, halves: np.ndarray, weights: np.ndarray, labels: np.ndarray) -> None:
        """Add numbers, none of them NaN, with the targets of their rows."""
        if not numbers.size:
            return
        if self._edges is None:
            self._edges = np.unique(np.quantile(numbers, np.arange(N_BINS) / N_BINS, method="higher"))
        places = 2 * np.searchsorted(self._edges, numbers, side="right") + halves  # bin and half as one index
        for column, terms in enumerate((weights, weights * labels)):
            sums = np.bincount(places, terms, 2 * len(self._sums)).reshape(-1, 2)
            self._sums[:, [column, column + 2]] += sums

    def label_sums(self) -> np.ndarray:
        """Return the label sums of the bins."""
        return self._sums
