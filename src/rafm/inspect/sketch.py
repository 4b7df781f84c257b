"""Count 64-bit keys and the labels of their rows in bounded memory.

Up to MAX_KEYS distinct keys are counted exactly. If there are more, only keys that end in `depth` zero bits are kept,
with depth as small as possible. A kept key has been counted from its first occurrence, so its own counts are exact, and
2^depth times any total over the kept keys estimates that over all keys: with MAX_KEYS = 65,536 to within about half a
percent. The most frequent key may be among those dropped. So from then on, a histogram of 65,536 buckets is kept too,
whose largest bucket holds the most frequent key and about a 65,536th of the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rows.id_table import IdTable

MAX_KEYS = 1 << 16
CHUNK_KEYS = 1 << 16  # added at a time, which bounds memory
N_BUCKETS, BUCKET_SHIFT = 1 << 16, np.uint64(48)  # the highest 16 bits choose the bucket
WEIGHT_A, LABEL_A, WEIGHT_B, LABEL_B = range(4)  # columns: sums of weights and weighted labels of each half


class RowTargets(NamedTuple):
    """Half (0 or 1), weight and label of each row."""

    halves: np.ndarray
    weights: np.ndarray
    labels: np.ndarray

    def take(self, rows: np.ndarray) -> RowTargets:
        """Return those of the chosen rows; repeats are allowed."""
        return RowTargets(*(column[rows] for column in self))

    def sums(self) -> np.ndarray:
        """Return the sums of weights and weighted labels of both halves, in the order of the columns of a sketch."""
        sums = np.bincount(self.halves, self.weights, 2), np.bincount(self.halves, self.weights * self.labels, 2)
        return np.array([sums[0][0], sums[1][0], sums[0][1], sums[1][1]])

    def sums_by(self, numbers: np.ndarray, size: int) -> np.ndarray:
        """Return them for the rows of each number below `size`."""
        places = 4 * numbers.astype(np.int64) + 2 * self.halves
        sums = np.bincount(places, self.weights, 4 * size)
        return (sums + np.bincount(places + 1, self.weights * self.labels, 4 * size)).reshape(size, 4)


class Frequencies(NamedTuple):
    """Number of features by count: `features[i]` features were seen `counts[i]` times each."""

    counts: np.ndarray
    features: np.ndarray


def _total(before: np.ndarray, added: np.ndarray) -> np.ndarray:
    """Return the sums of what was counted before and what was added, which may be longer."""
    added[: len(before)] += before
    return added


NO_TARGETS = RowTargets(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


class Sketch:
    """Counts keys; see the top of this file.

    >>> sketch = Sketch(max_keys=4)
    >>> sketch.add(np.array([7, 8, 7], np.uint64))
    >>> sketch.is_exact, sketch.n_keys, sketch.top, sketch.frequencies()
    (True, 2, (7, 2), Frequencies(counts=array([1, 2]), features=array([1, 1])))
    """

    def __init__(self, max_keys: int = MAX_KEYS, labelled: bool = False):
        self._max_keys, self._labelled, self.depth = max_keys, labelled, 0
        self._table, self._buckets = IdTable(), np.zeros(0, np.int64)
        self._counts, self._sums = np.zeros(0, np.int64), np.zeros((0, 4))

    def add(self, keys: np.ndarray, targets: RowTargets = NO_TARGETS) -> None:
        """Count keys with the targets of their rows."""
        for first in range(0, keys.size, CHUNK_KEYS):
            part = slice(first, first + CHUNK_KEYS)
            self._add(keys[part], RowTargets(*(column[part] for column in targets)))

    def _add(self, keys: np.ndarray, targets: RowTargets) -> None:
        if self.depth:
            self._buckets += np.bincount((keys >> BUCKET_SHIFT).astype(np.int64), minlength=N_BUCKETS)
            kept = np.flatnonzero(self._is_kept(keys))
            keys, targets = keys[kept], targets.take(kept) if self._labelled else targets
        numbers = self._table.add(keys.view(np.int64))
        self._counts = _total(self._counts, np.bincount(numbers, minlength=self._table.size))
        if self._labelled:
            self._sums = _total(self._sums, targets.sums_by(numbers, self._table.size))
        while self._table.size > self._max_keys:
            self._drop()

    def _is_kept(self, keys: np.ndarray) -> np.ndarray:
        return keys & np.uint64((1 << self.depth) - 1) == 0

    def _drop(self) -> None:
        """Drop half of the keys. From the first time on, buckets track the most frequent one."""
        keys = self.keys()
        if not self.depth:
            self._buckets = np.zeros(N_BUCKETS, np.int64)
            np.add.at(self._buckets, keys >> BUCKET_SHIFT, self._counts)
        self.depth += 1
        kept = np.flatnonzero(self._is_kept(keys))
        self._table, self._counts = IdTable.of(keys[kept].view(np.int64)), self._counts[kept]
        if self._labelled:
            self._sums = self._sums[kept]

    @property
    def is_exact(self) -> bool:
        """Whether no key was dropped."""
        return self.depth == 0

    @property
    def scale(self) -> float:
        """Number of keys that each kept key represents."""
        return float(1 << self.depth)

    @property
    def n_keys(self) -> int:
        """Number of distinct keys, or an estimate."""
        return self._table.size << self.depth

    @property
    def top(self) -> tuple[int, int]:
        """The most frequent key, or only its bucket if keys were dropped; and its count."""
        table = self._counts if self.is_exact else self._buckets
        if not table.size:
            return 0, 0
        place = int(table.argmax())
        return int(self.keys()[place]) if self.is_exact else place, int(table[place])

    def is_top(self, keys: np.ndarray) -> np.ndarray:
        """Tell which keys are the most frequent one, or fall into its bucket."""
        return (keys if self.is_exact else keys >> BUCKET_SHIFT) == np.uint64(self.top[0])

    def frequencies(self) -> Frequencies:
        """Return the number of keys by count, or estimates."""
        counts, features = np.unique(self._counts, return_counts=True)
        return Frequencies(counts, features << self.depth)

    def label_sums(self) -> np.ndarray:
        """Return the sums of weights and labels of each kept key."""
        return self._sums

    def keys(self) -> np.ndarray:
        """Return the kept keys, in the order of `label_sums`."""
        return self._table.ids.view(np.uint64)
