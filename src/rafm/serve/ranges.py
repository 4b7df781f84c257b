"""Which numbers a request may have: those that can be scored in float32, as the published schema says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..encode.coders import Number
from ..encode.column import NAME_TYPES, Column
from ..errors import DataValueError
from ..scorer import Scorer

LARGEST = 1e15  # of a feature: its square, times those of vectors, is far from the largest float32
LARGEST_CELL = 1e18  # of any other number: below 2^63
WHOLE = 2**63 - 1  # of an integer, on both sides: a parser may round -2^63 - 1 up to -2^63
Range = tuple[float, float]


def range_of(column: Column) -> Range | None:
    """Return the smallest and the largest number that a cell may be, None if the cells are no numbers."""
    if column.kind == "category" and column.cell_type in NAME_TYPES:
        return -WHOLE, WHOLE
    if column.cell_type != "number" or column.kind in ("category", "datetime", "list"):
        return None
    limit = LARGEST_CELL
    if isinstance(column.coder, Number):
        limit = min(limit, float(f"{LARGEST * column.coder.spread:.0e}"))
    return -limit, limit


class Ranges:
    """The ranges of a model's cells; for a model of ids, one for all values."""

    def __init__(self, scorer: Scorer):
        encoder, self.columns = scorer.saved.encoder, scorer.columns
        columns = encoder.columns if encoder is not None else ()
        self.by_name = {column.name: found for column in columns if (found := range_of(column)) is not None}
        self.lists = [column.name for column in columns if column.cell_type == "list"]
        self.has_ids = encoder is None

    def check_rows(self, rows: list[Any]) -> None:
        """Refuse rows with a number out of its range."""
        for place, row in enumerate(rows):
            if self.has_ids:
                for name, cell in row.items() if isinstance(row, dict) else enumerate(row):
                    _check(cell, (-LARGEST, LARGEST), name, place)
                continue
            cells = row if isinstance(row, dict) else dict(zip(self.columns, row))
            for name, found in self.by_name.items():
                _check(cells.get(name), found, name, place)
            for name in self.lists:
                elements = cells.get(name)
                for one in elements if type(elements) is list else ():
                    _check(one, (-WHOLE, WHOLE), name, place)

    def check_table(self, table: pa.Table | pa.RecordBatch) -> None:
        """Refuse columns with a number out of its range; what is no number is left to the encoder."""
        for name, (low, high) in self.by_name.items():
            cells = table.column(name) if name in table.schema.names else None
            if cells is not None and (pa.types.is_floating(cells.type) or pa.types.is_integer(cells.type)):
                ends = pc.min_max(cells).as_py().values()
                if any(end is not None and not low <= end <= high and abs(end) < float("inf") for end in ends):
                    _refuse(name, "", (low, high))


def _check(cell: Any, found: Range, name: Any, place: int) -> None:
    if type(cell) in (int, float) and not found[0] <= cell <= found[1]:
        _refuse(name, f", row {place + 1}", found)


def _refuse(name: Any, where: str, found: Range) -> None:
    raise DataValueError(f"column {str(name)[:80]!r}{where}: a number must be between {found[0]:g} and {found[1]:g}")
