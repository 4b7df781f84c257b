"""Take rows of feature ids from lists: Arrow columns `ids` and `values`, or tensors padded to one width."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import DataValueError
from ..rows.arrow import numbers_of
from ..rows.checked import Batch
from .casts import as_numbers, cell_type, is_list

IDS, VALUES = "ids", "values"


def rows_of_lists(table: pa.Table | pa.RecordBatch, n_inputs: int, index_base: int = 0) -> Batch:
    """Return the rows of a table with the columns `ids`, of integers, and `values`, of numbers (default: 1), in lists.

    n_inputs: number of features that the model knows; larger ids are allowed.

    >>> rows_of_lists(pa.table({"ids": [[7, 3], []], "values": [[0.5, 1], []]}), n_inputs=5).indices
    array([7, 3])
    """
    names = table.schema.names
    if IDS not in names or not {*names} <= {IDS, VALUES} or len({*names}) < len(names):
        raise DataValueError(f"expected the columns {IDS!r} and {VALUES!r}, found {', '.join(names)[:80]}")
    ends, elements = _flattened(table, IDS)
    if not (pa.types.is_integer(elements.type) or pa.types.is_null(elements.type)) or elements.null_count:
        raise DataValueError(f"column {IDS!r} must have lists of integers without nulls, not of {elements.type}")
    ids, values = _integers(elements) - index_base, np.ones(len(elements))
    if VALUES in names:
        their_ends, numbers = _flattened(table, VALUES)
        if not np.array_equal(ends, their_ends):
            raise DataValueError(f"the lists in {IDS!r} and {VALUES!r} must have the same lengths")
        if cell_type(numbers.type) not in ("number", "nothing"):
            raise DataValueError(f"column {VALUES!r} must have lists of numbers, not of {numbers.type}")
        values = as_numbers(numbers)  # a null becomes NaN, which is refused with the number of its row
    return checked_rows(ends, ids, values, n_inputs)


def rows_of_padded(ids: list[Any], values: list[Any] | None, shape: tuple[int, int], n_inputs: int, base: int) -> Batch:
    """Return the rows of tensors of this shape, without entries whose id is None or whose value is None or 0."""
    with np.errstate(over="ignore"):
        numbers = np.ones(len(ids)) if values is None else np.array([value or 0.0 for value in values], np.float64)
    try:
        found = np.array([-1 if id is None else id for id in ids], np.int64)
    except OverflowError:
        raise DataValueError("a feature id does not fit in 64 bits") from None
    is_there = (numbers != 0) & np.array([id is not None for id in ids], bool)
    ends = np.concatenate([[0], np.cumsum(is_there.reshape(shape).sum(axis=1))])
    return checked_rows(ends, found[is_there] - base, numbers[is_there], n_inputs)


def checked_rows(ends: np.ndarray, ids: np.ndarray, values: np.ndarray, n_inputs: int) -> Batch:
    """Return the rows, if none has a negative id or one twice."""
    rows = np.repeat(np.arange(ends.size - 1), np.diff(ends))
    if (ids < 0).any():
        raise DataValueError(f"row {rows[np.argmax(ids < 0)] + 1} has a feature id that is too small")
    order = np.lexsort((ids, rows))
    twice = (np.diff(ids[order]) == 0) & (np.diff(rows[order]) == 0)
    if twice.any():
        raise DataValueError(f"row {rows[order][np.argmax(twice)] + 1}: a feature id occurs twice")
    return Batch(ends, ids, values, max(n_inputs, 1 + int(ids.max(initial=0))))


def _flattened(table: pa.Table | pa.RecordBatch, name: str) -> tuple[np.ndarray, pa.Array]:
    """Return the ends of the lists of a column, from 0 on, and their elements."""
    column = table.column(name)
    cells = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if not is_list(cells.type) or cells.null_count:
        raise DataValueError(f"column {name!r} must have lists without nulls, not {cells.type}")
    sizes = cells.value_lengths().cast(pa.int64())
    return np.concatenate([[0], np.cumsum(numbers_of(sizes))]), cells.flatten()


def _integers(elements: pa.Array) -> np.ndarray:
    try:
        return np.array(numbers_of(elements.cast(pa.int64())))
    except pa.ArrowInvalid:
        raise DataValueError("a feature id does not fit in 64 bits") from None
