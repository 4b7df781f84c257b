"""Turn lists of plain Python cells into Arrow columns, which are encoded many times faster than cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from .column import NAME_TYPES, Column
from .encoder import TableEncoder

NONE = {type(None)}
PLAIN: dict[str, list[tuple[set[type], pa.DataType]]] = {  # by cell type: types of Python, and the Arrow type of them
    "text": [({str}, pa.string())],
    "number": [({int}, pa.int64()), ({int, float}, pa.float64())],
    "boolean": [({bool}, pa.bool_())],
    "list": [({list}, pa.list_(pa.string()))],
}


def batch_of_columns(encoder: TableEncoder, columns: Mapping[str, Any]) -> pa.RecordBatch | None:
    """Return lists of cells as a batch; None if one of them needs to be encoded cell by cell.

    Every column that the encoder uses must be there, and all must have the same length; Arrow arrays stay as they are.

    >>> encoder = TableEncoder.learn(pa.table({"city": ["Rome", "Oslo"], "age": [30.5, 40.0]}))
    >>> batch_of_columns(encoder, {"city": ["Oslo", None], "age": [20, 0.5]}).schema.types
    [DataType(double), DataType(string)]
    >>> batch_of_columns(encoder, {"city": ["Oslo", 7], "age": [20, 0.5]}) is None
    True
    """
    arrays = [array_of_cells(column, columns[column.name]) for column in encoder.columns]
    if not arrays or any(array is None for array in arrays):
        return None
    return pa.RecordBatch.from_arrays(arrays, [column.name for column in encoder.columns])


def array_of_cells(column: Column, cells: Sequence[Any] | pa.Array) -> pa.Array | None:
    """Return the cells of a column if they have the types that training had, and the same features in an array."""
    if isinstance(cells, pa.Array):
        return cells
    found = {*map(type, cells)} - NONE
    # text stands for a time, since JSON has none
    cell_type = "text" if column.cell_type == "time" and column.kind == "datetime" else column.cell_type
    plain = (
        PLAIN["text"] + PLAIN["number"]
        if column.kind == "category" and cell_type in NAME_TYPES
        else PLAIN.get(cell_type, [])
    )
    kind = next((kind for types, kind in plain if found <= types), None)
    if kind is None:
        return None
    try:
        return pa.array(cells, kind)
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None  # an element of another type, a number or text that Arrow cannot hold


def columns_of_rows(names: Iterable[str], rows: Sequence[Any]) -> dict[str, list[Any]] | None:
    """Return the cells of rows by column; None unless all rows are dicts that have the columns."""
    if {*map(type, rows)} != {dict}:
        return None
    try:
        return {name: [row[name] for row in rows] for name in names}
    except KeyError:
        return None
