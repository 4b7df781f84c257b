"""Count 64-bit keys and the labels of their rows in bounded memory.

Up to MAX_KEYS distinct keys are counted exactly. If there are more, only keys that end in `depth` zero bits are kept,
with depth as small as possible. A kept key has been counted from its first occurrence, so its own counts are exact, and
2^depth times any total over the kept keys estimates that over all keys: with MAX_KEYS = 65,536 to within about half a
percent. The most frequent key may be among those dropped. So from then on, a histogram of 65,536 buckets is kept too,
whose largest bucket holds the most frequent key and about a 65,536th of the others.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.cache import kernel
from ..jit.helper import helper

MAX_KEYS = 1 << 16
FIRST_SLOTS = 1 << 8
BUCKET_SHIFT = np.uint64(48)  # the highest 16 bits choose the bucket
SLOT_SHIFT = np.uint64(20)  # skips the lowest bits, which are all zero in kept keys
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


@helper()
def mix(key):
    """Return a hash of a 64-bit key (the finaliser of SplitMix64), with 0 replaced by 1."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    key ^= key >> np.uint64(31)
    return key if key != 0 else np.uint64(1)


@helper()
def find_slot(slots, key):
    """Return the slot of a key, or the empty one where it belongs."""
    mask = np.uint64(slots.size - 1)
    slot = (key >> SLOT_SHIFT) & mask
    while slots[slot] != 0 and slots[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel()
def count_keys(keys, targets, first, slots, counts, sums, room, dropped, buckets):
    """Count keys from `first` on; return the first one without room, or the number of keys, and the room left.

    dropped: mask of the bits that must be zero. targets and sums are empty if there are no labels.
    """
    for i in range(first, keys.size):
        if keys[i] & dropped == 0:
            slot = find_slot(slots, keys[i])
            if slots[slot] == 0:
                if room == 0:
                    return i, 0
                room -= 1
                slots[slot] = keys[i]
            counts[slot] += 1
            if sums.shape[0] > 0:
                half, weight = 2 * targets.halves[i], targets.weights[i]
                sums[slot, half] += weight
                sums[slot, half + 1] += weight * targets.labels[i]
        if buckets.size > 0:
            buckets[keys[i] >> BUCKET_SHIFT] += 1
    return keys.size, room


@kernel()
def move_keys(old, slots, places):
    """Insert distinct keys into empty slots, and set the place of each."""
    for i in range(old.size):
        slot = find_slot(slots, old[i])
        slots[slot] = old[i]
        places[i] = slot


class Frequencies(NamedTuple):
    """Number of features by count: `features[i]` features were seen `counts[i]` times each."""

    counts: np.ndarray
    features: np.ndarray


NO_TARGETS = RowTargets(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


class Sketch:
    """Counts keys; see the top of this file.

    >>> sketch = Sketch(max_keys=4)
    >>> sketch.add(np.array([7, 8, 7], np.uint64))
    >>> sketch.is_exact, sketch.n_keys, sketch.top, sketch.frequencies()
    (True, 2, (7, 2), Frequencies(counts=array([1, 2]), features=array([1, 1])))
    """

    def __init__(self, max_keys: int = MAX_KEYS, labelled: bool = False):
        self._max_keys, self._labelled = max_keys, labelled
        self.depth, self._room, self._buckets = 0, 0, np.zeros(0, np.int64)
        self._keep(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros((0, 4)))

    def add(self, keys: np.ndarray, targets: RowTargets = NO_TARGETS) -> None:
        """Count keys, none of which may be 0, with the targets of their rows."""
        done = 0
        while done < keys.size:
            dropped = np.uint64((1 << self.depth) - 1)
            done, self._room = count_keys(
                keys, targets, done, self._slots, self._counts, self._sums, self._room, dropped, self._buckets
            )
            if done < keys.size:
                self._make_room()

    def _make_room(self) -> None:
        """Grow the table, or drop half of the keys if it is at its limit."""
        kept = np.flatnonzero(self._slots)
        if kept.size >= self._max_keys:
            if not self.depth:  # the first drop: from here on, buckets track the most frequent key
                self._buckets = np.zeros(1 << 16, np.int64)
                np.add.at(self._buckets, self._slots[kept] >> BUCKET_SHIFT, self._counts[kept])
            self.depth += 1
            kept = kept[self._slots[kept] & np.uint64((1 << self.depth) - 1) == 0]
        self._keep(self._slots[kept], self._counts[kept], self._sums[kept] if self._labelled else self._sums)

    def _keep(self, keys: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> None:
        """Build a table with these keys and room for as many more."""
        size = FIRST_SLOTS
        while size < 4 * keys.size:
            size *= 2
        self._slots, self._counts = np.zeros(size, np.uint64), np.zeros(size, np.int64)
        self._sums = np.zeros((size if self._labelled else 0, 4))
        places = np.empty(keys.size, np.int64)
        move_keys(keys, self._slots, places)
        self._counts[places] = counts
        if self._labelled:
            self._sums[places] = sums
        self._room = min(size // 2, self._max_keys) - keys.size

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
        return int(np.count_nonzero(self._slots)) << self.depth

    @property
    def top(self) -> tuple[int, int]:
        """The most frequent key, or only its bucket if keys were dropped; and its count."""
        table = self._counts if self.is_exact else self._buckets
        place = int(table.argmax())
        return int(self._slots[place]) if self.is_exact else place, int(table[place])

    def is_top(self, keys: np.ndarray) -> np.ndarray:
        """Tell which keys are the most frequent one, or fall into its bucket."""
        return (keys if self.is_exact else keys >> BUCKET_SHIFT) == np.uint64(self.top[0])

    def frequencies(self) -> Frequencies:
        """Return the number of keys by count, or estimates."""
        counts, features = np.unique(self._counts[self._slots != 0], return_counts=True)
        return Frequencies(counts, features << self.depth)

    def label_sums(self) -> np.ndarray:
        """Return the sums of weights and labels of each kept key."""
        return self._sums[self._slots != 0]

    def keys(self) -> np.ndarray:
        """Return the kept keys, in the order of `label_sums`."""
        return self._slots[self._slots != 0]
