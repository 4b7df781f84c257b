"""CSR rows, checked once at the border; then numbered as the kernels want them.

Kernels do not check bounds, so nothing reaches them but what passed `check_batch` and `number_rows`. A stored zero
counts as absent: it is no occurrence of its feature and never reaches a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from ..errors import DataValueError, FeatureRangeError
from ..jit.cache import kernel
from ..jit.vectors import count_below
from ..kernels.tables import Rows

BLOCK_ROWS, BLOCK_ENTRIES = 1 << 21, 1 << 23  # what training has at hand at a time
SHORT_ROW, LONG_ROW = 8, 256  # between these, entries are sorted by comparing all with all
LANES, LAST = 16, np.int32((1 << 31) - 1)  # so many at a time; after all numbers
DENSE_IDS = 1 << 24  # id ranges up to this size get a table, however few ids occur


@dataclass(frozen=True)
class Batch:
    """Rows as they came: ids in any order within a row, each below n_features."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    n_features: int
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        return self.indptr.size - 1

    @property
    def nbytes(self) -> int:
        columns = (self.indptr, self.indices, self.values, self.labels, self.weights)
        return sum(column.nbytes for column in columns if column is not None)


class Source(Protocol):
    """Rows in blocks that can be asked for in any order, any number of times."""

    @property
    def in_memory(self) -> bool:
        """Whether the rows are in memory anyway, so that more may be kept of them."""

    @property
    def n_features(self) -> int:
        """Ids are below this."""

    @property
    def n_blocks(self) -> int:
        """Blocks are numbered from 0."""

    def block(self, number: int) -> Batch:
        """Return the rows of a block, not necessarily checked."""


@dataclass(frozen=True)
class InMemory:
    """One batch as a source of one block."""

    batch: Batch
    n_blocks: int = 1
    in_memory: bool = True

    @property
    def n_features(self) -> int:
        return self.batch.n_features

    def block(self, number: int) -> Batch:
        return self.batch


def take_rows(batch: Batch, first: int, stop: int) -> Batch:
    """Return consecutive rows as views."""
    a, b = int(batch.indptr[first]), int(batch.indptr[stop])
    labels = None if batch.labels is None else batch.labels[first:stop]
    weights = None if batch.weights is None else batch.weights[first:stop]
    indptr = batch.indptr[first : stop + 1] - a
    return Batch(indptr, batch.indices[a:b], batch.values[a:b], batch.n_features, labels, weights)


def cut_blocks(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the rows in blocks, each as many rows as fit, at least one: the same blocks however the rows come."""
    for parts in cut_parts(batches):
        rows = join_rows(parts)
        parts.clear()  # so that rows are not in memory twice
        yield rows
        del rows  # before the next ones are made


def cut_parts(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Yield the rows of each block in parts, as they came."""
    parts: list[Batch] = []
    n_rows = n_entries = 0
    for batch in batches:
        first = 0
        while first < batch.n_rows:
            end = batch.indptr[first] + BLOCK_ENTRIES - n_entries
            stop = min(first + BLOCK_ROWS - n_rows, int(np.searchsorted(batch.indptr, end, side="right")) - 1)
            stop = max(stop, first if parts else first + 1)
            if stop > first:
                parts.append(take_rows(batch, first, stop))
                n_rows, n_entries = n_rows + stop - first, n_entries + parts[-1].indices.size
            if stop < batch.n_rows:
                yield parts
                parts, n_rows, n_entries = [], 0, 0
            first = stop
    if parts:
        yield parts


def join_rows(parts: Sequence[Batch], entries: tuple[np.ndarray, np.ndarray] | None = None) -> Batch:
    """Return the rows of all parts, of which there is at least one, as one batch.

    entries: what is to be its ids and values, instead of those of the parts.
    """
    if len(parts) == 1:
        return replace(parts[0], indices=entries[0], values=entries[1]) if entries else parts[0]
    offsets = np.cumsum([0, *(part.indices.size for part in parts)])
    indptr = np.concatenate([[0], *(part.indptr[1:] + offset for part, offset in zip(parts, offsets))])
    indices, values = entries or (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "values")
    )
    labels, weights = (
        None if getattr(parts[0], name) is None else np.concatenate([getattr(part, name) for part in parts])
        for name in ("labels", "weights")
    )
    return Batch(indptr, indices, values, max(part.n_features for part in parts), labels, weights)


def check_batch(batch: Batch) -> Batch:
    """Return the batch with arrays of the right types, or say what is wrong with it.

    >>> check_batch(Batch(np.array([0, 1]), np.array([7]), np.array([1.0]), n_features=5))
    Traceback (most recent call last):
    rafm.errors.FeatureRangeError: row 0 has feature id 7, but ids must lie between 0 and 4
    """
    indptr, indices = np.asarray(batch.indptr, np.int64), np.asarray(batch.indices)
    values = _float32(batch.values)
    if indptr.ndim != 1 or indptr.size == 0 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
        raise DataValueError("malformed rows: indptr must start at 0 and never fall")
    if indptr[-1] != indices.size or indices.size != values.size:
        raise DataValueError(
            f"malformed rows: indptr ends at {indptr[-1]}, but there are {indices.size} ids and {values.size} values"
        )
    if indices.size and not np.issubdtype(indices.dtype, np.integer):
        raise DataValueError(f"malformed rows: feature ids must be whole numbers, found type {indices.dtype}")
    indices = indices.astype(np.int64 if indices.size == 0 else indices.dtype, copy=False)
    bad = np.flatnonzero((indices < 0) | (indices >= batch.n_features))
    if bad.size:
        row = int(np.searchsorted(indptr, bad[0], side="right")) - 1
        raise FeatureRangeError(
            f"row {row} has feature id {indices[bad[0]]}, but ids must lie between 0 and {batch.n_features - 1}"
        )
    if not np.isfinite(values).all():
        row = int(np.searchsorted(indptr, np.flatnonzero(~np.isfinite(values))[0], side="right")) - 1
        raise DataValueError(f"row {row} has a value that is NaN, infinite or beyond float32; all must be finite")
    labels = _check_column(batch.labels, "label", indptr.size - 1)
    weights = _check_column(batch.weights, "sample weight", indptr.size - 1)
    if weights is not None and weights.size and weights.min() < 0:
        raise DataValueError(
            f"sample weight of row {weights.argmin()} is {weights.min()}; weights must not be negative"
        )
    return Batch(indptr, indices, values, batch.n_features, labels, weights)


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a view that cannot be written, as those of mapped files are, so that kernels are compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view


def _float32(numbers: np.ndarray) -> np.ndarray:
    """Return the numbers as float32; those beyond its range become infinite, to be reported by row."""
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(numbers, np.float32)


def _check_column(column: np.ndarray | None, name: str, n_rows: int) -> np.ndarray | None:
    if column is None:
        return None
    found = _float32(column)
    if found.shape != (n_rows,):
        raise DataValueError(f"expected one {name} for each of {n_rows} rows, found shape {found.shape}")
    if not np.isfinite(found).all():
        raise DataValueError(f"{name} of row {np.flatnonzero(~np.isfinite(found))[0]} is not finite")
    return found


@dataclass(frozen=True)
class Numbering:
    """Maps feature ids to feature numbers: ids[number] = id. Ids that are not listed are unknown."""

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

    def lookup(self, indices: np.ndarray) -> np.ndarray:
        """Return the number of every id, -1 for unknown ones, whatever their size.

        >>> Numbering(np.array([7, 2]), n_inputs=8).lookup(np.array([2, 7, 3, 99]))
        array([ 1,  0, -1, -1], dtype=int32)
        """
        if self.n_inputs <= max(DENSE_IDS, 8 * self.ids.size):
            inside = indices < self.n_inputs
            if inside.all():
                return self._table[indices]
            return np.where(inside, self._table[np.where(inside, indices, 0)], np.int32(-1))
        ids, order = self._sorted
        if not ids.size:
            return np.full(indices.size, -1, np.int32)
        at = np.minimum(np.searchsorted(ids, indices), ids.size - 1)
        return np.where(ids[at] == indices, order[at], np.int32(-1))


@kernel()
def _sort_known(numbers, values, kept_numbers, kept_values):  # type: ignore[no-untyped-def]
    """Copy the known, nonzero entries of one row, sorted by number; return how many there are."""
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


@kernel()
def _sort_coarsely(numbers, values, kept_numbers, kept_values):  # type: ignore[no-untyped-def]
    """Copy one row by all rounds of a Shell sort but the last: entries far apart are sorted, then nearer ones."""
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


@kernel()
def _sort_by_counts(numbers, values, a, b, kept_numbers, kept_values, place, room, room_values):  # type: ignore[no-untyped-def]
    """Copy the known, nonzero entries of numbers[a:b], sorted, to where `place` is; return how many there are.

    An entry's place is the count of entries before it: comparing all with all is quicker than to move some by branches.
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
    if 2 * places < n * (n - 1):  # some are equal
        _sort_known(room[:n], room_values[:n], kept_numbers[place:], kept_values[place:])
    return n


@kernel()
def _sort_rows(indptr, numbers, values, order, kept_indptr, kept_numbers, kept_values, room, room_values):  # type: ignore[no-untyped-def]
    """Copy rows in the given order, their known, nonzero entries sorted."""
    place = 0
    for t in range(order.size):
        a, b = indptr[order[t]], indptr[order[t] + 1]
        if SHORT_ROW < b - a <= LONG_ROW:
            place += _sort_by_counts(numbers, values, a, b, kept_numbers, kept_values, place, room, room_values)
        else:
            row, x, kept, kept_x = numbers[a:b], values[a:b], kept_numbers[place:], kept_values[place:]
            if row.size > LONG_ROW:  # there is room for whole rows: no more was kept of those before
                _sort_coarsely(row, x, kept, kept_x)
                row, x = kept[: row.size], kept_x[: row.size]
            place += _sort_known(row, x, kept, kept_x)
        kept_indptr[t + 1] = place
    return place


def number_rows(batch: Batch, numbering: Numbering, order: np.ndarray | None = None) -> Rows:
    """Return the rows, in the given order, with features by number, rising in each row; unknown ones are left out."""
    order = np.arange(batch.n_rows) if order is None else order
    numbers = numbering.lookup(batch.indices)
    kept_indptr = np.zeros(batch.n_rows + 1, np.int64)
    kept_numbers, kept_values = np.empty(numbers.size, np.int32), np.empty(numbers.size, np.float32)
    given = (read_only(batch.indptr), numbers, read_only(batch.values))
    room = (np.empty(LONG_ROW, np.int32), np.empty(LONG_ROW, np.float32))
    size = _sort_rows(*given, order, kept_indptr, kept_numbers, kept_values, *room)
    labels = np.zeros(batch.n_rows, np.float32) if batch.labels is None else batch.labels[order]
    weights = np.ones(batch.n_rows, np.float32) if batch.weights is None else batch.weights[order]
    columns = (np.require(column, requirements="W") for column in (labels, weights))  # read-only ones would recompile
    return Rows(kept_indptr, kept_indptr[1:], kept_numbers[:size], kept_values[:size], *columns)
