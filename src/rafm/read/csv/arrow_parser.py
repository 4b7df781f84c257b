"""Parse blocks of delimited text into columns of text with Arrow's parser; name the line of what it rejects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
from pyarrow import csv

from ...errors import DataFormatError, RafmError
from ...files.terminal import counted
from .cell_types import TEXT
from .row_blocks import Dialect, TextBlock, row_places

PARSE_BYTES = 2**20  # per thread of Arrow
BLANK_LINES = re.compile(rb"[\r\n]*")

OnBad = Callable[[RafmError], object]
OnRagged = Callable[[csv.InvalidRow], str]


class Layout(NamedTuple):
    """How one file is read; `name` is used in messages."""

    name: str
    dialect: Dialect
    names: list[str]
    types: dict[str, pa.DataType]  # of the columns that are kept; UNKNOWN until they are inferred
    given: dict[str, pa.DataType | None]  # types chosen by the caller; None for columns to ignore
    on_bad: OnBad | None = None
    header_line: int = 0  # line of the names, if they are from the file


class BadRow(Exception):
    """Raised for a row: its number in the block, and the error about it."""

    def __init__(self, row: int, error: RafmError):
        super().__init__(row, error)
        self.row, self.error = row, error


def split_row(row: bytes, dialect: Dialect) -> list[str]:
    """Return the cells of one row; may raise ArrowInvalid.

    >>> split_row(b'a,"b;c",\\n', Dialect(","))
    ['a', 'b;c', '']
    """
    n_cells = row.count(dialect.delimiter.encode()) + 1  # an upper bound: delimiters may be quoted
    types = {f"f{k}": TEXT for k in range(n_cells)}
    options = csv.ReadOptions(use_threads=False, autogenerate_column_names=True, block_size=len(row) + 1)
    cells = csv.read_csv(pa.BufferReader(row), options, _parse_options(dialect), csv.ConvertOptions(column_types=types))
    return [column[0].as_py() for column in cells.columns]


def has_rows(block: TextBlock) -> bool:
    """Tell whether a block has anything but blank lines."""
    return BLANK_LINES.fullmatch(block.data) is None


def parse_block(block: TextBlock, layout: Layout, on_ragged: OnRagged | None = None) -> dict[str, pa.Array]:
    """Return the columns to keep as text; an empty field is null."""
    if not has_rows(block):
        return no_cells(layout)
    try:
        table = _arrow_parse(block, layout, in_pieces=True)
    except pa.ArrowInvalid:  # retry unsplit: gives the row number, and a row may have been longer than a piece
        try:
            table = _arrow_parse(block, layout, in_pieces=False, on_ragged=on_ragged)
        except pa.ArrowInvalid as error:
            raise _bad_row(block, layout, error) from None
    return {column: table[column].combine_chunks() for column in layout.types}


def no_cells(layout: Layout) -> dict[str, pa.Array]:
    """Return empty columns."""
    return {column: pa.array([], TEXT) for column in layout.types}


def _arrow_parse(
    block: TextBlock,
    layout: Layout,
    in_pieces: bool,
    on_ragged: OnRagged | None = None,
) -> pa.Table:
    piece = PARSE_BYTES if in_pieces else len(block.data) + 1
    return csv.read_csv(
        pa.BufferReader(block.data),
        csv.ReadOptions(use_threads=in_pieces, block_size=piece, column_names=layout.names),
        _parse_options(layout.dialect, not block.one_line, on_ragged),
        csv.ConvertOptions(
            column_types=dict.fromkeys(layout.names, TEXT),
            include_columns=list(layout.types),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )


def _parse_options(dialect: Dialect, newlines: bool = True, on_ragged: OnRagged | None = None) -> csv.ParseOptions:
    quote_char = '"' if dialect.quoting else False
    return csv.ParseOptions(
        delimiter=dialect.delimiter,
        quote_char=quote_char,
        newlines_in_values=newlines,
        invalid_row_handler=on_ragged,
    )


def _bad_row(block: TextBlock, layout: Layout, error: pa.ArrowInvalid) -> BadRow:
    """Return Arrow's error with the line in the file instead of the row in the block."""
    message = in_one_line(error)
    number = re.search(r"Row #(\d+): ", message)
    row = int(number[1]) - 1 if number else 0
    if ragged := re.search(r"Expected (\d+) columns, got (\d+)", message):
        message = f"expected {counted(int(ragged[1]), 'column')}, found {ragged[2]}"
    elif encoding := re.search(r"column #(\d+): .*invalid UTF8", message):
        message = f"column {layout.names[int(encoding[1])]!r} is not UTF-8; convert the file to UTF-8"
    return BadRow(row, DataFormatError(message, layout.name, line_of(block, layout, row)))


def line_of(block: TextBlock, layout: Layout, row: int) -> int:
    """Return the line where a row of the block starts."""
    _, lines, _ = row_places(block.data, layout.dialect, row + 1)
    return block.first_line + int(lines[row])


def in_one_line(error: Exception) -> str:
    """Return the message of an error without line feeds."""
    return " ".join(str(error).split())
