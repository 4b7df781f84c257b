"""Read a converted file block by block; every byte is verified by a checksum.

Blocks are copied into memory rather than mapped. If the file is replaced while open, the old content is still read; if
it is truncated or overwritten, that is an error.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa

from ...errors import DataError, DataFormatError, DataValueError, ModelFileError, RowError
from ...files.atomic import PathLike
from ...files.container import Header, Tensors, parse_container
from ...rows.arrow import KINDS
from ...rows.checked import Batch, CheckedRows, check_batch
from ...rows.classes import are_classes
from ...rows.expansion import is_compressed
from ...rows.fields import NO_FIELD, Fields
from .layout import END_OF_STREAM, FOOTER_BYTES, KEY, KIND, LENGTH_BYTES, MAGIC, VERSION, Blocks, Conversion

if TYPE_CHECKING:
    from ...encode.encoder import TableEncoder

REDO = "convert it again"  # the way out of every message below
COLUMNS = {
    "label": (pa.float32(),),
    "weight": (pa.float32(),),
    "ids": (pa.list_(pa.int32()), pa.list_(pa.int64())),
    "values": (pa.list_(pa.float32()),),
}


def _is_coverage(found: Any) -> bool:
    """Tell whether these are four counts per column."""
    rows = found.values() if isinstance(found, dict) else [None]
    return all(isinstance(row, list) and len(row) == 4 and all(type(n) is int and n >= 0 for n in row) for row in rows)


HEADER_CHECKS = {
    "task": lambda found: isinstance(found, str),
    "index_base": lambda found: type(found) is int and 0 <= found <= 1,
    "n_features": lambda found: type(found) is int and 0 <= found < 2**62,
    "source": lambda found: isinstance(found, dict),
    "options": lambda found: isinstance(found, dict),
    "encoder": lambda found: found is None or isinstance(found, dict),
}
OPTIONAL_CHECKS = {"classes": are_classes, "coverage": _is_coverage}
ENCODER_TENSORS = [("encoder.ends", "int64", 1), ("encoder.text", "uint8", 1)]
KEY_TENSORS = [("encoder.keys", "int64", 1)]  # of an encoder with conjunctions


class Damaged(Exception):
    """The file is damaged; the file name is added later."""


def is_arrow(path: PathLike) -> bool:
    """Tell whether a file begins like an Arrow IPC file."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


@dataclass(frozen=True)
class ArrowRows:
    """A converted file, as a source of blocks. It stays open; opening it reads only the description.

    given_fields: those of its ids, if the file has none.
    """

    path: PathLike
    in_memory: bool = False
    given_fields: Fields | None = None

    @cached_property
    def _file(self) -> _SharedFile:
        with self._naming():
            return _SharedFile(self.path)

    @cached_property
    def _described(self) -> _Description:
        with self._naming():
            return _Description(self._file)

    @property
    def conversion(self) -> Conversion:
        """Task, source and options of the conversion."""
        return self._described.conversion

    @property
    def n_blocks(self) -> int:
        return self._described.blocks.rows.size

    @property
    def n_features(self) -> int:
        """Number of features of the encoder; without one, the largest id plus one."""
        return self._described.n_features

    @cached_property
    def encoder(self) -> TableEncoder | None:
        """The encoder, if the rows come from a table."""
        with self._naming():
            return self._described.encoder()

    @cached_property
    def fields(self) -> Fields | None:
        """The columns of the encoder, or the fields that the ids had when they were converted."""
        with self._naming():
            own = self._described.fields() if self.encoder is None else self.encoder.fields()
        return self.given_fields if own is None else own

    def block(self, number: int) -> CheckedRows:
        """Read and check one block."""
        with self._naming():
            described = self._described
            rows = check_batch(described.read_block(self._file, number))
            if rows.labels is not None and described.conversion.task == "binary":
                _check_binary(rows.labels)
            return rows

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Add the file name to errors; errors of Arrow or the container mean that the file is damaged."""
        try:
            yield
        except Damaged as error:
            raise DataFormatError(str(error), path=os.fspath(self.path)) from None
        except DataError as error:
            kind = DataValueError if isinstance(error, RowError) else type(error)
            raise (error if error.path else kind(str(error), path=os.fspath(self.path))) from None
        except (pa.ArrowException, ModelFileError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # from the system; those of Arrow have no errno
            message = f"is damaged ({' '.join(str(error).split()):.200}); {REDO}"
            raise DataFormatError(message, path=os.fspath(self.path)) from None


class _SharedFile:
    """File that several threads read from."""

    def __init__(self, path: PathLike):
        self.file: BinaryIO = open(path, "rb", buffering=0)  # noqa: SIM115
        self.size = os.fstat(self.file.fileno()).st_size
        self.lock = threading.Lock()

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()

    def read(self, begin: int, end: int) -> np.ndarray:
        """Return the bytes from begin to end in a new array."""
        memory, done = np.empty(end - begin, np.uint8), 0
        with self.lock:
            self.file.seek(begin)
            while done < memory.size:
                n_bytes = self.file.readinto(memory[done:].data)  # type: ignore[attr-defined]
                if not n_bytes:
                    raise Damaged(f"ends early: it was truncated, or is still being written; {REDO}")
                done += n_bytes
        return memory


class _Description:
    """Checked description of a file; verifies head and footer too."""

    def __init__(self, file: _SharedFile):
        begin, footer = _description_place(file)
        self.header, self.tensors = parse_container(file.read(begin, footer - LENGTH_BYTES).data)
        _check_header(self.header)
        names = ("task", "index_base", "source", "options")
        optional: dict[str, Any] = {name: self.header.get(name) for name in OPTIONAL_CHECKS}
        self.conversion = Conversion(**{name: self.header[name] for name in names}, **optional)
        self.n_features = self.header["n_features"]
        self.blocks = _read_blocks(self.tensors, begin - len(END_OF_STREAM))
        ends, checksums = self.blocks.ends, self.blocks.checksums
        head, stop, rest = file.read(0, int(ends[0])), file.read(int(ends[-1]), begin), file.read(footer, file.size)
        if _checksum(head) != checksums[0] or _checksum(rest, _checksum(stop)) != checksums[-1]:
            raise Damaged(f"its head or footer changed after it was written; {REDO}")
        self.schema = pa.ipc.read_schema(pa.py_buffer(head[8:]))  # after ARROW1 and its padding
        _check_schema(self.schema)

    def encoder(self) -> TableEncoder | None:
        """Return the encoder."""
        if self.header["encoder"] is None:
            return None
        from ...encode.serialize import read_encoder

        texts = {name: tensor for name, tensor in self.tensors.items() if name.startswith("encoder.")}
        wanted = sorted(ENCODER_TENSORS + (KEY_TENSORS if "crosses" in self.header["encoder"] else []))
        if sorted((name, tensor.dtype.name, tensor.ndim) for name, tensor in texts.items()) != wanted:
            raise Damaged(f"its encoder is damaged; {REDO}")
        encoder = read_encoder(self.header["encoder"], texts)
        if encoder.n_features != self.n_features:
            raise Damaged(f"its encoder has {encoder.n_features} features, its rows {self.n_features}; {REDO}")
        return encoder

    def fields(self) -> Fields | None:
        """Return the fields of the ids."""
        names = self.header.get("fields")
        if names is None:
            return None
        starts, numbers = (self.tensors.get(f"fields.{name}", np.zeros(0)) for name in ("starts", "numbers"))
        fits = isinstance(names, list) and all(isinstance(name, str) for name in names)
        fits &= (starts.dtype.name, numbers.dtype.name) == ("int64", "int32") and starts.shape == numbers.shape
        if not fits or starts.ndim != 1 or (np.diff(starts) <= 0).any():
            raise Damaged(f"its fields are damaged; {REDO}")
        if ((numbers < NO_FIELD) | (numbers >= len(names))).any():
            raise Damaged(f"its fields are damaged; {REDO}")
        return Fields(tuple(names), starts, numbers)

    def read_block(self, file: _SharedFile, number: int) -> Batch:
        """Return the rows of a block, unchecked."""
        memory = file.read(*map(int, self.blocks.ends[number : number + 2]))
        if _checksum(memory) != self.blocks.checksums[number + 1]:
            raise Damaged(f"block {number} changed after it was written; {REDO}")
        message = pa.ipc.read_message(pa.py_buffer(memory))
        if is_compressed(message):
            raise Damaged(f"block {number} is compressed, which `rafm convert` never does; {REDO}")
        found = pa.ipc.read_record_batch(message, self.schema)
        if found.num_rows != self.blocks.rows[number]:
            raise Damaged(f"block {number} has {found.num_rows} rows, not {self.blocks.rows[number]}; {REDO}")
        columns = dict(zip(found.schema.names, found.columns))
        offsets, indices = _list_of(columns["ids"], memory)
        others, values = _list_of(columns["values"], memory)
        if not np.array_equal(offsets, others):
            raise Damaged(f"block {number} has different offsets for ids and values; {REDO}")
        labels, weights = (
            _numbers_of(columns[name], memory) if name in columns else None for name in ("label", "weight")
        )
        return Batch(offsets.astype(np.int64), indices, values, self.n_features, labels, weights)


def _checksum(memory: np.ndarray, before: int = 0) -> int:
    return zlib.crc32(memory.data, before)


def _description_place(file: _SharedFile) -> tuple[int, int]:
    """Return where the description begins, and where the footer after it begins."""
    end = file.size - FOOTER_BYTES
    if end < len(MAGIC) or file.read(0, len(MAGIC)).tobytes() != MAGIC:
        raise Damaged("not a complete Arrow file; convert it again")
    last = file.read(end, file.size).tobytes()
    footer = end - int.from_bytes(last[:4], "little")
    if last[4:] != MAGIC or not LENGTH_BYTES <= footer < end:
        raise Damaged("not a complete Arrow file; convert it again")
    length = int.from_bytes(file.read(footer - LENGTH_BYTES, footer).tobytes(), "little")
    begin = footer - LENGTH_BYTES - length
    # A container starts with the length of its header (8 bytes), which is JSON.
    if begin < 0 or file.read(begin + 8, begin + 9).tobytes() != b"{":
        raise _other_file(file)
    return begin, footer


def _other_file(file: _SharedFile) -> Damaged:
    """Return the error about an Arrow file without a description."""
    metadata = pa.ipc.open_file(pa.PythonFile(file.file, "r")).schema.metadata or {}
    if KEY not in metadata:
        return Damaged("an Arrow file, but not written by `rafm convert`")
    if metadata[KEY] != str(VERSION).encode():
        return Damaged(f"converted by an older version; {REDO}")
    return Damaged(f"its description is damaged; {REDO}")


def _check_header(header: Header) -> None:
    version = header.get("version")
    if header.get("kind") != KIND or type(version) is not int:
        raise Damaged(f"its description is not that of converted rows; {REDO}")
    if version != VERSION:
        older = version < VERSION
        raise Damaged(f"converted by {'an older' if older else 'a newer'} version; {REDO if older else 'update rafm'}")
    for name, is_right in HEADER_CHECKS.items():
        if name not in header or not is_right(header[name]):
            raise Damaged(f"invalid {name!r} in its description: {header.get(name)!r:.80}; {REDO}")
    for name, is_right in OPTIONAL_CHECKS.items():
        if name in header and not is_right(header[name]):
            raise Damaged(f"invalid {name!r} in its description: {header[name]!r:.80}; {REDO}")


def _read_blocks(tensors: Tensors, stop: int) -> Blocks:
    """Return the table of blocks; they must follow each other up to the end of the stream."""
    found = [tensors.get(name, np.zeros(0)) for name in ("ends", "rows", "checksums")]
    ends, rows, checksums = found
    fits = all(tensor.dtype == np.int64 and tensor.ndim == 1 for tensor in found)
    if not fits or not 0 < ends.size == rows.size + 1 == checksums.size - 1:
        raise Damaged(f"its table of blocks is damaged; {REDO}")
    if ends[0] <= len(MAGIC) or ends[-1] != stop or (ends[1:] <= ends[:-1]).any() or (rows <= 0).any():
        raise Damaged(f"its blocks are not contiguous; {REDO}")
    return Blocks(ends, rows, checksums)


def _check_schema(schema: pa.Schema) -> None:
    names = [name for name in COLUMNS if name in schema.names]
    if schema.names != names or not {"ids", "values"} <= set(names):
        raise Damaged(f"its columns {', '.join(schema.names)[:80]} are not those of `rafm convert`")
    for column in schema:
        if column.type not in COLUMNS[column.name]:
            raise Damaged(f"column {column.name!r} has type {column.type}; {REDO}")


def _numbers_of(cells: pa.Array, memory: np.ndarray) -> np.ndarray:
    """Return an array of numbers as a view of the memory it was read into."""
    _check_no_nulls(cells)
    return _view(cells.buffers()[1], KINDS[str(cells.type)], len(cells), memory)


def _list_of(cells: pa.ListArray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and items of lists as views of the memory they were read into."""
    _check_no_nulls(cells)
    return _view(cells.buffers()[1], np.dtype(np.int32), len(cells) + 1, memory), _numbers_of(cells.values, memory)


def _check_no_nulls(cells: pa.Array) -> None:
    if cells.offset or cells.buffers()[0] is not None:
        raise Damaged(f"has nulls; {REDO}")


def _view(buffer: pa.Buffer | None, kind: np.dtype, size: int, memory: np.ndarray) -> np.ndarray:
    if size == 0:
        return np.zeros(0, kind)
    # Arrow reads buffer positions from the file, so they may point anywhere: check before viewing.
    begin = -1 if buffer is None else buffer.address - memory.ctypes.data
    end = begin + size * kind.itemsize
    if not 0 <= begin <= end <= memory.size:
        raise Damaged(f"has arrays outside of its blocks; {REDO}")
    return memory[begin:end].view(kind)


def _check_binary(labels: np.ndarray) -> None:
    bad = (labels != 0) & (labels != 1)
    if bad.any():
        raise DataValueError(f"labels must be 0 and 1, found {labels[bad][0]:g}; {REDO}")
