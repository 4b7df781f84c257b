"""Container format of `.rafm` files: named arrays and a JSON header, protected by a checksum.

It is a safetensors file: the length of a JSON text in 8 bytes (little-endian), the JSON text, the data.

    {"__metadata__":{"format":"rafm","format_version":"1","header":"...","sha256":"..."},
     "factors":{"dtype":"F32","shape":[5,2],"data_offsets":[0,40]}, ...}

* The text is the output of `json.dumps(..., separators=(",", ":"))`, keys in the order shown, padded with spaces to
  a multiple of 8 bytes. `header` is a nested JSON text of the same kind, with sorted keys. All of it is ASCII.
* Tensors are F64, I64, F32, I32 or U8, little-endian, in C order. They follow each other in the order of the index,
  without gaps or overlap, each at a multiple of its item size; rafm writes wide items first, then by name.
* Names are words of A-Z, a-z, 0-9 and _, joined by single dots. Floats are finite.
* `sha256` is the SHA-256 of the whole file, computed with 64 zeros in place of its own 64 digits:

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

The digest detects damage, not tampering: an attacker can write a new one. So all fields are treated as untrusted and
checked before anything of their size is allocated, and nothing is ever executed. Every version begins like version 1,
up to its number. A file that version 1 cannot express has a higher one, so that older readers refuse it by name;
version 2 is for models with a network, and laid out like version 1. Version n is of rafm 0.n.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO

import numpy as np

from ..errors import ModelFileError, ModelFormatError, ModelIntegrityError, ModelVersionError
from .atomic import Chunk, PathLike, write_atomically
from .other_files import describe_start
from .tensor_index import DTYPES, MAX_TENSORS, Place, check_index

MAX_HEADER_BYTES = 16 * 2**20

Header = dict[str, Any]
Tensors = dict[str, np.ndarray]

VERSIONS = 2  # of the format, that this rafm reads
_MAGIC = b'{"__metadata__":{"format":"rafm","format_version":"'
_NO_DIGEST = "0" * 64
_MAX_QUOTES = 18 + 10 * MAX_TENSORS  # quotes of the metadata, and of each entry
_VERSION = re.compile(rb'([1-9][0-9]{0,8})"')
_DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}


# Writing


def write_container(
    path: PathLike, tensors: Tensors, header: Header, version: int = 1, check: Callable[[str], Any] | None = None
) -> int:
    """Write arrays and header to `path` atomically; return the bytes written.

    version: of the format, the lowest that can express the content. check: see `write_atomically`.

    The same arrays and header give the same bytes. Arrays may have any memory layout; `header` may contain everything
    that survives a JSON round trip: dicts with text keys, lists, text, finite numbers, booleans and None.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     n_bytes = write_container(f"{folder}/m.rafm", {"weights": np.float32([1, 2])}, {"task": "binary"})
    ...     read_container(f"{folder}/m.rafm")
    ({'task': 'binary'}, {'weights': array([1., 2.], dtype=float32)})
    """
    with messages_starting_with(path):
        chunks = container_chunks(tensors, header, version)
    return write_atomically(path, chunks, check)


def container_chunks(tensors: Tensors, header: Header, version: int = 1) -> list[Chunk]:
    """Return the bytes of a container in chunks, to embed it in another file.

    >>> data = b"".join(container_chunks({"weights": np.float32([1, 2])}, {"task": "binary"}))
    >>> parse_container(data)
    ({'task': 'binary'}, {'weights': array([1., 2.], dtype=float32)})
    """
    arrays = _in_file_order(tensors)
    _check_finite(arrays)  # before anything is written: an existing file stays
    text = _header_text(header)
    index = _index_of(arrays)
    check_index(index)
    _check_head_size(len(_encode(text, _NO_DIGEST, index, version)))
    views = [array.reshape(-1).view(np.uint8).data for array in arrays.values()]
    head = _encode(text, _digest(_encode(text, _NO_DIGEST, index, version), views), index, version)
    return [_length(head), head, *views]


def fits_header(tensors: Tensors, header: Header) -> bool:
    """Return whether the JSON in front of the data would be within MAX_HEADER_BYTES."""
    return len(_encode(_header_text(header), _NO_DIGEST, _index_of(_in_file_order(tensors)))) <= MAX_HEADER_BYTES


def _in_file_order(tensors: Tensors) -> Tensors:
    """Return the arrays in file order, wide items first, so that all of them are aligned without padding."""
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    return {name: _in_file_layout(tensors[name]) for name in names}


def _in_file_layout(array: np.ndarray) -> np.ndarray:
    """Return a little-endian array in C order; unlike ascontiguousarray, keep 0-d arrays."""
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _header_text(header: Header) -> str:
    """Return the header as canonical JSON; fail if it would not read back the same."""
    try:
        text = _canonical(header)
        survives = json.loads(text) == header
    except (TypeError, ValueError, RecursionError) as error:
        raise ModelFormatError(f"the header cannot be written as JSON: {error}") from error
    if not survives:
        raise ModelFormatError("the header changes when written as JSON. Use lists, not tuples, and text as keys.")
    return text


def _canonical(header: Header) -> str:
    """Return the canonical JSON text of `header`; NaN and infinity raise ValueError."""
    return json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _index_of(arrays: Tensors) -> dict[str, Any]:
    """Return the index entries of tensors stored one after the other."""
    index, begin = {}, 0
    for name, array in arrays.items():
        dtype = _DTYPE_NAMES.get(array.dtype, str(array.dtype))
        end = begin + array.nbytes
        index[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
        begin = end
    return index


def _encode(text: str, digest: str, index: dict[str, Any], version: int = 1) -> bytes:
    """Return the JSON in front of the data, padded so that the data begin at a multiple of 8."""
    metadata = {"format": "rafm", "format_version": str(version), "header": text, "sha256": digest}
    head = json.dumps({"__metadata__": metadata, **index}, separators=(",", ":")).encode()  # escapes all but ASCII
    return head + b" " * (-len(head) % 8)


def _length(head: bytes) -> bytes:
    return len(head).to_bytes(8, "little")


def _digest(head: bytes, data: Iterable[memoryview]) -> str:
    """Return the SHA-256 of a file whose `head` has zeros in place of the digest."""
    sha = hashlib.sha256(_length(head) + head)
    for view in data:
        sha.update(view)
    return sha.hexdigest()


# Reading


def read_container(path: PathLike) -> tuple[Header, Tensors]:
    """Read and fully check the file at `path`; return header and arrays.

    The arrays are writable views of one private buffer. Raises ModelFormatError if rafm did not write the file, or if
    it is truncated or inconsistent; ModelVersionError for a newer format; ModelIntegrityError if the content changed or
    contains NaN; OSError if it cannot be read.
    """
    with messages_starting_with(path), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = _read_head(file, size)
        return _read_checked(head, file, size)


def parse_container(data: Chunk) -> tuple[Header, Tensors]:
    """Parse and fully check a container in memory; return header and arrays."""
    file = BytesIO(data)
    size = file.getbuffer().nbytes
    head = _read_head(file, size)
    return _read_checked(head, file, size)


def peek_container(path: PathLike, names: Iterable[str]) -> tuple[str, Tensors]:
    """Return the digest that a file records, and some of its arrays; only `read_container` checks that they are whole.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     n_bytes = write_container(f"{folder}/m.rafm", {"weights": np.float32([1, 2])}, {"task": "binary"})
    ...     peek_container(f"{folder}/m.rafm", ["weights"])[1]
    {'weights': array([1., 2.], dtype=float32)}
    """
    with messages_starting_with(path), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        head = _read_head(file, size)
        _check_version(head)
        _, digest, index = _decode(head)
        places, found = check_index(index), {}
        _check_size(8 + len(head) + max((place.end for place in places.values()), default=0), size)
        for name in names:
            if name not in places:
                raise ModelFormatError(f"tensor {name!r} is missing")
            place = places[name]
            file.seek(8 + len(head) + place.begin)
            found[name] = _read_data(file, place.end - place.begin).view(place.dtype).reshape(place.shape)
        return digest, found


def is_container(path: PathLike) -> bool:
    """Return whether a file starts like a container; nothing else is checked."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(8 + len(_MAGIC))[8:] == _MAGIC


def open_regular(path: PathLike) -> BinaryIO:
    """Open a file for reading; reject directories, and also pipes and devices, which may block or never end."""
    _check_regular(os.stat(path).st_mode)  # first, since opening a device may already do something
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    try:
        _check_regular(os.fstat(file.fileno()).st_mode)  # again: it may have been replaced
    except ModelFormatError:
        file.close()
        raise
    return file


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, socket or device"
        raise ModelFormatError(f"is {kind}, but a model is one regular file.")


def _read_head(file: BinaryIO, size: int) -> bytes:
    """Return the JSON in front of the data, after checking its start and its length."""
    start = file.read(8 + len(_MAGIC))
    # A truncated start is accepted here, so that it is reported as truncated and not as another kind of file.
    if not start[8:] or not _MAGIC.startswith(start[8:]):
        if _is_damaged(start):
            raise ModelFormatError("its first bytes are damaged. Copy or save it again.")
        raise ModelFormatError(f"is not a rafm model: it {describe_start(start)}. `rafm train --out` writes models.")
    n_bytes = int.from_bytes(start[:8], "little")
    _check_head_size(n_bytes)
    _check_complete(8 + n_bytes, size)
    file.seek(8)  # after the length; read only now that it is plausible
    return file.read(n_bytes)


def _is_damaged(start: bytes) -> bool:
    """Return whether most of the first bytes are those of a model."""
    return 2 * sum(a == b for a, b in zip(start[8:], _MAGIC)) > len(_MAGIC)


def _check_head_size(n_bytes: int) -> None:
    if n_bytes > MAX_HEADER_BYTES:
        raise ModelFormatError(
            f"its JSON header has {n_bytes} bytes, but at most {MAX_HEADER_BYTES} are allowed. If the file is damaged, "
            "copy or save it again; otherwise store data as tensors."
        )


def _check_complete(expected: int, size: int) -> None:
    if size < expected:
        raise ModelFormatError(f"is truncated: {size} bytes, expected at least {expected}. Copy or save it again.")


def _check_version(head: bytes) -> int:
    """Return the file's format version, which is at the same position in all versions; reject newer ones."""
    found = _VERSION.match(head, len(_MAGIC))
    if found is None:
        raise ModelFormatError("has no valid format version: it is damaged. Copy or save it again.")
    version = int(found[1])
    if version > VERSIONS:
        raise ModelVersionError(
            f"has format version {version}, but this rafm reads up to {VERSIONS}. "
            f"Upgrade rafm: it needs rafm >= 0.{version}."
        )
    return version


def _read_checked(head: bytes, file: BinaryIO, size: int) -> tuple[Header, Tensors]:
    """Check the structure, read the data, then check digest, canonical form and values."""
    version = _check_version(head)
    text, digest, index = _decode(head)
    places = check_index(index)
    n_bytes = max((place.end for place in places.values()), default=0)
    _check_size(8 + len(head) + n_bytes, size)
    data = _read_data(file, n_bytes)
    # The digest first: what follows reports crafted files, not damaged ones.
    _check_digest(digest, _digest(_without_digest(head, digest), [data.data]))
    _check_spelling(head, _encode(text, digest, index, version))
    tensors = {name: _view(data, place) for name, place in places.items()}
    _check_finite(tensors)
    return _parse_header(text), tensors


def _decode(head: bytes) -> tuple[str, str, dict[str, Any]]:
    """Return header text, digest and the unchecked index."""
    _check_quotes(head)
    try:
        index = json.loads(head)
    except (ValueError, RecursionError) as error:
        raise ModelIntegrityError(f"its JSON header is damaged ({error}). Copy or save it again.") from error
    metadata = index.pop("__metadata__")
    _check_metadata(metadata)
    return metadata["header"], metadata["sha256"], index


def _check_quotes(head: bytes) -> None:
    """Reject too many index entries before parsing them; quotes inside of texts follow a backslash."""
    if head.count(b'"') - head.count(b'\\"') > _MAX_QUOTES:
        raise ModelFormatError(f"lists more than {MAX_TENSORS} tensors.")


def _check_metadata(metadata: Any) -> None:
    keys = {"format", "format_version", "header", "sha256"}
    is_complete = isinstance(metadata, dict) and set(metadata) == keys
    if not is_complete or not all(isinstance(text, str) for text in metadata.values()):
        raise ModelFormatError("its metadata must have the text fields format, format_version, header and sha256.")


def _check_size(expected: int, size: int) -> None:
    _check_complete(expected, size)
    if size > expected:
        raise ModelFormatError(f"has {size - expected} bytes after the last tensor. Copy or save it again.")


def _read_data(file: BinaryIO, n_bytes: int) -> np.ndarray:
    """Read the data into one writable buffer."""
    data = np.empty(n_bytes, np.uint8)
    file.readinto(data.data)  # type: ignore[attr-defined]
    return data


def _without_digest(head: bytes, digest: str) -> bytes:
    """Return the head with zeros in place of the digest, which the text before it cannot contain."""
    return head.replace(digest.encode(errors="replace"), _NO_DIGEST.encode(), 1)


def _check_digest(recorded: str, found: str) -> None:
    if recorded != found:
        raise ModelIntegrityError(
            f"its content changed after it was written: SHA-256 starts with {found[:8]!r}, "
            f"but {recorded[:8]!r} was recorded. Copy or save it again."
        )


def _check_spelling(head: bytes, expected: bytes) -> None:
    """Reject JSON that is not canonical, because readers could interpret it differently."""
    if head != expected:
        raise ModelFormatError("its JSON is not canonical: it has duplicate keys, or another spelling or order.")


def _view(data: np.ndarray, place: Place) -> np.ndarray:
    return data[place.begin : place.end].view(place.dtype).reshape(place.shape)


def _check_finite(tensors: Tensors) -> None:
    for name, array in tensors.items():
        if array.dtype.kind == "f" and not _is_finite(array):
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ModelIntegrityError(
                f"tensor {name} is {array[place]} at {place}; the parameters of a model must be finite."
            )


def _is_finite(array: np.ndarray) -> bool:
    """Return whether all elements are finite, without a temporary array."""
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()))  # both propagate NaN


def _parse_header(text: str) -> Header:
    """Parse the header; its text must be canonical, which excludes duplicate keys, NaN and infinity."""
    try:
        header = json.loads(text)
        is_canonical = isinstance(header, dict) and _canonical(header) == text
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"its header is not JSON ({error}).") from error
    if not is_canonical:
        raise ModelFormatError("its header must be a JSON object with unique, sorted keys and finite numbers.")
    return header


@contextmanager
def messages_starting_with(path: PathLike) -> Iterator[None]:
    """Prefix error messages with the name of the file."""
    try:
        yield
    except ModelFileError as error:
        error.args = (f"{os.path.basename(path) or os.fspath(path)}: {error}",)
        raise
