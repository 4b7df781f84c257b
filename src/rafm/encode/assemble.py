"""Compiled assembly of encoded columns into CSR rows.

codes     per entry: the number of a feature within its column, or UNKNOWN, NULL or ABSENT
values    per entry: its value; empty if all are 1
offsets   where the entries of each row begin; empty if every row has exactly one
at        per row: where its next entry goes
counts    numbers of entries: all; with their own feature; with the shared rare feature; null (see ColumnCounts)
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.compile import kernel
from ..rows.arrow import new_array
from .interning import NULL, UNKNOWN

ABSENT = -3  # an entry that is not a value at all, such as an empty element of a list
ONES = np.zeros(0, np.float32)
ONE_EACH = np.zeros(0, np.int64)


class _Ones:
    """Read-only array of ones, shared by all callers; grows to the longest size requested."""

    def __init__(self) -> None:
        self._array = np.ones(0, np.float32)

    def __call__(self, size: int) -> np.ndarray:
        array = self._array  # a local name: another thread may replace it meanwhile
        if array.size < size:
            array = np.ones(size, np.float32)
            array.flags.writeable = False
            self._array = array
        return array[:size]


shared_ones = _Ones()


class Slot(NamedTuple):
    """One feature per row or a list of them; see the top of this file."""

    codes: np.ndarray
    values: np.ndarray = ONES
    offsets: np.ndarray = ONE_EACH


@kernel()
def take_codes(table, codes, out):
    """Set out[i] = table[codes[i]]; negative codes count from the end, where special codes are stored."""
    for i in range(codes.size):
        out[i] = table[codes[i]]


@kernel()
def fill_special_codes(codes, rare, null, counts):
    """Replace UNKNOWN and NULL by the codes of their features, or -1 if there are none; ABSENT becomes -1."""
    known = absent = 0
    for i in range(codes.size):
        if codes[i] >= 0:
            known += 1
        elif codes[i] == UNKNOWN:
            codes[i] = rare
            counts[2] += rare >= 0
        elif codes[i] == NULL:
            codes[i] = null
            counts[3] += 1
        else:
            codes[i] = -1
            absent += 1
    counts[0] += codes.size - absent
    counts[1] += known


@kernel()
def count_entries(codes, offsets, sizes):
    """Add the number of entries with a feature to sizes[row + 1]."""
    if offsets.size == 0:
        for row in range(codes.size):
            sizes[row + 1] += codes[row] >= 0
        return
    for row in range(offsets.size - 1):
        for i in range(offsets[row], offsets[row + 1]):
            sizes[row + 1] += codes[i] >= 0


@kernel()
def place_ones(codes, first, at, indices):
    """Append one entry to every row with a feature; its value is already 1."""
    for row in range(codes.size):
        if codes[row] >= 0:
            indices[at[row]] = first + codes[row]
            at[row] += 1


@kernel()
def place_numbers(codes, numbers, first, at, rows):
    """Append one entry with its value to every row with a feature."""
    _, indices, values = rows
    for row in range(codes.size):
        if codes[row] >= 0:
            indices[at[row]], values[at[row]] = first + codes[row], numbers[row]
            at[row] += 1


@kernel()
def place_lists(slot, first, at, rows):
    """Append the entries with a feature to their rows."""
    _, indices, values = rows
    for row in range(at.size):
        for i in range(slot.offsets[row], slot.offsets[row + 1]):
            if slot.codes[i] >= 0:
                indices[at[row]], values[at[row]] = first + slot.codes[i], slot.values[i]
                at[row] += 1


def finalize(slot: Slot, rare: int, null: int, counts: np.ndarray) -> Slot:
    """Return the slot with final codes; sum the values of a feature that occurs twice in a list."""
    fill_special_codes(slot.codes, rare, null, counts)
    if not slot.offsets.size:
        return slot
    from scipy import sparse  # here, because the import takes longer than many a command

    values = slot.values if slot.values.size else np.ones(slot.codes.size, np.float32)
    width = int(slot.codes.max(initial=0)) + 2  # column 0 collects entries without a feature (code -1)
    matrix = sparse.csr_array((values, slot.codes + 1, slot.offsets), shape=(slot.offsets.size - 1, width), copy=True)
    matrix.sum_duplicates()
    return Slot(matrix.indices.astype(np.int32) - 1, matrix.data, matrix.indptr.astype(np.int64))


def assemble(slots: list[tuple[int, Slot]], n_rows: int, n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return indptr, indices and values of rows that join the slots in order; each comes with its first feature id.

    If all values are 1, the array is shared and read-only.
    """
    indptr = np.zeros(n_rows + 1, np.int64)
    for _, slot in slots:
        count_entries(slot.codes, slot.offsets, indptr)
    np.cumsum(indptr, out=indptr)
    indices = new_array((int(indptr[-1]),), np.int32 if n_features < 2**31 else np.int64)
    all_ones = not any(slot.values.size or slot.offsets.size for _, slot in slots)
    values = shared_ones(indptr[-1]) if all_ones else new_array(indices.shape, np.float32)
    if not all_ones:
        values.fill(1)
    rows = (indptr, indices, values)
    at = indptr[:-1].copy()  # advances as the slots append their entries
    for first, slot in slots:
        if slot.offsets.size:
            place_lists(slot, first, at, rows)
        elif slot.values.size:
            place_numbers(slot.codes, slot.values, first, at, rows)
        else:
            place_ones(slot.codes, first, at, indices)
    return rows


def take_rows(indptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the indptr of the chosen rows (repeats allowed) and the positions of their entries.

    >>> take_rows(np.array([0, 2, 3]), np.array([1, 0, 0]))
    (array([0, 1, 3, 5]), array([2, 0, 1, 0, 1]))
    """
    sizes = np.diff(indptr)[rows]
    taken = np.concatenate([[0], np.cumsum(sizes)])
    return taken, np.repeat(indptr[rows] - taken[:-1], sizes) + np.arange(taken[-1])
