"""Rank rows by score in bounded memory, for AUC and reliability tables."""

from __future__ import annotations

import numpy as np

from .metric import ScoredRows

N_BINS = 10  # bins of a reliability table


def area(positive: np.ndarray, negative: np.ndarray) -> float | None:
    """Return the AUC from cumulative weights of both classes, by ascending distinct score."""
    if not positive.size or positive[-1] == 0 or negative[-1] == 0:
        return None
    below = np.concatenate([[0.0], negative[:-1]])
    # A positive row wins against the negative weight below it, and half of that at its own score.
    wins = np.diff(positive, prepend=0) * (below + negative) / 2
    return float(wins.sum() / (positive[-1] * negative[-1]))


class Ranking:
    """Weights, labels and predictions summed per distinct score.

    Above `limit` (at least 2) distinct scores, neighbours that differ only in their last bits are merged. The columns
    are positive weight, negative weight, weighted label and weighted prediction.
    """

    def __init__(self, limit: int = 1 << 20):
        self.limit, self.merged_bits = limit, 0
        self.keys, self.columns = np.zeros(0, np.int64), np.zeros((0, 4))
        self.waiting: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, rows: ScoredRows) -> None:
        """Add rows."""
        columns = (rows.labels > 0, rows.labels <= 0, rows.labels, rows.predictions)
        weighted = np.stack(columns, axis=1, dtype=float) * rows.weights[:, None]
        self.waiting.append((sortable(rows.scores) >> self.merged_bits, weighted))
        if sum(keys.size for keys, _ in self.waiting) > self.limit:  # merging sorts, so it waits for enough rows
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
        """Return the AUC; merged scores count as ties."""
        self._merge()
        positive, negative = np.cumsum(self.columns[:, :2], axis=0).T
        return area(positive, negative)

    def reliability(self) -> list[dict[str, float]]:
        """Return mean prediction and mean label of up to 10 bins of equal weight, by ascending prediction."""
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
    """Map float32 scores to integers of the same order.

    >>> np.argsort(sortable(np.array([0.5, -2, -0.0, 3, -1], np.float32)))
    array([1, 4, 2, 0, 3])
    """
    # Float bits are ordered like integers for positive numbers, and in reverse for negative ones.
    bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32).astype(np.int64)  # -0 becomes 0
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
