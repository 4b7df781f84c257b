"""Write converted files, in bounded memory."""

from __future__ import annotations

import io
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ...errors import DataValueError, FeatureRangeError, ModelFileError
from ...files.atomic import Chunk, PathLike, write_atomically
from ...rows.arrow import record_batch_of
from ...rows.blocks import cut_parts, join_offsets
from ...rows.checked import Batch, CheckedRows
from ...rows.fields import Fields
from .layout import END_OF_STREAM, FOOTER_BYTES, KEY, LENGTH_BYTES, VERSION, Blocks, Conversion, description
from .reader import ArrowRows

if TYPE_CHECKING:
    from ...encode.encoder import TableEncoder

NO_ROWS = Batch(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32), 0, np.zeros(0, np.float32))
NO_BLOCKS = Blocks(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(2, np.int64))


def _no_fields() -> Fields | None:
    return None


def write_arrow(
    path: PathLike,
    batches: Iterable[CheckedRows],
    conversion: Conversion | None = None,
    wide_ids: bool = False,
    encoder: TableEncoder | None = None,
    fields: Callable[[], Fields | None] = _no_fields,
    found: Callable[[], dict[str, Any]] = dict,
) -> int:
    """Write rows atomically as they arrive; return the number of bytes.

    wide_ids: store ids in 8 bytes instead of 4. fields: returns the fields of the ids; found: returns entries of the
    conversion that are known only then; both are called after the last row. Before the file replaces an older one, it
    is read back and checked.
    """
    writer = _Writer(conversion or Conversion(), np.int64 if wide_ids else np.int32, encoder, fields, found)
    return write_atomically(path, writer.chunks(batches), check_blocks)


def check_blocks(path: PathLike) -> None:
    """Read and check all blocks of a converted file, as training does."""
    rows = ArrowRows(path)
    assert rows.encoder is None or rows.encoder.n_features == rows.n_features
    rows.fields  # noqa: B018, reads and checks them
    for number in range(rows.n_blocks):
        rows.block(number)


class _Writer:
    """Produces the bytes of one file."""

    def __init__(
        self,
        conversion: Conversion,
        id_type: type,
        encoder: TableEncoder | None,
        fields: Callable[[], Fields | None],
        found: Callable[[], dict[str, Any]],
    ):
        self.conversion, self.id_type, self.encoder, self.fields = conversion, id_type, encoder, fields
        self.found = found
        self.sink = _ChunkSink()
        self.n_features, self.head = 0 if encoder is None else encoder.n_features, b""
        self.rows: list[int] = []
        self.ends: list[int] = []
        self.checksums: list[int] = []
        self.checksum = self.position = 0
        self.describe(NO_BLOCKS)  # fails early if the encoder is too large for the description

    def describe(self, blocks: Blocks) -> list[Chunk]:
        what, fields = ("fields", self.fields()) if self.encoder is None else ("encoder", None)
        try:
            return description(self.conversion, self.encoder, self.n_features, blocks, fields)
        except ModelFileError as error:
            raise DataValueError(f"the {what} cannot be stored: {error}") from None

    def chunks(self, batches: Iterable[CheckedRows]) -> Iterator[Chunk]:
        """Yield the bytes of the file."""
        writer = None
        for parts in cut_parts(batches):
            self._count(parts)
            found = _placeholder_batch(parts, self.id_type, self.sink)
            writer = writer or self._open(found.schema)
            writer.write_batch(found)
            del parts, found  # frees them before the next block is built
            yield from self._segment()
        writer = writer or self._open(record_batch_of(NO_ROWS, self.id_type).schema)
        writer.close()
        self.conversion = replace(self.conversion, **self.found())
        yield from self._tail(b"".join(self.sink.taken()))

    def _count(self, parts: list[CheckedRows]) -> None:
        self.n_features = max(self.n_features, *(part.largest_id + 1 for part in parts))  # known only at the end
        if self.n_features - 1 > np.iinfo(self.id_type).max:
            raise FeatureRangeError(
                f"feature id {self.n_features - 1} does not fit in 4 bytes; convert with --wide-ids"
            )
        self.rows.append(sum(part.n_rows for part in parts))

    def _open(self, schema: pa.Schema) -> pa.ipc.RecordBatchFileWriter:
        schema = schema.with_metadata({KEY: str(VERSION)})
        # An empty file with this schema tells how long the head is, which Arrow does not say.
        empty = pa.BufferOutputStream()
        pa.ipc.new_file(empty, schema).close()
        whole = empty.getvalue().to_pybytes()
        self.head = whole[: _footer_place(whole) - len(END_OF_STREAM)]
        return pa.ipc.new_file(self.sink, schema)

    def _segment(self) -> Iterator[Chunk]:
        """Yield the bytes of a block, preceded by the head before the first one."""
        for chunk in self.sink.taken():
            self._add(chunk)
            if self.position == len(self.head) and not self.ends:
                self._end()
            yield chunk
        self._end()

    def _add(self, chunk: Chunk) -> None:
        self.checksum = zlib.crc32(chunk, self.checksum)
        self.position += memoryview(chunk).nbytes

    def _end(self) -> None:
        self.ends.append(self.position)
        self.checksums.append(self.checksum)
        self.checksum = 0

    def _tail(self, tail: bytes) -> Iterator[Chunk]:
        """Yield the rest of the file, which is all of it if there are no rows."""
        if not self.ends:
            self._add(self.head)
            self._end()
            yield self.head
            tail = tail[len(self.head) :]
        checksums = np.array([*self.checksums, zlib.crc32(tail)])
        ends, rows = np.array(self.ends, np.int64), np.array(self.rows, np.int64)
        stop, footer = tail[: len(END_OF_STREAM)], tail[len(END_OF_STREAM) :]
        assert stop == END_OF_STREAM
        described = self.describe(Blocks(ends, rows, checksums))
        n_bytes = sum(memoryview(chunk).nbytes for chunk in described)
        yield from [stop, *described, n_bytes.to_bytes(LENGTH_BYTES, "little"), footer]


def _footer_place(whole: bytes) -> int:
    """Return where Arrow's footer begins."""
    end = len(whole) - FOOTER_BYTES
    return end - int.from_bytes(whole[end : end + 4], "little")


def _placeholder_batch(parts: list[CheckedRows], id_type: type, sink: _ChunkSink) -> pa.RecordBatch:
    """Return a record batch of all parts with uninitialised ids and values, which the sink replaces by the real ones.

    Arrow needs one array per column; concatenating the parts would copy almost all of the data.
    """
    n_entries = sum(part.indices.size for part in parts)
    indices: np.ndarray = np.empty(n_entries, id_type)  # never touched, so it takes no physical memory
    values = np.empty(n_entries, np.float32)
    sink.placeholders = {
        indices.ctypes.data: [np.ascontiguousarray(part.indices, id_type) for part in parts],
        values.ctypes.data: [np.ascontiguousarray(part.values, np.float32) for part in parts],
    }
    labels, weights = (
        None if getattr(parts[0], name) is None else np.concatenate([getattr(part, name) for part in parts])
        for name in ("labels", "weights")
    )
    return record_batch_of(Batch(join_offsets(parts), indices, values, 0, labels, weights), id_type)


class _ChunkSink(io.RawIOBase):
    """File-like object that collects what is written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: deque[memoryview] = deque()
        self.placeholders: dict[int, list[np.ndarray]] = {}  # address -> arrays to write instead

    def write(self, data: Any) -> int:
        parts = self.placeholders.pop(data.address, [data]) if isinstance(data, pa.Buffer) else [data]
        self.parts += map(memoryview, parts)
        return memoryview(data).nbytes

    def writable(self) -> bool:
        return True

    def taken(self) -> Iterator[memoryview]:
        while self.parts:
            yield self.parts.popleft()
