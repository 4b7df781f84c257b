"""Rows by score in bounded memory: what AUC and reliability tables are made of."""

from __future__ import annotations

import numpy as np

from .metric import Judged

N_BINS = 10  # of a reliability table


def area(positive: np.ndarray, negative: np.ndarray) -> float | None:
    """Return the AUC of weights summed up to each distinct score, rising."""
    if not positive.size or positive[-1] == 0 or negative[-1] == 0:
        return None
    below = np.concatenate([[0.0], negative[:-1]])
    wins = np.diff(positive, prepend=0) * (below + negative) / 2
    return float(wins.sum() / (positive[-1] * negative[-1]))


class Ranking:
    """Per distinct score the weight of each label and the sum of predictions.

    Once there are more than `limit` (at least 2) distinct scores, neighbours that differ in their last bits are merged.
    Columns are positive weight, negative weight, label and prediction, the last two times their weight.
    """

    def __init__(self, limit: int = 1 << 20):
        self.limit, self.merged_bits = limit, 0
        self.keys, self.columns = np.zeros(0, np.int64), np.zeros((0, 4))
        self.waiting: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, rows: Judged) -> None:
        """Take rows in."""
        columns = (rows.labels > 0, rows.labels <= 0, rows.labels, rows.predictions)
        weighted = np.stack(columns, axis=1, dtype=float) * rows.weights[:, None]
        self.waiting.append((sortable(rows.scores) >> self.merged_bits, weighted))
        if sum(keys.size for keys, _ in self.waiting) > self.limit:
            self._merge()

    def _merge(self) -> None:
        keys, columns = zip((self.keys, self.columns), *self.waiting)
        self._group(np.concatenate(keys), np.concatenate(columns))
        self.waiting = []
        while self.keys.size > self.limit:
            self.merged_bits += 1
            self._group(self.keys >> 1, self.columns)

    def _group(self, keys: np.ndarray, columns: np.ndarray) -> None:
        self.keys, places = np.unique(keys, return_inverse=True)
        sums = [np.bincount(places, column, self.keys.size) for column in columns.T]
        self.columns = np.stack(sums, axis=1)

    def auc(self) -> float | None:
        """Return the share of pairs in the right order; merged scores count as ties."""
        self._merge()
        positive, negative = np.cumsum(self.columns[:, :2], axis=0).T
        return area(positive, negative)

    def reliability(self) -> list[dict[str, float]]:
        """Return the mean prediction and the mean label of up to 10 bins of equal weight, by rising prediction."""
        self._merge()
        weights = self.columns[:, 0] + self.columns[:, 1]
        middles = np.cumsum(weights) - weights / 2
        bins = np.minimum((N_BINS * middles / weights.sum()).astype(int), N_BINS - 1)
        masses, labels, predictions = (
            np.bincount(bins, column, N_BINS) for column in (weights, self.columns[:, 2], self.columns[:, 3])
        )
        return [
            {"weight": float(mass), "mean_prediction": float(p / mass), "mean_label": float(y / mass)}
            for mass, y, p in zip(masses, labels, predictions)
            if mass > 0
        ]


def sortable(scores: np.ndarray) -> np.ndarray:
    """Return whole numbers in the order of float32 scores, equal for equal ones.

    >>> np.argsort(sortable(np.array([0.5, -2, -0.0, 3, -1], np.float32)))
    array([1, 4, 2, 0, 3])
    """
    bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32).astype(np.int64)  # -0 becomes 0
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
