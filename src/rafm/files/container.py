"""Named arrays and a JSON header in one file that notices every change: what lies under a `.rafm` file.

It is a safetensors file: the length of a JSON text in 8 bytes (little-endian), the JSON text, the data.

    {"__metadata__":{"format":"rafm","format_version":"1","header":"...","sha256":"..."},
     "factors":{"dtype":"F32","shape":[5,2],"data_offsets":[0,40]}, ...}

* The text is what `json.dumps(..., separators=(",", ":"))` gives, keys in the order shown, then spaces up to
  a multiple of 8 bytes. `header` is again such a text, with sorted keys. All of it is ASCII.
* Tensors are F64, I64, F32, I32 or U8, little-endian, in C order. They lie in the order of the index, without
  holes or overlap, each at a multiple of its item size; rafm writes wide items first, then by name.
* Names are words of A-Z, a-z, 0-9 and _, joined by single dots. Floats are finite.
* `sha256` is the SHA-256 of the whole file, taken with 64 zeros in the place of its own 64 digits:

>>> import hashlib, re, tempfile
>>> from pathlib import Path
>>> def is_unchanged(raw):
...     digest = re.search(rb'"sha256":"([0-9a-f]{64})"', raw)[1]
...     return hashlib.sha256(raw.replace(digest, b"0" * 64, 1)).hexdigest().encode() == digest
>>> with tempfile.TemporaryDirectory() as folder:
...     n_bytes = write_container(f"{folder}/m.rafm", {"weights": np.ones(3)}, {"task": "binary"})
...     raw = Path(folder, "m.rafm").read_bytes()
>>> is_unchanged(raw), is_unchanged(raw[:-1] + b"!")
(True, False)

The digest tells damage, not malice: whoever changes a file on purpose can write a new one. So every field is
checked as if it came from a stranger, before anything of its size is allocated, and nothing is ever executed.
Every version begins like version 1, up to its number. What version 1 cannot express gets a new number, which
is the major version of the first rafm that writes it; the readers of older versions stay in `_READERS`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..errors import ModelFileError, ModelFormatError, ModelIntegrityError, ModelVersionError
from .atomic import Chunk, PathLike, write_atomically

MAX_HEADER_BYTES = 16 * 2**20
MAX_TENSORS = 4096
MAX_DIMENSIONS = 8
MAX_ITEMS = 2**56

Header = dict[str, Any]
Tensors = dict[str, np.ndarray]

_MAGIC = b'{"__metadata__":{"format":"rafm","format_version":"'
_NO_DIGEST = "0" * 64
_MAX_QUOTES = 18 + 10 * MAX_TENSORS  # those of the metadata, and of each entry
_VERSION = re.compile(rb'([1-9][0-9]{0,8})"')
_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
_DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_OTHER_FILES = {
    rb"\x80[\x02-\x05]": "looks like a pickle, which rafm never opens because it can run code",
    rb"PK": "looks like a zip archive",
    rb"\x1f\x8b": "looks like a gzip file",
    rb"\x93NUMPY": "looks like a NumPy array",
    rb"PAR1": "looks like a Parquet file",
    rb"ARROW1": "looks like an Arrow file",
    rb"(?s).{8}\{": "looks like a safetensors file of another program",
    rb"[\t\n\r -~]+\Z": "looks like text",
    rb"\Z": "is empty",
}


class Place(NamedTuple):
    """Where a tensor lies in the data, and how to read it."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


# Writing


def write_container(path: PathLike, tensors: Tensors, header: Header) -> int:
    """Write arrays and header to `path`, or leave it as it was; return the bytes written.

    The same arrays and header give the same bytes. Arrays may lie in memory in any way; `header` may hold
    what JSON gives back unchanged: dicts with text keys, lists, text, finite numbers, booleans, None.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     n_bytes = write_container(f"{folder}/m.rafm", {"weights": np.float32([1, 2])}, {"task": "binary"})
    ...     read_container(f"{folder}/m.rafm")
    ({'task': 'binary'}, {'weights': array([1., 2.], dtype=float32)})
    """
    with _messages_starting_with(path):
        chunks = container_chunks(tensors, header)
    return write_atomically(path, chunks)


def container_chunks(tensors: Tensors, header: Header) -> list[Chunk]:
    """Return the bytes of a container in pieces, for a file that holds more than it.

    >>> data = b"".join(container_chunks({"weights": np.float32([1, 2])}, {"task": "binary"}))
    >>> parse_container(data)
    ({'task': 'binary'}, {'weights': array([1., 2.], dtype=float32)})
    """
    arrays = _in_file_order(tensors)
    _check_finite(arrays)
    text = _header_text(header)
    index = _index_of(arrays)
    _check_index(index)
    _check_head_size(len(_encode(text, _NO_DIGEST, index)))
    views = [array.reshape(-1).view(np.uint8).data for array in arrays.values()]
    head = _encode(text, _digest(_encode(text, _NO_DIGEST, index), views), index)
    return [_length(head), head, *views]


def fits_header(tensors: Tensors, header: Header) -> bool:
    """Tell whether what stands in front of the data would be within MAX_HEADER_BYTES."""
    return len(_encode(_header_text(header), _NO_DIGEST, _index_of(_in_file_order(tensors)))) <= MAX_HEADER_BYTES


def _in_file_order(tensors: Tensors) -> Tensors:
    """Return the arrays as they lie in the file, wide items first, so that all of them are aligned."""
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    return {name: _in_file_layout(tensors[name]) for name in names}


def _in_file_layout(array: np.ndarray) -> np.ndarray:
    """Return a little-endian array in C order, a copy only if needed; ascontiguousarray would lose 0-d."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _header_text(header: Header) -> str:
    """Return canonical JSON that reads back as the same header."""
    try:
        text = _canonical(header)
        survives = json.loads(text) == header
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFormatError(f"the header cannot be written as JSON: {error}") from error
    if not survives:
        raise ModelFormatError("the header changes when written as JSON. Use lists, not tuples, and text as keys.")
    return text


def _canonical(header: Header) -> str:
    """Return the only JSON text that this format accepts for `header`; NaN and infinity raise ValueError."""
    return json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _index_of(arrays: Tensors) -> dict[str, Any]:
    """Return the entry of each tensor, laid out one after the other."""
    index, begin = {}, 0
    for name, array in arrays.items():
        dtype = _DTYPE_NAMES.get(array.dtype, str(array.dtype))
        end = begin + array.nbytes
        index[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    return index


def _encode(text: str, digest: str, index: dict[str, Any]) -> bytes:
    """Return the JSON in front of the data, padded so that the data begin at a multiple of 8."""
    metadata = {"format": "rafm", "format_version": "1", "header": text, "sha256": digest}
    head = json.dumps({"__metadata__": metadata, **index}, separators=(",", ":")).encode()
    return head + b" " * (-len(head) % 8)


def _length(head: bytes) -> bytes:
    return len(head).to_bytes(8, "little")


def _digest(head: bytes, data: Iterable[memoryview]) -> str:
    """Return the SHA-256 of a file whose `head` holds zeros for the digest."""
    sha = hashlib.sha256(_length(head) + head)
    for view in data:
        sha.update(view)
    return sha.hexdigest()


# Reading


def read_container(path: PathLike) -> tuple[Header, Tensors]:
    """Return header and arrays of the file at `path`, after checking all of it.

    The arrays are writable views of one buffer, which is read once and shared with nobody else. A file that
    rafm did not write, that ends early or whose parts do not fit raises ModelFormatError; one of a newer
    format ModelVersionError; one that changed or holds NaN ModelIntegrityError; an unreadable one OSError.
    """
    with _messages_starting_with(path):
        _check_regular(path)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            head = _read_head(file, size)
            return _reader(head)(head, file, size)


def parse_container(data: Chunk) -> tuple[Header, Tensors]:
    """Return header and arrays of a container that lies in memory, after checking all of it."""
    file = BytesIO(data)
    size = file.getbuffer().nbytes
    head = _read_head(file, size)
    return _reader(head)(head, file, size)


def is_container(path: PathLike) -> bool:
    """Tell whether a file begins like ours; nothing else of it is checked."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(8 + len(_MAGIC))[8:] == _MAGIC


def _check_regular(path: PathLike) -> None:
    """Refuse folders, and also pipes and devices: opening them may wait for ever."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or device"
        raise ModelFormatError(f"is {kind}, but a model is one regular file.")


def _read_head(file: BinaryIO, size: int) -> bytes:
    """Return the JSON in front of the data, if it begins like ours and its length is plausible."""
    start = file.read(8 + len(_MAGIC))
    if not start[8:] or not _MAGIC.startswith(start[8:]):
        raise ModelFormatError(f"is not a rafm model: it {_looks(start)}. `rafm train --out` writes models.")
    n_bytes = int.from_bytes(start[:8], "little")
    _check_head_size(n_bytes)
    _check_complete(8 + n_bytes, size)
    file.seek(8)
    return file.read(n_bytes)


def _looks(start: bytes) -> str:
    """Say what a file that does not begin like a model might be."""
    looks = (look for pattern, look in _OTHER_FILES.items() if re.match(pattern, start))
    return next(looks, f"begins with the bytes {start[:8].hex(' ')}")


def _check_head_size(n_bytes: int) -> None:
    if n_bytes > MAX_HEADER_BYTES:
        raise ModelFormatError(
            f"its JSON header has {n_bytes} bytes, allowed are {MAX_HEADER_BYTES}. Large content belongs in tensors."
        )


def _check_complete(expected: int, size: int) -> None:
    if size < expected:
        raise ModelFormatError(f"ends early: {size} bytes, expected at least {expected}. Copy or save it again.")


def _reader(head: bytes) -> Callable[[bytes, BinaryIO, int], tuple[Header, Tensors]]:
    """Choose by the format version, the one thing that all versions have in the same place."""
    found = _VERSION.match(head, len(_MAGIC))
    if found is None:
        raise ModelFormatError("has no format version where every rafm model has one.")
    version = int(found[1])
    if version not in _READERS:
        raise ModelVersionError(
            f"has format version {version}, this rafm reads up to {max(_READERS)}: "
            f"needs rafm >= {version}.0. Upgrade rafm."
        )
    return _READERS[version]


def _read_version_1(head: bytes, file: BinaryIO, size: int) -> tuple[Header, Tensors]:
    """Check the structure, read the data, check digest, spelling and values."""
    text, digest, index = _decode(head)
    places = _check_index(index)
    n_bytes = max((place.end for place in places.values()), default=0)
    _check_size(8 + len(head) + n_bytes, size)
    data = _read_data(file, n_bytes)
    _check_digest(digest, _digest(_without_digest(head, digest), [data.data]))
    _check_spelling(head, _encode(text, digest, index))
    tensors = {name: _view(data, place) for name, place in places.items()}
    _check_finite(tensors)
    return _parse_header(text), tensors


_READERS = {1: _read_version_1}


def _decode(head: bytes) -> tuple[str, str, dict[str, Any]]:
    """Return header text, digest and index, whose entries are not checked yet."""
    _check_quotes(head)
    try:
        index = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise ModelIntegrityError(f"its JSON header is damaged ({error}). Copy or save it again.") from error
    metadata = index.pop("__metadata__")
    _check_metadata(metadata)
    return metadata["header"], metadata["sha256"], index


def _check_quotes(head: bytes) -> None:
    """Refuse more entries than allowed before parsing them; quotes inside of texts follow a backslash."""
    if head.count(b'"') - head.count(b'\\"') > _MAX_QUOTES:
        raise ModelFormatError(f"lists more than {MAX_TENSORS} tensors.")


def _check_metadata(metadata: Any) -> None:
    keys = {"format", "format_version", "header", "sha256"}
    is_complete = isinstance(metadata, dict) and set(metadata) == keys
    if not is_complete or not all(isinstance(text, str) for text in metadata.values()):
        raise ModelFormatError("its metadata must be the texts format, format_version, header and sha256.")


def _check_index(index: dict[str, Any]) -> dict[str, Place]:
    """Return the place of each tensor, if they follow each other without holes or overlap."""
    if len(index) > MAX_TENSORS:
        raise ModelFormatError(f"lists {len(index)} tensors, allowed are {MAX_TENSORS}.")
    places, position = {}, 0
    for name, entry in index.items():
        _check_name(name)
        places[name] = _place(name, entry, position)
        position = places[name].end
    return places


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name == "__metadata__":
        raise ModelFormatError(f"has a tensor {name!r:.80}; names are letters, digits and _, joined by dots.")


def _place(name: str, entry: Any, begin: int) -> Place:
    """Return the place that an entry describes, if that is at `begin`."""
    if not isinstance(entry, dict) or list(entry) != ["dtype", "shape", "data_offsets"]:
        raise ModelFormatError(f"tensor {name} must have dtype, shape and data_offsets, in this order.")
    dtype = _dtype(name, entry["dtype"])
    shape = _naturals(name, entry["shape"])
    _check_addressable(name, shape)
    end = begin + math.prod(shape) * dtype.itemsize
    _check_offsets(name, _naturals(name, entry["data_offsets"]), (begin, end), dtype.itemsize)
    return Place(dtype, shape, begin, end)


def _dtype(name: str, dtype: Any) -> np.dtype:
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ModelFormatError(f"tensor {name} has dtype {dtype!r:.80}, allowed are {', '.join(_DTYPES)}.")
    return _DTYPES[dtype]


def _naturals(name: str, numbers: Any) -> tuple[int, ...]:
    """Return a short list of whole numbers as a tuple; True and 1.0 are none."""
    is_short = isinstance(numbers, list) and len(numbers) <= MAX_DIMENSIONS
    if not is_short or any(type(number) is not int or number < 0 for number in numbers):
        raise ModelFormatError(f"tensor {name}: {numbers!r:.80} must be up to {MAX_DIMENSIONS} whole numbers >= 0.")
    return tuple(numbers)


def _check_addressable(name: str, shape: tuple[int, ...]) -> None:
    """Refuse shapes that numpy cannot index, even if a zero among them makes the tensor empty."""
    if math.prod(max(n, 1) for n in shape) > MAX_ITEMS:
        raise ModelFormatError(f"tensor {name} has shape {shape!r:.80}, allowed are {MAX_ITEMS} items.")


def _check_offsets(name: str, found: tuple[int, ...], expected: tuple[int, int], alignment: int) -> None:
    if found != expected or expected[0] % alignment:
        raise ModelFormatError(
            f"tensor {name} has data_offsets {found!r:.80}, but its shape and the tensors before it ask for "
            f"{expected}, beginning at a multiple of {alignment}."
        )


def _check_size(expected: int, size: int) -> None:
    _check_complete(expected, size)
    if size > expected:
        raise ModelFormatError(f"has {size - expected} bytes after the last tensor. Copy or save it again.")


def _read_data(file: BinaryIO, n_bytes: int) -> np.ndarray:
    """Read what lies behind the head into one writable buffer."""
    data = np.empty(n_bytes, np.uint8)
    file.readinto(data.data)  # type: ignore[attr-defined]
    return data


def _without_digest(head: bytes, digest: str) -> bytes:
    """Return the head with zeros for the digest, which no text in front of it can contain."""
    return head.replace(digest.encode(errors="replace"), _NO_DIGEST.encode(), 1)


def _check_digest(recorded: str, found: str) -> None:
    if recorded != found:
        raise ModelIntegrityError(
            f"its content changed after it was written: SHA-256 begins with {found[:8]!r}, "
            f"recorded is {recorded[:8]!r}. Copy or save it again."
        )


def _check_spelling(head: bytes, expected: bytes) -> None:
    """Refuse JSON that different readers could understand differently."""
    if head != expected:
        raise ModelFormatError("its JSON has duplicate keys, or is not spelled and ordered as rafm does it.")


def _view(data: np.ndarray, place: Place) -> np.ndarray:
    return data[place.begin : place.end].view(place.dtype).reshape(place.shape)


def _check_finite(tensors: Tensors) -> None:
    for name, array in tensors.items():
        if array.dtype.kind == "f" and not _is_finite(array):
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ModelIntegrityError(
                f"tensor {name} is {array[place]} at {place}; the numbers of a model must be finite."
            )


def _is_finite(array: np.ndarray) -> bool:
    """Tell whether all numbers are finite without a copy: minimum and maximum pass NaN on."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))


def _parse_header(text: str) -> Header:
    """Return the header if its text is canonical, which excludes duplicate keys, NaN and infinity."""
    try:
        header = json.loads(text)
        is_canonical = isinstance(header, dict) and _canonical(header) == text
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"the text of its header is not JSON ({error}).") from error
    if not is_canonical:
        raise ModelFormatError("its header must be a JSON object with sorted keys, each once, and finite numbers.")
    return header


@contextmanager
def _messages_starting_with(path: PathLike) -> Iterator[None]:
    """Put the name of the file in front of what is wrong with it."""
    try:
        yield
    except ModelFileError as error:
        error.args = (f"{os.path.basename(path) or os.fspath(path)}: {error}",)
        raise
