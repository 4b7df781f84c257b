"""Statistics of rows in one pass, block by block: number of rows, labels, and feature counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..jit.compile import kernel
from .checked import CheckedRows, read_only, require_checked
from .numbering import DENSE_IDS


@dataclass(frozen=True)
class RowStats:
    """Totals over rows.

    ids (ascending), counts and squares hold, for each feature that occurs, its id, its number of occurrences and the
    sum of its squared values. Rows of weight 0 and explicit zeros count only towards `rows` and `longest`.
    """

    rows: int
    nonzeros: int
    longest: int
    ids: np.ndarray
    counts: np.ndarray
    squares: np.ndarray
    weight: float
    label_mean: float
    label_spread: float
    label_range: tuple[float, float]
    n_weighted: int = 0  # rows of a positive weight
    has_unit_weights: bool = True  # whether all weights are 1

    @property
    def weight_scale(self) -> float:
        """Mean weight of the rows that have one; exactly 1 if all weights are 1."""
        return self.weight / self.n_weighted if self.n_weighted else 1.0

    @property
    def n_features(self) -> int:
        return int(self.ids.max(initial=-1)) + 1

    def squares_of(self, ids: np.ndarray) -> np.ndarray:
        """Return the sum of the squared values of some features, by id."""
        return self.squares[np.searchsorted(self.ids, ids)]


@kernel()
def _count_into(indptr, indices, values, weights, counts, squares):  # type: ignore[no-untyped-def]
    """Add a block's occurrences and squared values to the totals; return the length of its longest row."""
    longest = 0
    for r in range(indptr.size - 1):
        longest = max(longest, indptr[r + 1] - indptr[r])
        if weights[r] > 0:
            for e in range(indptr[r], indptr[r + 1]):
                x = np.float64(values[e])
                counts[indices[e]] += x != 0
                squares[indices[e]] += x * x
    return longest


class _FeatureTotals:
    """Counts and squares by id: tables indexed by id while ids are small, else lists sorted by id."""

    def __init__(self) -> None:
        self.ids = np.zeros(0, np.int64)  # used by the sorted lists only
        self.counts = np.zeros(0, np.int64)
        self.squares = np.zeros(0)
        self.dense = True

    def add(self, batch: CheckedRows, weights: np.ndarray) -> int:
        """Add a block; return the length of its longest row."""
        largest = int(batch.indices.max(initial=-1))
        if self.dense and largest >= max(DENSE_IDS, 8 * batch.indices.size):
            self.ids = np.flatnonzero(self.counts)
            self.counts, self.squares, self.dense = self.counts[self.ids], self.squares[self.ids], False
        if not self.dense:
            return self._add_sparse(batch, weights)
        if largest >= self.counts.size:
            grown = max(largest + 1, 2 * self.counts.size)  # doubling keeps the cost of growing linear
            self.counts = np.concatenate([self.counts, np.zeros(grown - self.counts.size, np.int64)])
            self.squares = np.concatenate([self.squares, np.zeros(grown - self.squares.size)])
        return _count_into(batch.indptr, batch.indices, batch.values, weights, self.counts, self.squares)

    def _add_sparse(self, batch: CheckedRows, weights: np.ndarray) -> int:
        own, numbers = np.unique(batch.indices, return_inverse=True)
        ids = np.union1d(self.ids, own)
        counts, squares = np.zeros(ids.size, np.int64), np.zeros(ids.size)
        at = np.searchsorted(ids, self.ids)
        counts[at], squares[at] = self.counts, self.squares
        self.ids, self.counts, self.squares = ids, counts, squares
        places = read_only(np.searchsorted(ids, own)[numbers])  # read-only, or the kernel would compile once more
        return _count_into(batch.indptr, places, batch.values, weights, counts, squares)

    def found(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ids, counts and squares of the features that occur."""
        seen = np.flatnonzero(self.counts)
        return (seen if self.dense else self.ids[seen]), self.counts[seen], self.squares[seen]


def count_rows(batches: Iterable[CheckedRows]) -> RowStats:
    """Compute the statistics of rows, block by block; memory grows only with the number of features.

    >>> from rafm.rows.checked import Batch, check_batch
    >>> batch = Batch(np.array([0, 2, 3]), np.array([5, 1, 5]), np.array([1, 0, 2.0]), 9, labels=np.array([0, 1.0]))
    >>> found = count_rows([check_batch(batch)])
    >>> found.ids, found.counts, found.squares, found.label_mean
    (array([5]), array([2]), array([5.]), 0.5)
    """
    features, rows, nonzeros, longest, n_weighted, is_unit = _FeatureTotals(), 0, 0, 0, 0, True
    weight, mean, deviation, low, high = 0.0, 0.0, 0.0, np.inf, -np.inf
    for batch in batches:
        require_checked(batch)
        weights = np.ones(batch.n_rows) if batch.weights is None else batch.weights.astype(float)
        longest = max(longest, features.add(batch, weights))
        rows, nonzeros = rows + batch.n_rows, nonzeros + int(np.count_nonzero(batch.values))
        n_weighted += int(np.count_nonzero(weights))
        is_unit &= batch.weights is None or bool((weights == 1).all())
        labels = np.zeros(batch.n_rows) if batch.labels is None else batch.labels.astype(float)
        if (own := float(weights.sum())) > 0:  # merge means and deviations: sums of squares lose digits to large labels
            center = float(np.average(labels, weights=weights))
            shift, weight = center - mean, weight + own
            deviation += float(weights @ (labels - center) ** 2) + shift**2 * own * (weight - own) / weight
            mean += shift * own / weight
            low, high = min(low, float(labels.min())), max(high, float(labels.max()))
    spread = float(np.sqrt(deviation / weight)) if weight else 0.0
    span = (low, high) if weight else (0.0, 0.0)
    return RowStats(rows, nonzeros, longest, *features.found(), weight, mean, spread, span, n_weighted, is_unit)
