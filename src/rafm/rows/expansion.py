"""How many bytes Arrow data need once every cell has bytes of its own, and how many they may need.

Dictionaries, views, runs and offsets let many cells share the same bytes: 4 MB can stand for 40 GB. Whatever reads data
that others have written asks here before it expands them. The rule: they may need FREE_BYTES, or MAX_EXPANSION times
the bytes that were received, whichever is more. The size is that of plain columns, in which a cell takes at least
CELL_BYTES, and a text CELL_BYTES more than its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import unpack_from
from typing import TYPE_CHECKING

import numpy as np

from ..errors import ResourceLimitError

if TYPE_CHECKING:
    import pyarrow as pa

FREE_BYTES = 1 << 26
MAX_EXPANSION = 16
CELL_BYTES = 8
MOST_CELLS, LARGEST_CELL = 1 << 30, 1 << 32  # counted sizes stop here, so that sums of them fit in 64 bits
OFFSETS = {"string": np.int32, "binary": np.int32, "large_string": np.int64, "large_binary": np.int64}
HEADER_TYPE, HEADER = 1, 2  # fields of a message in Arrow's flatbuffers
RECORD_BATCH, DICTIONARY_BATCH = 3, 2  # kinds of headers
COMPRESSION, DICTIONARY_DATA = 3, 1  # fields of these two
Before = Callable[[np.ndarray], np.ndarray]  # from numbers of cells to the bytes that so many first cells need


def allowed_bytes(received: int) -> int:
    """Return how many bytes data may need if so many were received."""
    return max(FREE_BYTES, MAX_EXPANSION * received)


def expanded_bytes(batch: pa.RecordBatch) -> int:
    """Return how many bytes a batch needs: its cells or, if they are more, the values that its cells refer to.

    >>> import pyarrow as pa
    >>> few = pa.array(["tea" * 100, "jam"])
    >>> expanded_bytes(pa.record_batch({"food": pa.DictionaryArray.from_arrays([0] * 50, few)}))
    15400
    """
    return sum(_with_parts(cells) for cells in batch.columns)


def in_pieces(batch: pa.RecordBatch, n_bytes: int, first_row: int = 0) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a batch in slices that need at most n_bytes each, or are a single row.

    first_row: its number in messages.

    >>> import pyarrow as pa
    >>> batch = pa.record_batch({"food": pa.array(["tea", "jam"] * 4).dictionary_encode()})
    >>> [piece.num_rows for piece in in_pieces(batch, 40)]
    [3, 3, 2]
    """
    at, places = 0, np.arange(batch.num_rows + 1)
    before = sum((_before(cells)(places) for cells in batch.columns), np.zeros(places.size, np.int64))
    while at < batch.num_rows:
        end = max(int(np.searchsorted(before, before[at] + n_bytes, "right")) - 1, at + 1)
        if end == at + 1 and before[end] - before[at] > FREE_BYTES:
            _refuse_row(batch.slice(at, 1), first_row + at)
        yield batch.slice(at, end - at)
        at = end


def _refuse_row(batch: pa.RecordBatch, row: int) -> None:
    sizes = {name: int(_before(batch[name])(np.array([1]))[0]) for name in batch.schema.names}
    name = max(sizes, key=lambda name: sizes[name])
    raise ResourceLimitError(
        f"column {name!r}, row {row + 1}: the row needs {sum(sizes.values())} bytes, at most {FREE_BYTES} are allowed; "
        "shorten the value, or leave the column out"
    )


def _with_parts(cells: pa.Array) -> int:
    """Return the bytes of all cells or, if it is more, of an array below them, which validation reads as a whole."""
    return max(int(_before(cells)(np.array([len(cells)]))[0]), *map(_with_parts, _parts(cells)), 0)


def _parts(cells: pa.Array) -> list[pa.Array]:
    """Return the arrays that an array refers to."""
    import pyarrow as pa

    kinds, kind = pa.types, cells.type
    if isinstance(cells, pa.ExtensionArray):
        return [cells.storage]
    if kinds.is_dictionary(kind):
        return [cells.dictionary]
    if kinds.is_struct(kind) or kinds.is_union(kind):
        return [cells.field(number) for number in range(kind.num_fields)]
    return [cells.values] if kinds.is_nested(kind) else []


def _before(cells: pa.Array) -> Before:
    """Return a function that tells how many bytes the first n cells need; it computes only what it is asked for."""
    import pyarrow as pa

    kinds, kind, n = pa.types, cells.type, len(cells)
    if n > MOST_CELLS:
        raise ResourceLimitError(f"a column has {n} values, at most {MOST_CELLS} are allowed at a time")
    if isinstance(cells, pa.ExtensionArray):
        return _before(cells.storage)
    fixed = kinds.is_primitive, kinds.is_decimal, kinds.is_fixed_size_binary, kinds.is_null
    if not n or any(is_one(kind) for is_one in fixed):
        width = 0 if not n or kinds.is_null(kind) else kind.bit_width // 8
        return lambda places: places * np.int64(max(CELL_BYTES, min(width, LARGEST_CELL)))
    if kinds.is_fixed_size_list(kind):
        inner, width, first = _before(cells.values), kind.list_size, cells.offset * kind.list_size
        return lambda places: inner(first + places * width) - inner(np.array(first)) + places * CELL_BYTES
    if kinds.is_struct(kind) or (kinds.is_union(kind) and kind.mode == "sparse"):
        fields = [_before(part) for part in _parts(cells)]
        return lambda places: sum((field(places) for field in fields), places * CELL_BYTES)
    if kinds.is_run_end_encoded(kind):
        return _before_in_runs(cells)
    if (offset := OFFSETS.get(str(kind))) is not None:
        ends = np.frombuffer(cells.buffers()[1], offset)[cells.offset : cells.offset + n + 1]
        return lambda places: ends[places].astype(np.int64) - ends[0] + places * CELL_BYTES
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.clip(_sizes(cells), 0, LARGEST_CELL))])
    return lambda places: sums[places] + places * CELL_BYTES


def _before_in_runs(cells: pa.Array) -> Before:
    inner, ends, first = _before(cells.values), _numbers(cells.run_ends), cells.offset
    sizes = np.minimum(np.diff(inner(np.arange(ends.size + 1))), LARGEST_CELL)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes * (ends - starts))])

    def total(places: np.ndarray) -> np.ndarray:
        runs = np.searchsorted(ends, places).clip(0, ends.size - 1)
        found: np.ndarray = sums[runs] + (places - starts[runs]) * sizes[runs]
        return found

    return lambda places: total(first + places) - total(np.array(first))


def _sizes(cells: pa.Array) -> np.ndarray:
    """Return how many bytes each cell refers to."""
    import pyarrow as pa

    kinds, kind = pa.types, cells.type
    if kinds.is_union(kind):
        return _sizes_in_union(cells)
    is_there = np.asarray(cells.is_valid().to_numpy(zero_copy_only=False)) if cells.null_count else True
    if kinds.is_dictionary(kind):
        codes = np.where(is_there, _numbers(cells.indices.fill_null(0)), 0)
        inner = _before(cells.dictionary)
        sizes = inner(codes + 1) - inner(codes) - CELL_BYTES
    elif kinds.is_string_view(kind) or kinds.is_binary_view(kind):
        views = np.frombuffer(cells.buffers()[1], np.int32).reshape(-1, 4)  # the length comes first
        sizes = views[cells.offset : cells.offset + len(cells), 0].astype(np.int64)
    else:  # lists, maps and lists of views
        inner, starts = _before(cells.values), _numbers(cells.offsets)
        is_view = kinds.is_list_view(kind) or kinds.is_large_list_view(kind)
        ends = starts + _numbers(cells.sizes) if is_view else starts[1:]
        starts = starts if is_view else starts[:-1]
        sizes = inner(np.where(is_there, ends, 0)) - inner(np.where(is_there, starts, 0))
    return np.where(is_there, sizes, 0)


def _sizes_in_union(cells: pa.Array) -> np.ndarray:
    own_codes, own_places = cells.buffers()[1:3]  # `type_codes` of a slice are those of the first rows
    rows = slice(cells.offset, cells.offset + len(cells))
    codes, places = np.frombuffer(own_codes, np.int8)[rows], np.frombuffer(own_places, np.int32)[rows].astype(np.int64)
    sizes = np.zeros(len(cells), np.int64)
    for code, part in zip(cells.type.type_codes, _parts(cells)):
        own = places[codes == code]
        inner = _before(part)
        sizes[codes == code] = inner(own + 1) - inner(own) - CELL_BYTES
    return sizes


def _numbers(cells: pa.Array) -> np.ndarray:
    return cells.to_numpy(zero_copy_only=False).astype(np.int64)


def is_compressed(message: pa.ipc.Message) -> bool:
    """Return whether the buffers of a message are compressed: Arrow would expand them to any size that they claim."""
    found = message.metadata.to_pybytes()
    kind, header = _field(found, _table(found, 0), HEADER_TYPE), _field(found, _table(found, 0), HEADER)
    if not kind or not header or found[kind] not in (RECORD_BATCH, DICTIONARY_BATCH):
        return False
    batch = _table(found, header)
    if found[kind] == DICTIONARY_BATCH:
        batch = _table(found, _field(found, batch, DICTIONARY_DATA))
    return _field(found, batch, COMPRESSION) > 0


def _table(data: bytes, at: int) -> int:
    """Return the place of the flatbuffer table that is referred to at a place."""
    return at + int(unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field of a table, 0 if it is not there."""
    names = table - int(unpack_from("<i", data, table)[0])
    size = int(unpack_from("<H", data, names)[0])
    place = 4 + 2 * number
    offset = int(unpack_from("<H", data, names + place)[0]) if place < size else 0
    return table + offset if offset else 0
