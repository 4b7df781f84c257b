"""Parse blocks of plain rows into columns, piece by piece; anything else is left to Arrow's parser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ...rows.arrow import new_array
from .arrow_parser import Layout
from .byte_masks import CHUNK, count_feeds
from .cell_types import NUMBER, TEXT, UNKNOWN, WHOLE
from .plain_kernels import DECLINED, WORD_BYTES, copy_columns, read_columns, split_rows
from .row_blocks import Dialect, TextBlock

PIECE_BYTES = 2**20  # fits the cache while all columns are read from it
MAX_BLOCK_BYTES = 2**31 - 1  # bounds and offsets are int32


class Piece(NamedTuple):
    """Some rows and the bounds of their cells; see plain_kernels.py."""

    text: np.ndarray
    bounds: np.ndarray
    n_rows: int
    quoting: bool

    def numbers(self, kinds: Mapping[int, pa.DataType]) -> list[pa.Array | None]:
        """Return columns as WHOLE or NUMBER, with null for empty cells; None if a cell is not plain."""
        columns, are_whole = np.array([*kinds], np.int64), np.array([kind == WHOLE for kind in kinds.values()], bool)
        wholes, known = (new_array((columns.size, self.n_rows), kind) for kind in (np.int64, np.uint8))
        n_empty, as_reals = np.empty(columns.size, np.int64), wholes.view(np.float64)
        read_columns(self.text, self.bounds, columns, are_whole, self.quoting, wholes, as_reals, known, n_empty)
        return [
            None if n == DECLINED else _array(kind, self.n_rows, here, n, numbers)
            for kind, numbers, here, n in zip(kinds.values(), wholes, known, n_empty.tolist())
        ]

    def texts(self, columns: Sequence[int]) -> list[pa.Array]:
        """Return columns of text."""
        n_bytes = int(self.bounds[-1, self.n_rows - 1] - self.bounds[0, 0]) if self.n_rows else 0
        data = new_array((n_bytes + WORD_BYTES,), np.uint8)
        offsets = new_array((len(columns), self.n_rows + 1), np.int32)
        n_empty = np.empty(len(columns), np.int64)
        copy_columns(self.text, self.bounds, np.array(columns, np.int64), self.quoting, data, offsets, n_empty)
        return [
            _array(TEXT, self.n_rows, own[1:] > own[:-1], n, own, data) for own, n in zip(offsets, n_empty.tolist())
        ]


def _array(kind: pa.DataType, n_rows: int, known: np.ndarray, n_empty: int, *parts: np.ndarray) -> pa.Array:
    """Return an Arrow array with these buffers, in which empty cells are null."""
    validity = pa.py_buffer(np.packbits(known, bitorder="little")) if n_empty else None
    return pa.Array.from_buffers(kind, n_rows, [validity, *map(pa.py_buffer, parts)], n_empty)


def split_block(block: TextBlock, layout: Layout) -> dict[str, pa.Array] | None:
    """Return the columns to keep, or None if the rows are not plain; an empty field is null.

    Numeric columns with a cell that is not plain are returned as text; columns of unknown type as numbers if possible.

    >>> layout = Layout("train.csv", Dialect(","), ["n", "t", "u"], {"n": WHOLE, "t": TEXT}, {})
    >>> columns = split_block(TextBlock(b'7,"a,b",x\\n-2,,y\\n', 1, True), layout)
    >>> {name: cells.to_pylist() for name, cells in columns.items()}
    {'n': [7, -2], 't': ['a,b', None]}
    """
    if len(block.data) > MAX_BLOCK_BYTES:
        return None
    places = {name: place for place, name in enumerate(layout.names)}
    kinds = {places[name]: kind for name, kind in layout.types.items()}
    is_ascii = block.data.isascii()  # far quicker than decoding, and true of most files
    found: list[tuple[Piece, dict[int, pa.Array]]] = []
    for begin, stop in _piece_ends(block):
        piece = _split(block.data, begin, stop, layout.dialect, len(layout.names))
        if piece is None or not (is_ascii or _is_utf8(block.data[begin:stop])):
            return None
        found.append((piece, _columns(piece, kinds)))
    return {name: _join(column, found, kind) for (name, kind), column in zip(layout.types.items(), kinds)}


def _columns(piece: Piece, kinds: Mapping[int, pa.DataType]) -> dict[int, pa.Array]:
    """Return columns of their types; those of unknown type as integers, else numbers, else text."""
    found: dict[int, pa.Array] = {}
    for kind in (WHOLE, NUMBER):
        wanted = {column: kind for column, own in kinds.items() if column not in found and own in (kind, UNKNOWN)}
        numbers = zip(wanted, piece.numbers(wanted))
        found |= {column: array for column, array in numbers if array is not None}
    rest = [column for column in kinds if column not in found]
    return found | dict(zip(rest, piece.texts(rest)))


def _join(column: int, found: Sequence[tuple[Piece, dict[int, pa.Array]]], kind: pa.DataType) -> pa.Array:
    """Concatenate the parts of a column; it becomes text if any part is, or if it has no values."""
    parts = [columns[column] for _, columns in found]
    types = {part.type for part in parts}
    if len(types) > 1 and TEXT not in types:
        parts = [part.cast(NUMBER) for part in parts]
    elif len(types) > 1:
        parts = [part if part.type == TEXT else piece.texts([column])[0] for part, (piece, _) in zip(parts, found)]
    joined = pa.concat_arrays(parts)
    return joined.cast(TEXT) if kind == UNKNOWN and joined.null_count == len(joined) else joined


def _piece_ends(block: TextBlock) -> list[tuple[int, int]]:
    """Return the bounds of pieces of whole rows; a single piece if a cell may span lines."""
    ends = [0]
    while block.one_line and ends[-1] + PIECE_BYTES < len(block.data):
        ends.append(block.data.index(b"\n", ends[-1] + PIECE_BYTES - 1) + 1)
    return list(pairwise([*ends, len(block.data)]))


def _split(data: bytes, begin: int, stop: int, dialect: Dialect, n_columns: int) -> Piece | None:
    """Return the rows of data[begin:stop], or None if they are not plain."""
    text, size = np.frombuffer(data, np.uint8), stop - begin
    bounds = np.empty((n_columns + 1, count_feeds(text, begin, stop) + 1), np.int32)
    if stop + CHUNK > len(data):  # the last piece: kernels read past the end, so copy it with padding
        text, begin = np.frombuffer(data[begin:stop] + bytes(CHUNK), np.uint8), 0
    n_rows = split_rows(text, begin, begin + size, ord(dialect.delimiter), dialect.quoting, bounds)
    return None if n_rows == DECLINED else Piece(text, bounds, n_rows, dialect.quoting)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
