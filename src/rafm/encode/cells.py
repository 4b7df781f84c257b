"""Encode single Python values as features, without Arrow: what the coder of a column does, one cell at a time.

Common values take a short path of a microsecond. All others go through the coder of the column, which is also what
defines the result; recent ones are remembered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import DataValueError
from .casts import is_bytes, naming_column
from .coders import Bins, Lists, LogBins, Number, Words, log_bin
from .column import NAME_TYPES, Column, refuse_missing
from .crosses import Cross

REMEMBERED, REMEMBERED_CHARS = 1024, 200  # cells per column, and characters of each
INT_LIMIT = 2**63  # larger integers are left to Arrow
Entries = tuple[tuple[int, ...], tuple[float, ...]]  # ids and values


class CellEncoder:
    """Encodes the cells of one column by its coder."""

    def __init__(self, column: Column, first: int, allows_missing: bool):
        self.column, self.first, self.allows_missing = column, first, allows_missing
        self.rare = first + column.coder.n_values if column.has_rare else -1
        self.null = first + column.coder.n_values + column.has_rare if column.has_missing else -1
        self._remembered = lru_cache(REMEMBERED, typed=True)(self._by_coder)  # typed: True is not 1

    def add(self, cell: Any, row: int, ids: list[int], values: list[float]) -> None:
        """Append the features of a cell and their values; row: its number in messages."""
        self.add_other(cell, row, ids, values)

    def add_other(self, cell: Any, row: int, ids: list[int], values: list[float]) -> None:
        """Do the same for cells without a short path."""
        if is_missing(cell):
            if not self.allows_missing:
                refuse_missing(self.column.name, row)
            if self.null >= 0:
                ids.append(self.null)
                values.append(1.0)
        elif isinstance(cell, np.generic | np.ndarray) and not isinstance(cell, np.float32):
            self.add(cell.tolist(), row, ids, values)
        else:
            more, their_values = self._found(cell, row)
            ids.extend(more)
            values.extend(their_values)

    def _found(self, cell: Any, row: int) -> Entries:
        if not isinstance(cell, Hashable) or isinstance(cell, tuple) or len(str(cell)) > REMEMBERED_CHARS:
            return self._by_coder(cell, row)
        try:
            return self._remembered(cell)
        except DataValueError:
            return self._by_coder(cell, row)  # fails again, and names the row

    def _by_coder(self, cell: Any, row: int = 0) -> Entries:
        column = self.column
        [slot, *more] = column.finalize(column.slots(self._as_array(cell, row), row), np.zeros(4, np.int64))
        codes = np.concatenate([slot.codes, *(other.codes for other in more)])
        values = slot.values if slot.values.size else np.ones(codes.size, np.float32)
        known = codes >= 0
        return tuple((codes[known] + self.first).tolist()), tuple(values[known].tolist())

    def _as_array(self, cell: Any, row: int) -> pa.Array:
        """Return a cell as an Arrow array."""
        name = self.column.name
        with naming_column(name, type(cell).__name__):
            try:
                cells = pa.array([cell])
                return cells.cast(pa.large_string()) if is_bytes(cells.type) else cells
            except (TypeError, UnicodeError) as error:
                raise DataValueError(f"column {name!r}, row {row + 1}: {str(error)[:200]}") from None


class WordCells(CellEncoder):
    """Looks texts up in a dictionary."""

    def __init__(self, column: Column, first: int, allows_missing: bool):
        super().__init__(column, first, allows_missing)
        self.kind = column.cell_type
        self.known = _ids_of(column.coder, first)  # type: ignore[arg-type]

    def add(self, cell: Any, row: int, ids: list[int], values: list[float]) -> None:
        kind = type(cell)  # exactly: a boolean is no number here
        if kind is str and self.kind == "text":
            text = cell
        elif self.kind not in NAME_TYPES:
            return self.add_other(cell, row, ids, values)
        elif kind is int and -INT_LIMIT <= cell < INT_LIMIT:
            text = str(cell)
        elif kind is float and cell.is_integer() and abs(cell) < INT_LIMIT:
            text = str(int(cell))
        else:
            return self.add_other(cell, row, ids, values)
        id = self.known.get(text, self.rare)
        if id >= 0:
            ids.append(id)
            values.append(1.0)


class ListCells(CellEncoder):
    """Looks the texts of a list up in a dictionary."""

    def __init__(self, column: Column, first: int, allows_missing: bool):
        super().__init__(column, first, allows_missing)
        assert isinstance(column.coder, Lists)
        assert isinstance(column.coder.words, Words)
        self.known, self.scale = _ids_of(column.coder.words, first), column.coder.spec.scale
        self.power = {"1": 0.0, "1/n": 1.0, "1/sqrt(n)": 0.5}[self.scale]

    def add(self, cell: Any, row: int, ids: list[int], values: list[float]) -> None:
        if type(cell) not in (list, tuple) or not all(type(one) is str for one in cell):
            return self.add_other(cell, row, ids, values)
        found = [self.known.get(text, self.rare) for text in cell]
        if len({*found}) < len(found) or self.column.cell_type == "text":  # values of equal features add up in float32
            return self.add_other(cell, row, ids, values)
        value = 1 / max(len(found), 1) ** self.power
        for id in found:
            if id >= 0:
                ids.append(id)
                values.append(value)


class NumberCells(CellEncoder):
    """Standardises numbers."""

    def add(self, cell: Any, row: int, ids: list[int], values: list[float]) -> None:
        number, coder = plain_number(cell), self.column.coder
        if number is None or self.column.cell_type != "number":
            return self.add_other(cell, row, ids, values)
        assert isinstance(coder, Number)
        ids.append(self.first)
        values.append((number - coder.mean) / coder.spread)


class BinCells(CellEncoder):
    """Finds the bins of numbers."""

    def __init__(self, column: Column, first: int, allows_missing: bool):
        super().__init__(column, first, allows_missing)
        if isinstance(column.coder, LogBins):
            self.known = {bin: first + code for code, bin in enumerate(column.coder.bins)}

    def add(self, cell: Any, row: int, ids: list[int], values: list[float]) -> None:
        number, coder = plain_number(cell), self.column.coder
        if number is None or self.column.cell_type != "number":
            return self.add_other(cell, row, ids, values)
        if isinstance(coder, Bins):
            # like np.searchsorted with side="right"
            id = self.first + bisect_right(coder.edges, number)
        else:
            id = self.known.get(float(log_bin(np.array([number]))[0]), self.rare)
        if id >= 0:
            ids.append(id)
            values.append(1.0)


class CrossCells:
    """Finds the feature of a combination in a dictionary of keys."""

    def __init__(self, cross: Cross, first: int):
        self.known = {key: first + code for code, key in enumerate(cross.keys.tolist())}
        self.digits = [(column.name, column.n_features) for column in cross.columns]

    def add(self, codes: Mapping[str, int], ids: list[int], values: list[float]) -> None:
        """Append the feature of a row, given the code of its feature in each column that has one."""
        key = 0
        for name, size in self.digits:
            if name not in codes:
                return
            key = key * size + codes[name]
        if key in self.known:
            ids.append(self.known[key])
            values.append(1.0)


def is_missing(cell: Any) -> bool:
    """Tell whether a cell is None, NaN, or what pandas has for them."""
    return cell is None or (isinstance(cell, float) and cell != cell) or type(cell).__name__ in ("NAType", "NaTType")


def plain_number(cell: Any) -> float | None:
    """Return a finite number as float, None for anything else: missing, too large, or of another type."""
    kind = type(cell)
    if kind is float:
        return cell if -np.inf < cell < np.inf else None
    return float(cell) if kind is int and -INT_LIMIT <= cell < INT_LIMIT else None


def _ids_of(words: Words, first: int) -> dict[str, int]:
    texts = (text.decode("utf-8", "surrogateescape") for text in words.table.as_array().to_pylist())
    return {text: id for id, text in enumerate(texts, first)}


def cell_encoder(column: Column, first: int, allows_missing: bool) -> CellEncoder:
    """Return what encodes the cells of a column; first: id of its first feature."""
    kinds = {Words: WordCells, Number: NumberCells, Bins: BinCells, LogBins: BinCells}
    kind: type[CellEncoder] = kinds.get(type(column.coder), CellEncoder)
    if isinstance(column.coder, Lists) and isinstance(column.coder.words, Words):
        kind = ListCells
    return kind(column, first, allows_missing)
