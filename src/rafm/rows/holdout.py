"""Split rows into folds: one share to hold out and the rest, or several folds of equal size.

The fold of a row follows from a hash of its features, its values and a seed, so equal rows are in the same fold, for
any batching, memory limit and number of threads. Hashes are sorted into bins, and whole bins are dealt out: first those
that have rows of the rarer class, then the others. Only a row that is repeated so often that it would distort the
shares is dealt out copy by copy, by a hash of the row number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from .blocks import keep_rows
from .checked import CheckedRows
from .fields import Fields
from .hashes import hash_position, row_hashes
from .source import RowSource

BIN_BITS = 18
N_BINS = 1 << BIN_BITS
FREQUENT, FREQUENT_SHARE = 10, 0.01  # bins with more rows than both, in number and share, are dealt out row by row


def _bins(hashes: np.ndarray) -> np.ndarray:
    return (hashes >> np.uint64(64 - BIN_BITS)).astype(np.int64)


@dataclass(frozen=True)
class Split:
    """Assigns a fold to every row: by a table over bins or, in frequent bins, by row number and shares."""

    seed: int
    shares: np.ndarray
    folds: np.ndarray
    frequent: np.ndarray

    def folds_of(self, rows: CheckedRows, first_row: int) -> np.ndarray:
        """Return the fold of every row of a block; first_row is the number of its first row."""
        bins = _bins(row_hashes(rows, self.seed))
        numbers = np.arange(first_row, first_row + rows.n_rows, dtype=np.uint64)
        drawn = hash_position(numbers, self.seed) / 2.0**64
        by_number = np.searchsorted(np.cumsum(self.shares)[:-1], drawn, side="right")
        return np.where(self.frequent[bins], by_number, self.folds[bins])


class RowCounts:
    """Rows, weights and labels of a source by bin, added block by block."""

    def __init__(self, seed: int):
        self.seed, self.first_rows, self.rows = seed, list[int](), 0  # number of the first row of each block
        self.by_bin = np.zeros(N_BINS, np.int64)
        self.weight, self.positive = np.zeros(N_BINS), np.zeros(N_BINS)
        self.label_range = (np.inf, -np.inf)

    def watch(self, blocks: Iterable[CheckedRows]) -> Iterator[CheckedRows]:
        """Pass blocks through, adding each."""
        for block in blocks:
            self.add(block)
            yield block

    def add(self, block: CheckedRows) -> None:
        """Add a block of rows with labels."""
        labels = np.zeros(block.n_rows) if block.labels is None else block.labels
        weights = np.ones(block.n_rows) if block.weights is None else block.weights
        bins = _bins(row_hashes(block, self.seed))
        self.by_bin += np.bincount(bins, minlength=N_BINS)
        self.weight += np.bincount(bins, weights, N_BINS)
        self.positive += np.bincount(bins, weights * (labels > 0), N_BINS)
        self.first_rows.append(self.rows)
        self.rows += block.n_rows
        counted = labels[weights > 0]
        low, high = self.label_range
        self.label_range = min(low, counted.min(initial=np.inf)), max(high, counted.max(initial=-np.inf))

    def strata(self, two_classes: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return the bins that have rows of the rarer class, and the other ones; none of them are frequent."""
        used = (self.weight > 0) & ~self._frequent()
        rarer = self.positive if 2 * self.positive.sum() <= self.weight.sum() else self.weight - self.positive
        special = used & (rarer > 0) & two_classes
        return np.flatnonzero(special), np.flatnonzero(used & ~special)

    def n_units(self, two_classes: bool) -> int:
        """Return how many units can be dealt out: bins, and the rows of frequent bins."""
        return sum(map(len, self.strata(two_classes))) + int(self.by_bin[self._frequent()].sum())

    def _frequent(self) -> np.ndarray:
        return self.by_bin > max(FREQUENT, FREQUENT_SHARE * self.rows)

    def hold_out(self, share: float, two_classes: bool) -> Split:
        """Return a split into a share, which is fold 0, and the rest; a class that fills two bins is in both."""
        folds = np.ones(N_BINS, np.int8)
        for places in self.strata(two_classes):
            if places.size > 1:
                folds[places[: _first_share(self.weight[places], share)]] = 0
        return Split(self.seed, np.array([share, 1 - share]), folds, self._frequent())

    def deal(self, n_folds: int, two_classes: bool) -> Split:
        """Return a split into folds of equal size and mixture of classes."""
        folds = np.zeros(N_BINS, np.int8)
        places = np.concatenate(self.strata(two_classes))
        folds[places] = np.arange(places.size) % n_folds
        return Split(self.seed, np.full(n_folds, 1 / n_folds), folds, self._frequent())


def _first_share(weights: np.ndarray, share: float) -> int:
    """Return how many of the first weights come nearest to a share of their sum: at least one, but not all.

    >>> _first_share(np.ones(20), 0.1), _first_share(np.array([5.0, 1, 1, 1]), 0.1), _first_share(np.ones(2), 0.9)
    (2, 1, 1)
    """
    sums = np.cumsum(weights)
    nearest = int(np.argmin(np.abs(sums - share * sums[-1])))
    return min(nearest + 1, weights.size - 1)


@dataclass(frozen=True)
class Side:
    """The rows of a source that are in a fold, or all others; blocks are numbered as in the source.

    first_rows: number of the first row of each block.
    """

    source: RowSource
    split: Split
    first_rows: list[int]
    fold: int
    is_inside: bool
    _own: dict[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    @property
    def in_memory(self) -> bool:
        return self.source.in_memory

    @property
    def n_features(self) -> int:
        return self.source.n_features

    @property
    def n_blocks(self) -> int:
        return self.source.n_blocks

    @property
    def fields(self) -> Fields | None:
        return self.source.fields

    def block(self, number: int) -> CheckedRows:
        """Return the rows of a block that are on this side."""
        rows = self.source.block(number)
        if number not in self._own:  # kept as one bit per row
            inside = self.split.folds_of(rows, self.first_rows[number]) == self.fold
            self._own[number] = np.packbits(inside == self.is_inside)
        own = np.unpackbits(self._own[number], count=rows.n_rows).view(bool)
        return keep_rows(rows, own)
