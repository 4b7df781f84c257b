"""Counts of 64-bit keys in bounded memory, with the labels that came with them.

Up to MAX_KEYS different keys are counted exactly. When there are more, only keys that end in `depth` zero bits stay,
with depth as small as will do. A key that stays has been there from its first occurrence, so its own counts are exact,
and 2^depth times what is true of the keys that stayed is an estimate for all: with MAX_KEYS = 65,536 to within about
half a percent. The most frequent key may be among those that went, so from then on a histogram of 65,536 buckets is
kept besides, whose fullest bucket is the most frequent key and a 65,536th of the others.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.cache import kernel

MAX_KEYS = 1 << 16
FIRST_SLOTS = 1 << 8
BUCKET_SHIFT = np.uint64(48)
SLOT_SHIFT = np.uint64(20)  # the lowest bits decide which keys stay
WEIGHT_A, LABEL_A, WEIGHT_B, LABEL_B = range(4)  # weights and weighted labels of the rows of either half


class Sides(NamedTuple):
    """Per row: its half, 0 or 1, its weight and its label."""

    halves: np.ndarray
    weights: np.ndarray
    labels: np.ndarray

    def take(self, rows: np.ndarray) -> Sides:
        """Return those of chosen rows, repeats allowed."""
        return Sides(*(column[rows] for column in self))

    def sums(self) -> np.ndarray:
        """Return weights and weighted labels of both halves, as the columns of a sketch have them."""
        sums = np.bincount(self.halves, self.weights, 2), np.bincount(self.halves, self.weights * self.labels, 2)
        return np.array([sums[0][0], sums[1][0], sums[0][1], sums[1][1]])


@kernel()
def mix(key):
    """Return a key whose bits all depend on all bits of the given one (the finaliser of SplitMix64); 0 becomes 1."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    key ^= key >> np.uint64(31)
    return key if key != 0 else np.uint64(1)


@kernel()
def find_slot(slots, key):
    """Return the slot of a key, or the empty one where it belongs."""
    mask = np.uint64(slots.size - 1)
    slot = (key >> SLOT_SHIFT) & mask
    while slots[slot] != 0 and slots[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel()
def count_keys(keys, sides, first, slots, counts, sums, room, dropped, buckets):
    """Count keys from `first` on; return where a new one has no room, or the number of keys, and the room left.

    dropped: the bits that must be zero. sides and sums may be empty: then there are no labels.
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
                half, weight = 2 * sides.halves[i], sides.weights[i]
                sums[slot, half] += weight
                sums[slot, half + 1] += weight * sides.labels[i]
        if buckets.size > 0:
            buckets[keys[i] >> BUCKET_SHIFT] += 1
    return keys.size, room


@kernel()
def move_keys(old, slots, places):
    """Enter the keys that are not 0 into empty slots; say where each went."""
    for i in range(old.size):
        slot = find_slot(slots, old[i])
        slots[slot] = old[i]
        places[i] = slot


class Frequencies(NamedTuple):
    """How many features there are of every count: `features[i]` were seen `counts[i]` times."""

    counts: np.ndarray
    features: np.ndarray


NOBODY = Sides(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))


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

    def add(self, keys: np.ndarray, sides: Sides = NOBODY) -> None:
        """Count keys, none of which is 0, with the labels that came with them."""
        done = 0
        while done < keys.size:
            dropped = np.uint64((1 << self.depth) - 1)
            done, self._room = count_keys(
                keys, sides, done, self._slots, self._counts, self._sums, self._room, dropped, self._buckets
            )
            if done < keys.size:
                self._make_room()

    def _make_room(self) -> None:
        """Let the table grow, or keep fewer keys if it must not."""
        kept = np.flatnonzero(self._slots)
        if kept.size >= self._max_keys:
            if not self.depth:
                self._buckets = np.zeros(1 << 16, np.int64)
                np.add.at(self._buckets, self._slots[kept] >> BUCKET_SHIFT, self._counts[kept])
            self.depth += 1
            kept = kept[self._slots[kept] & np.uint64((1 << self.depth) - 1) == 0]
        self._keep(self._slots[kept], self._counts[kept], self._sums[kept] if self._labelled else self._sums)

    def _keep(self, keys: np.ndarray, counts: np.ndarray, sums: np.ndarray) -> None:
        """Enter known keys into a table with room for as many more."""
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
        """Whether all keys are still there."""
        return self.depth == 0

    @property
    def scale(self) -> float:
        """How many keys each key that is there stands for."""
        return float(1 << self.depth)

    @property
    def n_keys(self) -> int:
        """How many different keys there were, or an estimate."""
        return int(np.count_nonzero(self._slots)) << self.depth

    @property
    def top(self) -> tuple[int, int]:
        """The most frequent key, or only the bucket it is in, and how often it was."""
        table = self._counts if self.is_exact else self._buckets
        place = int(table.argmax())
        return int(self._slots[place]) if self.is_exact else place, int(table[place])

    def is_top(self, keys: np.ndarray) -> np.ndarray:
        """Tell which keys are the most frequent one, or in its bucket."""
        return (keys if self.is_exact else keys >> BUCKET_SHIFT) == np.uint64(self.top[0])

    def frequencies(self) -> Frequencies:
        """Return how many keys were seen how often, or estimates."""
        counts, features = np.unique(self._counts[self._slots != 0], return_counts=True)
        return Frequencies(counts, features << self.depth)

    def groups(self) -> np.ndarray:
        """Return the weights and labels of every key that is there."""
        return self._sums[self._slots != 0]

    def keys(self) -> np.ndarray:
        """Return the keys that are there, in the order of `groups`."""
        return self._slots[self._slots != 0]
