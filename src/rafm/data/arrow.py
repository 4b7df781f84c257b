"""Converted rows: an Arrow IPC file whose list columns are CSR, mapped into memory as they are.

Columns: `label` and `weight` (float32, if there are any), `ids` (list of int32; of int64 if asked for) and `values`
(list of float32). The schema's metadata says what the file is, each record batch's how many features there are so far.
A record batch is a block of rows; training visits blocks in random order, so a file larger than memory trains as it is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..batch import Batch, take_rows
from ..errors import DataFormatError, FeatureRangeError
from ..files import PathLike, write_atomically

if TYPE_CHECKING:
    from .encoder import TableEncoder

KEY, ENCODER_KEY = b"rafm", b"rafm.encoder"
VERSION = 1
BLOCK_ROWS = 1 << 16
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

    from .parts import encoder_parts

    about["encoder"], tensors = encoder_parts(encoder)
    stored = save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()})
    return {KEY: json.dumps(about, sort_keys=True).encode(), ENCODER_KEY: stored}


def _file_bytes(batches: Iterable[Batch], info: dict[bytes, bytes], id_type: type) -> Iterator[bytes]:
    """Yield the bytes of an Arrow file, a record batch at a time."""
    sink, writer, n_features = _Drain(), None, 0
    for batch in batches:
        for block in _blocks_of(batch):
            n_features = max(n_features, int(block.indices.max(initial=-1)) + 1)
            _check_width(n_features, id_type)
            schema = _schema_of(block, info, id_type)
            writer = writer or pa.ipc.new_file(sink, schema)
            writer.write_batch(_record_batch(block, schema), custom_metadata={"n_features": str(n_features)})
            yield sink.taken()
    (writer or pa.ipc.new_file(sink, _schema_of(NO_ROWS, info, id_type))).close()
    yield sink.taken()


def _check_width(n_features: int, id_type: type) -> None:
    if n_features - 1 > np.iinfo(id_type).max:
        raise FeatureRangeError(f"feature id {n_features - 1} does not fit in 4 bytes. Convert with wide ids.")


class _Drain:
    """A file to write to whose content can be taken away."""

    closed = False

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.position = 0

    def write(self, data: Any) -> int:
        self.parts.append(bytes(data))
        self.position += len(self.parts[-1])
        return len(self.parts[-1])

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

    def taken(self) -> bytes:
        parts, self.parts = self.parts, []
        return b"".join(parts)


def _blocks_of(batch: Batch) -> Iterator[Batch]:
    """Cut a batch into blocks of at most BLOCK_ROWS rows."""
    for first in range(0, batch.n_rows, BLOCK_ROWS):
        yield take_rows(batch, first, min(first + BLOCK_ROWS, batch.n_rows))


def _schema_of(block: Batch, info: dict[bytes, bytes], id_type: type) -> pa.Schema:
    ids = pa.from_numpy_dtype(id_type)
    fields = [] if block.labels is None else [pa.field("label", pa.float32())]
    fields += [] if block.weights is None else [pa.field("weight", pa.float32())]
    fields += [pa.field("ids", pa.list_(ids)), pa.field("values", pa.list_(pa.float32()))]
    return pa.schema(fields, metadata=info)


def _record_batch(block: Batch, schema: pa.Schema) -> pa.RecordBatch:
    offsets = pa.array(block.indptr.astype(np.int32))
    columns = {
        "label": block.labels,
        "weight": block.weights,
        "ids": pa.ListArray.from_arrays(offsets, pa.array(block.indices.astype(_id_type(schema), copy=False))),
        "values": pa.ListArray.from_arrays(offsets, pa.array(block.values.astype(np.float32, copy=False))),
    }
    return pa.record_batch([pa.array(columns[name]) for name in schema.names], schema=schema)


def _id_type(schema: pa.Schema) -> Any:
    return schema.field("ids").type.value_type.to_pandas_dtype()


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

        from .parts import read_encoder

        try:
            return read_encoder(self.info["encoder"], load(stored))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise DataFormatError(f"its encoder is damaged ({error!r})", path=os.fspath(self.path)) from None

    @property
    def n_blocks(self) -> int:
        return int(self._file.num_record_batches)

    @cached_property
    def n_features(self) -> int:
        """The largest id plus one."""
        if not self.n_blocks or not self.info:
            return 0
        return int(self._file.get_batch_with_custom_metadata(self.n_blocks - 1).custom_metadata[b"n_features"])

    def block(self, number: int) -> Batch:
        """Return one block as views of the mapped file."""
        found = self._file.get_batch(number)
        columns = dict(zip(found.schema.names, found.columns))
        ids, values = columns["ids"], columns["values"]
        offsets = ids.offsets.to_numpy().astype(np.int64)
        first, stop = int(offsets[0]), int(offsets[-1])
        indices = ids.values.to_numpy(zero_copy_only=True)[first:stop]
        numbers = values.values.to_numpy(zero_copy_only=True)[first:stop]
        labels = columns["label"].to_numpy() if "label" in columns else None
        weights = columns["weight"].to_numpy() if "weight" in columns else None
        return Batch(offsets - first, indices, numbers, self.n_features, labels, weights)
