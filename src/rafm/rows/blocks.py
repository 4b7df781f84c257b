"""Slice, select and join rows. Any part of checked rows is checked too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from .checked import Batch, CheckedRows, check_batch

BLOCK_ROWS, BLOCK_ENTRIES = 1 << 21, 1 << 23  # size limits of a block, the unit that training loads at a time
AnyRows = TypeVar("AnyRows", bound=Batch)


def take_rows(rows: AnyRows, first: int, stop: int) -> AnyRows:
    """Return rows[first:stop] as views."""
    a, b = int(rows.indptr[first]), int(rows.indptr[stop])
    labels = None if rows.labels is None else rows.labels[first:stop]
    weights = None if rows.weights is None else rows.weights[first:stop]
    indptr = rows.indptr[first : stop + 1] - a
    return rows._derived(indptr, rows.indices[a:b], rows.values[a:b], rows.n_features, labels, weights)


def pick_rows(rows: AnyRows, chosen: np.ndarray) -> AnyRows:
    """Return the chosen rows, in the order given.

    >>> rows = Batch(np.array([0, 2, 3]), np.array([5, 1, 5]), np.ones(3), 9)
    >>> pick_rows(rows, np.array([1, 0])).indices
    array([5, 5, 1])
    """
    lengths = np.diff(rows.indptr)[chosen]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.repeat(rows.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
    labels = None if rows.labels is None else rows.labels[chosen]
    weights = None if rows.weights is None else rows.weights[chosen]
    return rows._derived(indptr, rows.indices[entries], rows.values[entries], rows.n_features, labels, weights)


def join_sides(left: CheckedRows, left_rows: np.ndarray, right: CheckedRows, right_rows: np.ndarray) -> CheckedRows:
    """Return rows that have the entries of a row on the left, then those of a row on the right.

    >>> rows = check_batch(Batch(np.array([0, 2, 3]), np.array([5, 1, 5]), np.ones(3), 9))
    >>> other = check_batch(Batch(np.array([0, 1, 2]), np.array([7, 8]), np.ones(2), 9))
    >>> join_sides(rows, np.array([1, 0]), other, np.array([0, 1])).indices
    array([5, 7, 5, 1, 8])
    """
    a, b = pick_rows(left, left_rows), pick_rows(right, right_rows)
    parts = [np.diff(a.indptr), np.diff(b.indptr)]
    indptr = np.concatenate([[0], np.cumsum(parts[0] + parts[1])])
    starts = np.stack([indptr[:-1], indptr[:-1] + parts[0]])
    places = [
        np.repeat(start - part.indptr[:-1], lengths) + np.arange(part.indices.size)
        for start, part, lengths in zip(starts, (a, b), parts)
    ]
    order = np.argsort(np.concatenate(places))
    indices = np.concatenate([a.indices, b.indices])[order]
    values = np.concatenate([a.values, b.values])[order]
    return check_batch(Batch(indptr, indices, values, max(left.n_features, right.n_features)))


def keep_rows(rows: AnyRows, kept: np.ndarray) -> AnyRows:
    """Return the rows for which `kept` is true, in less memory than `pick_rows` needs."""
    lengths = np.diff(rows.indptr)
    entries = np.repeat(kept, lengths)
    indptr = np.concatenate([[0], np.cumsum(lengths[kept])])
    labels = None if rows.labels is None else rows.labels[kept]
    weights = None if rows.weights is None else rows.weights[kept]
    return rows._derived(indptr, rows.indices[entries], rows.values[entries], rows.n_features, labels, weights)


def cut_blocks(batches: Iterable[AnyRows]) -> Iterator[AnyRows]:
    """Regroup batches into blocks that are as large as the limits allow.

    The blocks depend on the rows alone, not on how they were batched. A row above the limit is a block of its own.
    """
    for parts in cut_parts(batches):
        rows = join_rows(parts)
        parts.clear()  # free the parts: otherwise the rows would be in memory twice
        yield rows
        del rows  # free the block before the next one is built


def cut_parts(batches: Iterable[AnyRows]) -> Iterator[list[AnyRows]]:
    """Yield each block as a list of slices of the batches."""
    parts: list[AnyRows] = []
    n_rows = n_entries = 0
    for batch in batches:
        first = 0
        while first < batch.n_rows:
            end = batch.indptr[first] + BLOCK_ENTRIES - n_entries
            stop = min(first + BLOCK_ROWS - n_rows, int(np.searchsorted(batch.indptr, end, side="right")) - 1)
            stop = max(stop, first if parts else first + 1)  # an empty block takes at least one row, however long
            if stop > first:
                parts.append(take_rows(batch, first, stop))
                n_rows, n_entries = n_rows + stop - first, n_entries + parts[-1].indices.size
            if stop < batch.n_rows:
                yield parts
                parts, n_rows, n_entries = [], 0, 0
            first = stop
    if parts:
        yield parts


def join_rows(parts: Sequence[AnyRows]) -> AnyRows:
    """Concatenate one or more parts; the result is checked if all parts are."""
    if len(parts) == 1:
        return parts[0]
    indices, values, labels, weights = (_joined(parts, name) for name in ("indices", "values", "labels", "weights"))
    n_features = max(part.n_features for part in parts)
    weakest = min(parts, key=lambda part: isinstance(part, CheckedRows))  # an unchecked part, if there is one
    return weakest._derived(join_offsets(parts), indices, values, n_features, labels, weights)


def join_offsets(parts: Sequence[Batch]) -> np.ndarray:
    """Return the indptr of the concatenated parts."""
    ends = np.cumsum([0, *(part.indices.size for part in parts)])
    return np.concatenate([[0], *(part.indptr[1:] + end for part, end in zip(parts, ends))])


def _joined(parts: Sequence[Batch], name: str) -> np.ndarray | None:
    columns = [getattr(part, name) for part in parts]
    return None if columns[0] is None else np.concatenate(columns)
