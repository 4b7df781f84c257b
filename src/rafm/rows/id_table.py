"""Number distinct 64-bit ids, or keys that stand for other things, by a hash table. Texts have encode/strings.py."""

from __future__ import annotations

import numpy as np

from ..jit.compile import helper, kernel
from ..jit.vectors import prefetch

MIX, HALF_WORD = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
LOAD = 0.6  # the table grows when this share of it is in use
FEW = 1 << 10
AHEAD = 8  # searches that are prefetched


@helper()
def _first_place(key, mask):  # type: ignore[no-untyped-def]
    """Return where the search for a key begins."""
    return np.int64((np.uint64(key) * MIX) >> HALF_WORD) & mask


@kernel()
def _insert(keys, ids, table, size, found):  # type: ignore[no-untyped-def]
    """Find each key among ids[:size], or append it; return the new size."""
    mask = table.size - 1
    for e in range(keys.size):
        key, place = np.int64(keys[e]), _first_place(keys[e], mask)
        while table[place] >= 0 and ids[table[place]] != key:
            place = (place + 1) & mask
        if table[place] < 0:
            table[place], ids[size] = size, key
            size += 1
        found[e] = table[place]
    return size


@helper()
def _fetch(keys, e, ids, table, mask):  # type: ignore[no-untyped-def]
    """Prefetch what later searches begin with: places in the table, and the ids that nearer ones point to."""
    if e + 2 * AHEAD < keys.size:
        prefetch(table, _first_place(keys[e + 2 * AHEAD], mask))
    if e + AHEAD < keys.size:
        number = table[_first_place(keys[e + AHEAD], mask)]
        if number >= 0:
            prefetch(ids, np.int64(number))


@kernel()
def _find(keys, ids, table, found):  # type: ignore[no-untyped-def]
    """Find the number of each key, or -1."""
    mask = table.size - 1
    for e in range(keys.size):
        _fetch(keys, e, ids, table, mask)
        key, place = np.int64(keys[e]), _first_place(keys[e], mask)
        while table[place] >= 0 and ids[table[place]] != key:
            place = (place + 1) & mask
        found[e] = table[place]


class IdTable:
    """Numbers distinct ids in the order of their first occurrence.

    >>> table = IdTable()
    >>> table.add(np.array([7, 5, 7])), table.find(np.array([5, 9])), table.ids
    (array([0, 1, 0], dtype=int32), array([ 1, -1], dtype=int32), array([7, 5]))
    """

    def __init__(self, expected: int = FEW):
        self._room = np.empty(max(expected, FEW), np.int64)
        self._table, self.size = _empty_table(self._room.size), 0

    @classmethod
    def of(cls, ids: np.ndarray) -> IdTable:
        """Return the table of distinct ids, numbered in this order."""
        table = cls(ids.size)
        table.add(ids)
        return table

    @property
    def ids(self) -> np.ndarray:
        return self._room[: self.size]

    def add(self, keys: np.ndarray) -> np.ndarray:
        """Return the number of each id; new ids get the next ones."""
        if self.size + keys.size > self._room.size:
            self._grow(max(self.size + keys.size, 2 * self._room.size))
        found = np.empty(keys.size, np.int32)
        self.size = _insert(_keys(keys), self._room, self._table, self.size, found)
        return found

    def find(self, keys: np.ndarray) -> np.ndarray:
        """Return the number of each id, or -1."""
        found = np.empty(keys.size, np.int32)
        _find(_keys(keys), self._room, self._table, found)
        return found

    def _grow(self, size: int) -> None:
        before, room = self.ids, np.empty(size, np.int64)
        self._room, self._table, self.size = room, _empty_table(size), 0
        self.size = _insert(_keys(before), room, self._table, 0, np.empty(before.size, np.int32))


def _empty_table(size: int) -> np.ndarray:
    return np.full(1 << int(size / LOAD).bit_length(), -1, np.int32)


def _keys(keys: np.ndarray) -> np.ndarray:
    keys = np.ascontiguousarray(keys, np.int64).view()
    keys.flags.writeable = False  # one type of array, so that kernels are compiled once
    return keys
