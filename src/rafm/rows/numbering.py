"""Map feature ids to feature numbers and sort each row by number, as kernels require."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..jit.compile import helper, kernel
from ..jit.vectors import count_below
from ..kernels.tables import Rows
from .checked import CheckedRows, require_checked

SHORT_ROW, LONG_ROW = 8, 256  # rows of lengths between these are sorted by counting smaller entries
LANES, LAST = 16, np.int32((1 << 31) - 1)  # entries compared at a time; padding that sorts after every number
LARGEST_VALUE, SMALLEST_VALUE = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
NO_LABEL, ONE_WEIGHT = np.zeros(1, np.float32), np.ones(1, np.float32)  # of a single row; nobody writes to them
DENSE_IDS = 1 << 24  # id ranges up to this size use a lookup table, however few ids occur


@dataclass(frozen=True)
class Numbering:
    """Maps feature ids to feature numbers: ids[number] = id. All other ids are unknown."""

    ids: np.ndarray
    n_inputs: int

    @cached_property
    def _table(self) -> np.ndarray:
        table = np.full(self.n_inputs, -1, np.int32)
        table[self.ids] = np.arange(self.ids.size, dtype=np.int32)
        return table

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        order = np.argsort(self.ids, kind="stable").astype(np.int32)
        return self.ids[order], order

    @cached_property
    def _few(self) -> memoryview:
        return memoryview(self._table)  # type: ignore[arg-type]  # one element of it costs a tenth of an array's

    def lookup_few(self, ids: list[int]) -> list[int]:
        """Do the same as `lookup` for a list of a few ids."""
        if not self._is_dense:
            return self.lookup(np.array(ids, np.int64)).tolist()
        table, n = self._few, self.n_inputs
        return [table[id] if id < n else -1 for id in ids]

    @cached_property
    def _is_dense(self) -> bool:
        return self.n_inputs <= max(DENSE_IDS, 8 * self.ids.size)

    def lookup(self, indices: np.ndarray) -> np.ndarray:
        """Return the number of every id, or -1 if it is unknown; ids may exceed n_inputs.

        >>> Numbering(np.array([7, 2]), n_inputs=8).lookup(np.array([2, 7, 3, 99]))
        array([ 1,  0, -1, -1], dtype=int32)
        """
        if self._is_dense:
            inside = indices < self.n_inputs
            if inside.all():
                return self._table[indices]
            return np.where(inside, self._table[np.where(inside, indices, 0)], np.int32(-1))
        ids, order = self._sorted
        if not ids.size:
            return np.full(indices.size, -1, np.int32)
        at = np.minimum(np.searchsorted(ids, indices), ids.size - 1)  # ids above all known ones must stay in bounds
        return np.where(ids[at] == indices, order[at], np.int32(-1))


@helper()
def _sort_known(numbers, values, kept_numbers, kept_values):  # type: ignore[no-untyped-def]
    """Copy the known, nonzero entries of one row by insertion sort; return their number."""
    n = 0
    for e in range(numbers.size):
        i, x = numbers[e], values[e]
        if i < 0 or x == 0:
            continue
        at = n
        while at > 0 and kept_numbers[at - 1] > i:
            kept_numbers[at], kept_values[at] = kept_numbers[at - 1], kept_values[at - 1]
            at -= 1
        kept_numbers[at], kept_values[at] = i, x
        n += 1
    return n


@helper()
def _sort_coarsely(numbers, values, kept_numbers, kept_values):  # type: ignore[no-untyped-def]
    """Copy one row and run all passes of a Shell sort but the last, which `_sort_known` does."""
    gap, n = 1, numbers.size
    while gap < n // 3:
        gap = 3 * gap + 1
    for e in range(n):
        kept_numbers[e], kept_values[e] = numbers[e], values[e]
    while gap > 1:
        for e in range(gap, n):
            i, x, at = kept_numbers[e], kept_values[e], e
            while at >= gap and kept_numbers[at - gap] > i:
                kept_numbers[at], kept_values[at] = kept_numbers[at - gap], kept_values[at - gap]
                at -= gap
            kept_numbers[at], kept_values[at] = i, x
        gap //= 3


@helper()
def _sort_by_counts(numbers, values, a, b, kept_numbers, kept_values, place, room, room_values):  # type: ignore[no-untyped-def]
    """Copy the known, nonzero entries of numbers[a:b], sorted, to position `place`; return their number.

    An entry goes to the position given by how many entries are smaller. At these lengths comparing all pairs by SIMD
    is faster than moving entries, whose branches are unpredictable.
    """
    n, last, rising = 0, -1, True
    for e in range(a, b):
        i, x = numbers[e], values[e]
        if i >= 0 and x != 0:
            room[n], room_values[n] = i, x
            rising, last, n = rising and i >= last, i, n + 1
    stop, places = -(-n // LANES) * LANES, 0
    for e in range(n, stop):
        room[e] = LAST
    for e in range(n):
        before = e if rising else count_below(room, stop, room[e])
        kept_numbers[place + before], kept_values[place + before] = room[e], room_values[e]
        places += before
    if 2 * places < n * (n - 1):  # positions do not add up to 0 + ... + n - 1: equal ids overwrote each other
        _sort_known(room[:n], room_values[:n], kept_numbers[place:], kept_values[place:])
    return n


@kernel()
def _sort_rows(indptr, numbers, values, order, kept_indptr, kept_numbers, kept_values, room, room_values):  # type: ignore[no-untyped-def]
    """Copy rows in the given order, each with its known, nonzero entries sorted; return the number of entries."""
    place = 0
    for t in range(order.size):
        a, b = indptr[order[t]], indptr[order[t] + 1]
        if SHORT_ROW < b - a <= LONG_ROW:
            place += _sort_by_counts(numbers, values, a, b, kept_numbers, kept_values, place, room, room_values)
        else:
            row, x, kept, kept_x = numbers[a:b], values[a:b], kept_numbers[place:], kept_values[place:]
            if row.size > LONG_ROW:  # fits with its unknown entries: rows before it kept no more than they had
                _sort_coarsely(row, x, kept, kept_x)
                row, x = kept[: row.size], kept_x[: row.size]
            place += _sort_known(row, x, kept, kept_x)
        kept_indptr[t + 1] = place
    return place


def number_rows(rows: CheckedRows, numbering: Numbering, order: np.ndarray | None = None) -> Rows:
    """Return the rows, in the given order, with feature numbers ascending in each row; unknown ids are dropped."""
    require_checked(rows)
    order = np.arange(rows.n_rows) if order is None else order
    numbers = numbering.lookup(rows.indices)
    kept_indptr = np.zeros(rows.n_rows + 1, np.int64)
    kept_numbers, kept_values = np.empty(numbers.size, np.int32), np.empty(numbers.size, np.float32)
    room = (np.empty(LONG_ROW, np.int32), np.empty(LONG_ROW, np.float32))
    size = _sort_rows(rows.indptr, numbers, rows.values, order, kept_indptr, kept_numbers, kept_values, *room)
    labels = np.zeros(rows.n_rows, np.float32) if rows.labels is None else rows.labels[order]
    weights = np.ones(rows.n_rows, np.float32) if rows.weights is None else rows.weights[order]
    columns = (np.require(column, requirements="W") for column in (labels, weights))  # read-only ones would recompile
    return Rows(kept_indptr, kept_indptr[1:], kept_numbers[:size], kept_values[:size], *columns)


def number_row(ids: list[int], values: list[float], numbering: Numbering) -> Rows | None:
    """Return one row, as `number_rows` does, of ids that are known to be valid; None if a value is not a float32.

    >>> number_row([5, 2, 7], [1.0, 2.0, 0.0], Numbering(np.array([7, 5, 2]), n_inputs=8)).indices
    array([1, 2], dtype=int32)
    """
    if not all(-LARGEST_VALUE <= x <= LARGEST_VALUE for x in values):
        return None
    if any(-SMALLEST_VALUE < x < SMALLEST_VALUE for x in values):  # 0 as a float32, or close to it
        values = np.array(values, np.float32).tolist()
    kept = sorted((i, x) for i, x in zip(numbering.lookup_few(ids), values) if i >= 0 and x != 0)
    # few calls of NumPy: each takes about as long as scoring a row
    indices, indptr = np.array([i for i, _ in kept], np.int32), np.array([0, len(kept)])
    kept_values = np.array([x for _, x in kept], np.float32)
    return Rows(indptr, indptr[1:], indices, kept_values, NO_LABEL, ONE_WEIGHT)
