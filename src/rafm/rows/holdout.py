"""Split rows in two: a share held out for validation, and the rest to train on.

The side of a row follows from a hash of its features, values and a seed alone, so equal rows are on the same side, for
any batching, memory limit and number of threads. Hashes are sorted into bins, and whole bins are held out: the first
ones of those that contain rows of the rarer class, and the first ones of the others, up to the wanted share of each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .blocks import pick_rows
from .checked import CheckedRows
from .source import RowSource

BIN_BITS = 18
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # multipliers of SplitMix64


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Return numbers whose every bit depends on all bits of the given ones (SplitMix64's finaliser)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _FIRST
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _SECOND
    return numbers ^ (numbers >> np.uint64(31))


def row_hashes(rows: CheckedRows, seed: int) -> np.ndarray:
    """Return a 64-bit hash of the features and values of each row; neither their order nor zeros have an effect."""
    ids, bits = rows.indices.astype(np.uint64), rows.values.view(np.uint32).astype(np.uint64)
    entries = _mixed((ids + np.uint64(1)) * _ODD + bits * _FIRST)
    entries[rows.values == 0] = 0
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])[rows.indptr]
    return _mixed(np.diff(sums) + _mixed(np.full(1, seed, np.uint64) + _ODD))  # differences of sums that wrap are exact


def row_bins(rows: CheckedRows, seed: int) -> np.ndarray:
    """Return the bin of each row."""
    return (row_hashes(rows, seed) >> np.uint64(64 - BIN_BITS)).astype(np.int64)


class BinWeights:
    """Weight of the rows in each bin: of all rows, and of those with positive labels."""

    def __init__(self) -> None:
        self.total, self.positive = np.zeros(1 << BIN_BITS), np.zeros(1 << BIN_BITS)

    def add(self, rows: CheckedRows, seed: int) -> None:
        """Add a block of rows."""
        bins = row_bins(rows, seed)
        weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights.astype(float)
        self.total += np.bincount(bins, weights, 1 << BIN_BITS)
        if rows.labels is not None:
            self.positive += np.bincount(bins, weights * (rows.labels > 0), 1 << BIN_BITS)

    def held_out(self, share: float, two_classes: bool) -> np.ndarray:
        """Return which bins to hold out; none if there are not two bins to choose from.

        Each class is on both sides if it fills two bins at least.
        """
        used = self.total > 0
        rarer = self.positive if 2 * self.positive.sum() <= self.total.sum() else self.total - self.positive
        special = used & (rarer > 0) if two_classes else np.zeros_like(used)
        chosen = np.zeros_like(used)
        for stratum in (special, used & ~special):
            places = np.flatnonzero(stratum)
            if places.size > 1:
                chosen[places[: _first_share(self.total[places], share)]] = True
        return chosen


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
    """The rows of a source that are held out, or the others; blocks are numbered as in the source."""

    source: RowSource
    is_held_out: np.ndarray  # by bin
    seed: int
    held_out: bool
    _kept: dict[int, np.ndarray] = field(default_factory=dict, repr=False, compare=False)

    @property
    def in_memory(self) -> bool:
        return self.source.in_memory

    @property
    def n_features(self) -> int:
        return self.source.n_features

    @property
    def n_blocks(self) -> int:
        return self.source.n_blocks

    def block(self, number: int) -> CheckedRows:
        """Return the rows of a block that are on this side."""
        rows = self.source.block(number)
        if number not in self._kept:  # packed: one bit per row, also for rows on disk
            self._kept[number] = np.packbits(self.is_held_out[row_bins(rows, self.seed)] == self.held_out)
        own = np.unpackbits(self._kept[number], count=rows.n_rows).view(bool)
        return pick_rows(rows, np.flatnonzero(own))


def split_rows(source: RowSource, share: float, seed: int, two_classes: bool) -> tuple[Side, Side] | None:
    """Return the rows to train on and those held out; None if the rows are too few or too equal to be split."""
    weights = BinWeights()
    for number in range(source.n_blocks):
        weights.add(source.block(number), seed)
    chosen = weights.held_out(share, two_classes)
    if not chosen.any():
        return None
    return Side(source, chosen, seed, False), Side(source, chosen, seed, True)
