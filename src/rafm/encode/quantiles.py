"""Quantiles of a stream of numbers in bounded memory, independent of the order of the numbers.

Up to MAX_KEYS distinct numbers are counted exactly. If there are more, all are truncated to as many leading bits as
leave at most MAX_KEYS distinct ones. Truncating twice is the same as truncating once, so the result depends only on the
numbers. The relative error of a quantile is below 2^-bits: 2^-13 for numbers spread evenly from 0, and far less for
those in a narrow range.
"""

from __future__ import annotations

import numpy as np

MAX_KEYS = 1 << 16
BUFFERED = 1 << 18  # numbers that are counted together
ALL_BITS = 52  # of a float64 after the leading one


class ValueCounts:
    """Counts distinct numbers.

    >>> counts = ValueCounts()
    >>> counts.add(np.array([3.0, 1.0, 2.0, 1.0, np.nan]))
    >>> counts.quantiles(np.array([0.0, 0.5, 1.0]))
    array([1., 2., 3.])
    """

    def __init__(self, max_keys: int = MAX_KEYS) -> None:
        self.max_keys, self.bits = max_keys, ALL_BITS
        self._keys, self._counts = np.zeros(0), np.zeros(0, np.int64)
        self._buffered: list[np.ndarray] = []

    def add(self, numbers: np.ndarray) -> None:
        """Count finite numbers; NaN is skipped."""
        self._buffered.append(numbers[~np.isnan(numbers)])
        if sum(part.size for part in self._buffered) >= BUFFERED:
            self._merge()

    def _merge(self) -> None:
        new = np.concatenate([np.zeros(0), *self._buffered]) + 0.0  # -0 becomes 0
        self._buffered = []
        self._count(np.concatenate([self._keys, new]), np.concatenate([self._counts, np.ones(new.size, np.int64)]))
        while self._keys.size > self.max_keys:
            self.bits -= 1  # for good: later numbers are truncated the same way
            self._count(self._keys, self._counts)

    def _count(self, numbers: np.ndarray, counts: np.ndarray) -> None:
        self._keys, places = np.unique(_cut(numbers, self.bits), return_inverse=True)
        self._counts = np.zeros(self._keys.size, np.int64)
        np.add.at(self._counts, places, counts)

    def quantiles(self, shares: np.ndarray) -> np.ndarray:
        """Return the quantiles at these shares; between two numbers, take the higher, so that it occurred."""
        self._merge()
        if not self._keys.size:
            return np.zeros(0)
        ends = np.cumsum(self._counts)
        ranks = np.ceil(shares * (ends[-1] - 1))
        return self._keys[np.searchsorted(ends, ranks, side="right")]


def _cut(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Return the numbers truncated to this many bits after the leading one."""
    mask = np.int64(-1) << np.int64(ALL_BITS - bits)
    return (np.ascontiguousarray(numbers).view(np.int64) & mask).view(np.float64)


def bin_edges(counts: ValueCounts, n_bins: int) -> np.ndarray:
    """Return the increasing inner edges of at most n_bins non-empty bins with about equal counts."""
    shares = np.arange(n_bins) / n_bins
    edges = np.unique(counts.quantiles(shares))
    return edges[1:]  # the first is the smallest number; a bin below it would be empty
