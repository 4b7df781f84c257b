"""Converted rows: an Arrow IPC file whose list columns are CSR, mapped into memory as they are.

Columns: `label` and `weight` (float32, if there are any), `ids` (list of int32; of int64 if asked for) and `values`
(list of float32). The schema's metadata says what the file is, each record batch's how many features there are so far.
A record batch is a block of rows, as `cut_blocks` makes them; training visits blocks in random order, so a file larger
than memory trains as it is.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..errors import DataFormatError, FeatureRangeError
from ..files.atomic import PathLike, write_atomically
from ..rows.arrow import batch_of, record_batch_of
from ..rows.blocks import cut_parts, join_offsets
from ..rows.checked import Batch, CheckedRows, check_batch

if TYPE_CHECKING:
    from ..encode.encoder import TableEncoder

KEY, ENCODER_KEY = b"rafm", b"rafm.encoder"
VERSION = 1
MAGIC = b"ARROW1"
NO_ROWS = Batch(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32), 0, np.zeros(0, np.float32))


def write_arrow(
    path: PathLike,
    batches: Iterable[Batch],
    info: dict[str, Any] | None = None,
    wide_ids: bool = False,
    encoder: TableEncoder | None = None,
) -> int:
    """Write batches as they come, in one atomic step; return the number of bytes.

    info and the encoder go into the file's metadata. wide_ids gives ids 8 bytes instead of 4.
    """
    metadata = _metadata(info or {}, encoder)
    return write_atomically(path, _file_bytes(batches, metadata, np.int64 if wide_ids else np.int32))


def _metadata(info: dict[str, Any], encoder: TableEncoder | None) -> dict[bytes, bytes]:
    about: dict[str, Any] = {"version": VERSION, **info}
    if encoder is None:
        return {KEY: json.dumps(about, sort_keys=True).encode()}
    from safetensors.numpy import save

    from ..encode.serialize import encoder_parts

    about["encoder"], tensors = encoder_parts(encoder)
    stored = save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()})
    return {KEY: json.dumps(about, sort_keys=True).encode(), ENCODER_KEY: stored}


def _file_bytes(batches: Iterable[Batch], info: dict[bytes, bytes], id_type: type) -> Iterator[memoryview]:
    """Yield the bytes of an Arrow file as they come."""
    sink, writer, n_features = _Drain(), None, 0
    for parts in cut_parts(batches):
        n_features = max(n_features, *(int(part.indices.max(initial=-1)) + 1 for part in parts))
        _check_width(n_features, id_type)
        found = _stand_in(parts, id_type, sink)
        writer = writer or pa.ipc.new_file(sink, found.schema.with_metadata(info))
        writer.write_batch(found, custom_metadata={"n_features": str(n_features)})
        del parts, found  # before the next ones are made
        yield from sink.taken()
    (writer or pa.ipc.new_file(sink, record_batch_of(NO_ROWS, id_type).schema.with_metadata(info))).close()
    yield from sink.taken()


def _stand_in(parts: list[Batch], id_type: type, sink: _Drain) -> pa.RecordBatch:
    """Return a record batch of all parts, but for ids and values, which the sink takes from the parts as they are.

    In the batch, memory that is never touched stands for them: joining them would be a copy of almost all there is.
    """
    n_entries = sum(part.indices.size for part in parts)
    indices: np.ndarray = np.empty(n_entries, id_type)
    values = np.empty(n_entries, np.float32)
    sink.stand_ins = {
        indices.ctypes.data: [np.ascontiguousarray(part.indices, id_type) for part in parts],
        values.ctypes.data: [np.ascontiguousarray(part.values, np.float32) for part in parts],
    }
    labels, weights = (
        None if getattr(parts[0], name) is None else np.concatenate([getattr(part, name) for part in parts])
        for name in ("labels", "weights")
    )
    return record_batch_of(Batch(join_offsets(parts), indices, values, 0, labels, weights), id_type)


def _check_width(n_features: int, id_type: type) -> None:
    if n_features - 1 > np.iinfo(id_type).max:
        raise FeatureRangeError(f"feature id {n_features - 1} does not fit in 4 bytes. Convert with wide ids.")


class _Drain:
    """A file to write to whose content can be taken away."""

    closed = False

    def __init__(self) -> None:
        self.parts: deque[memoryview] = deque()
        self.stand_ins: dict[int, list[np.ndarray]] = {}  # by address: what is written instead
        self.position = 0

    def write(self, data: Any) -> int:
        parts = self.stand_ins.pop(data.address, [data]) if isinstance(data, pa.Buffer) else [data]
        self.parts += map(memoryview, parts)
        n_bytes = memoryview(data).nbytes
        self.position += n_bytes
        return n_bytes

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def taken(self) -> Iterator[memoryview]:
        while self.parts:
            yield self.parts.popleft()


def is_arrow(path: PathLike) -> bool:
    """Tell whether a file begins like an Arrow IPC file."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@dataclass(frozen=True)
class ArrowRows:
    """A converted file, mapped: opening it reads nothing but its index."""

    path: PathLike
    in_memory: bool = False

    @cached_property
    def _file(self) -> pa.ipc.RecordBatchFileReader:
        try:
            return pa.ipc.open_file(pa.memory_map(os.fspath(self.path)))
        except pa.ArrowInvalid as error:
            raise DataFormatError(f"not a complete Arrow file ({error})", path=os.fspath(self.path)) from None

    @cached_property
    def info(self) -> dict[str, Any]:
        """What the file says of itself."""
        text = (self._file.schema.metadata or {}).get(KEY)
        if text is None:
            raise DataFormatError("an Arrow file, but not one of `rafm convert`", path=os.fspath(self.path))
        about = json.loads(text)
        if about.get("version") != VERSION:
            raise DataFormatError(
                f"converted by another version ({about.get('version')}); convert it again", path=os.fspath(self.path)
            )
        return about

    @cached_property
    def encoder(self) -> TableEncoder | None:
        """The encoder of the table that the rows came from, if they did."""
        stored = (self._file.schema.metadata or {}).get(ENCODER_KEY)
        if stored is None:
            return None
        from safetensors.numpy import load

        from ..encode.serialize import read_encoder

        try:
            return read_encoder(self.info["encoder"], load(stored))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DataFormatError(f"its encoder is damaged ({error!r})", path=os.fspath(self.path)) from None

    @property
    def n_blocks(self) -> int:
        return int(self._file.num_record_batches)

    @cached_property
    def n_features(self) -> int:
        """How many features the encoder makes; without one, the largest id plus one."""
        if self.info and self.encoder is not None:
            return self.encoder.n_features
        if not self.n_blocks:
            return 0
        return int(self._file.get_batch_with_custom_metadata(self.n_blocks - 1).custom_metadata[b"n_features"])

    def block(self, number: int) -> CheckedRows:
        """Return one block."""
        return check_batch(batch_of(self._file.get_batch(number), self.n_features))
