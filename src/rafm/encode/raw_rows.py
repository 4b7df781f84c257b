"""Encode rows of Python values: dicts and tuples of the cells of a table, or of feature ids and values."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from ..errors import DataValueError, caller_level
from ..files.terminal import counted, printable
from .cell_columns import batch_of_columns, columns_of_rows
from .cells import CrossCells, cell_encoder, is_missing, plain_number
from .encoder import TableEncoder

LISTED, MAX_WARNED = 10, 1000  # names in a message, and in all: strangers must not fill the memory


class RawRows(Protocol):
    """Encodes rows one by one."""

    columns: tuple[str, ...]

    def add(self, row: Any, number: int, ids: list[int], values: list[float], partial: bool = False) -> None:
        """Append the feature ids of a row and their values.

        number: of the row, for messages. partial: whether a row may lack columns, which then have no feature.
        """

    def batch(self, rows: Sequence[Any]) -> pa.RecordBatch | None:
        """Return rows as an Arrow batch of the encoder's columns; None if they must be encoded one by one."""

    def ignored(self, row: Mapping[str, Any]) -> list[str]:
        """Return the names in a row that the model does not know."""


class TableRows:
    """Encodes rows of a table's cells: {column: cell}, or a tuple of cells in the order of `columns`."""

    def __init__(self, encoder: TableEncoder, columns: Sequence[str] | None = None):
        self._encoder, allows_missing = encoder, encoder.spec.missing != "error"
        places = zip(encoder.columns, encoder.first_ids)
        self._cells = {column.name: cell_encoder(column, first, allows_missing) for column, first in places}
        firsts = zip(encoder.first_ids[len(encoder.columns) :], encoder.crosses)
        self._crosses = [CrossCells(cross, first) for first, cross in firsts]
        self.columns = tuple(name for name in columns or self._cells if name in self._cells)
        unused = {column.name for column in encoder.spec.columns if column.kind == "ignore"}
        self._known = {*self._cells, *unused, *encoder.spec.targets()}
        self._warns, self._warned = encoder.spec.others == "auto", set[str]()

    def add(self, row: Any, number: int, ids: list[int], values: list[float], partial: bool = False) -> None:
        if isinstance(row, tuple | list):
            row = self._named(row, number)
        elif not isinstance(row, Mapping):
            raise DataValueError(f"row {number + 1}: expected a dict or a tuple of cells, found {type(row).__name__}")
        n_found, found = 0, dict[str, int]()
        for name, cells in self._cells.items():
            try:
                cell = row[name]
            except KeyError:
                if partial:
                    continue
                raise DataValueError(
                    f"row {number + 1}: column {name!r} is missing; use None (null in JSON) for a missing value"
                ) from None
            n_ids = len(ids)
            cells.add(cell, number, ids, values)
            if len(ids) > n_ids:
                found[name] = ids[n_ids] - cells.first
            n_found += 1
        for cross in self._crosses:
            cross.add(found, ids, values)
        if len(row) > n_found and self._warns:
            self._warn(row)

    def batch(self, rows: Sequence[Any]) -> pa.RecordBatch | None:
        if {*map(type, rows)} <= {tuple, list} and {*map(len, rows)} == {len(self.columns)}:
            columns: dict[str, Any] | None = dict(zip(self.columns, zip(*rows)))
        else:
            columns = columns_of_rows(self._cells, rows)
        if columns is None:
            return None
        if self._warns and max(map(len, rows)) > len(self._cells):
            for row in rows:
                self._warn(row)
        return batch_of_columns(self._encoder, columns)

    def ignored(self, row: Mapping[str, Any]) -> list[str]:
        return [str(name) for name in row if name not in self._known]

    def _named(self, row: Sequence[Any], number: int) -> dict[str, Any]:
        if len(row) != len(self.columns):
            raise DataValueError(
                f"row {number + 1}: expected {counted(len(self.columns), 'cell')} {self.columns}, found {len(row)}"
            )
        return dict(zip(self.columns, row))

    def _warn(self, row: Mapping[str, Any]) -> None:
        if extra := [name for name in self.ignored(row) if name not in self._warned]:
            self._warned.update(extra[:LISTED])
            self._warns = len(self._warned) < MAX_WARNED
            names = printable(", ".join(extra[:LISTED]))
            message = f"ignoring columns that the model was not trained with: {names}"
            warnings.warn(message, stacklevel=caller_level())


class IdRows:
    """Encodes rows of a matrix or of a file of ids: {id or column name: value}, or a tuple of all columns' values."""

    def __init__(self, n_inputs: int, index_base: int = 0, columns: Sequence[str] | None = None):
        self.n_inputs, self.index_base, self.columns = n_inputs, index_base, tuple(columns or ())
        self._places = {name: place for place, name in enumerate(self.columns)}

    def add(self, row: Any, number: int, ids: list[int], values: list[float], partial: bool = False) -> None:
        if isinstance(row, tuple | list):
            if len(row) != self.n_inputs:
                raise DataValueError(f"row {number + 1}: expected {counted(self.n_inputs, 'value')}, found {len(row)}")
            entries: Any = enumerate(row)
        elif isinstance(row, Mapping):
            entries = ((self._id(name, number), value) for name, value in row.items())
        else:
            raise DataValueError(f"row {number + 1}: expected a dict or a tuple of values, found {type(row).__name__}")
        first = len(ids)
        for id, value in entries:
            ids.append(id)
            values.append(self._value(value, id, number))
        if len({*ids[first:]}) < len(ids) - first:
            raise DataValueError(f"row {number + 1}: a feature id occurs twice")

    def batch(self, rows: Sequence[Any]) -> pa.RecordBatch | None:
        return None

    def ignored(self, row: Mapping[str, Any]) -> list[str]:
        return []

    def _id(self, name: Any, number: int) -> int:
        """Return the id of a column name, or of an id as in the training file; JSON has texts of them."""
        if name in self._places:
            return self._places[name]
        is_text_of_id = isinstance(name, str) and name.isascii() and name.isdigit() and len(name) < 19
        is_id = is_text_of_id or (hasattr(name, "__index__") and not isinstance(name, bool))
        id = int(name) - self.index_base if is_id else -1
        if not 0 <= id < 2**63:
            rule = f"a feature id from {self.index_base} on" + (", or a column name" if self.columns else "")
            raise DataValueError(f"row {number + 1}: expected {rule}, found {str(name)[:80]!r}")
        return id

    def _value(self, value: Any, id: int, number: int) -> float:
        found = plain_number(value.item() if hasattr(value, "item") else value)
        if found is None:
            what = "a missing value" if is_missing(value) else repr(value)[:80]
            raise DataValueError(f"row {number + 1}, feature {id + self.index_base}: expected a number, found {what}")
        return found
