"""Warn about text that may not be what it seems: texts among numbers, and data in place of a header."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ...encode.infer import TEXT_NOW, Stray, find_stray
from ...errors import DataWarning
from ..libsvm.diagnose import quote
from .arrow_parser import Layout, line_of
from .cell_types import TEXT, is_number


def warn_of_strays(sample: Sequence[Any], columns: Iterable[str], layout: Layout) -> None:
    """Warn about columns that became text because of a few cells; sample: parsed parts of the file."""
    for column in columns:
        for part in sample:
            stray = find_stray(part.cells[column]) if part.cells[column].type == TEXT else None
            if stray is not None:
                _warn_of_stray(stray, column, part, layout)
                break


def _warn_of_stray(stray: Stray, column: str, part: Any, layout: Layout) -> None:
    line = (
        line_of(part.block, layout, stray.place)
        if part.lines is None
        else part.block.first_line + int(part.lines[stray.place])
    )
    message = f"{layout.name}:{line}: column {column!r}: {stray}; {TEXT_NOW}"
    warnings.warn(DataWarning(message, {column: "category"}), stacklevel=2)


def warn_of_spaces(sample: Sequence[Any], columns: Iterable[str], layout: Layout) -> None:
    """Warn, once, about columns of text all of whose cells begin with a space, which names of columns lose."""
    first = next(iter(sample), None)
    found = [column for column in columns if first is not None and _begin_with_space(first.cells[column])]
    if found:
        more = f" and of {len(found) - 1} more" if len(found) > 1 else ""
        message = (
            f"{layout.name}: the cells of column {found[0]!r}{more} begin with a space, so they are text, and another "
            "value than without it; remove the spaces after the delimiters"
        )
        warnings.warn(DataWarning(message), stacklevel=2)


def _begin_with_space(cells: pa.Array) -> bool:
    return cells.type == TEXT and bool(pc.all(pc.starts_with(cells, " "), min_count=1).as_py())


def warn_of_header(sample: Sequence[Any], layout: Layout) -> None:
    """Warn if the names of the columns look like the cells below them."""
    cells = {column: part.cells[column] for part in list(sample)[:1] for column in layout.types}
    if cells and _are_data(layout.types, cells):
        names = ", ".join(quote(name.encode()) for name in layout.names[:5])
        message = (
            f"{layout.name}:{layout.header_line}: the first line has the names of the columns, but {names} look like "
            "data; if they are, add a line with names above"
        )
        warnings.warn(DataWarning(message), stacklevel=2)


def _are_data(types: dict[str, pa.DataType], cells: dict[str, pa.Array]) -> bool:
    """Tell whether all columns of numbers have numbers for names; without any, whether all names are found as cells."""
    numeric = [column for column, kind in types.items() if kind != TEXT]
    if [*types] in ([str(place + first) for place in range(len(types))] for first in (0, 1)):
        return False  # the names that programs give to columns without one
    if numeric:
        return all(is_number(column) for column in numeric)
    return all(pc.index(cells[column], pa.scalar(column, TEXT)).as_py() >= 0 for column in types)
