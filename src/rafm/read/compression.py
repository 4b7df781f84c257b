"""Open plain, gzip or zstd text as a stream of bytes, in bounded memory.

Compression is detected from the first bytes, never from the name. Files are read, not mapped: if a mapped file shrinks,
the process dies of SIGBUS, whereas reading just ends. From damaged gzip, every byte before the damage is returned; from
damaged zstd all but the last few thousand, which its library drops.
"""

from __future__ import annotations

import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from itertools import chain
from types import TracebackType
from typing import BinaryIO

from ..errors import DataFormatError
from ..files.terminal import counted

BLOCK_BYTES = 1 << 20
STDIN = "-"
GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 31  # zlib: the largest window, with gzip's header and checksum
ZSTD_MAGIC = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")  # a frame with data, or one to be skipped
ZSTD_PIECE_BYTES = 1 << 14  # small, since the piece in which decompression fails is lost
OTHER_MAGIC = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"PK\3\4": "zip", b"\4\x22\x4d\x18": "lz4"}
UTF8_BOM = b"\xef\xbb\xbf"
UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


def open_bytes(path: str | os.PathLike[str]) -> ByteSource:
    """Open text for reading: decompress gzip and zstd, skip a UTF-8 byte order mark, reject UTF-16.

    path: a file, or "-" for standard input, which is left open. Raises OSError if the file cannot be opened.
    """
    return unpack_text(_open_stream(path), source_name(path))


def peek_text(path: str | os.PathLike[str], n_bytes: int) -> bytes:
    """Return about the first n_bytes bytes of text, without consuming standard input.

    From standard input, only what is already buffered is returned, or nothing if that is too little to decompress.
    """
    if os.fspath(path) != STDIN:
        with open_bytes(path) as source:
            return source.read(n_bytes)
    peek = getattr(_open_stream(path), "peek", None)
    try:
        with unpack_text(io.BytesIO(peek(n_bytes) if peek else b""), source_name(path)) as source:
            return source.read(n_bytes)
    except TruncatedData:
        return b""


def unpack_text(stream: BinaryIO, name: str) -> ByteSource:
    """Return the decompressed text of a stream, as `open_bytes` does; `name` is used in messages."""
    source = ByteSource(name, stream, _text_blocks(stream, name))
    try:
        source.skip_mark()
    except BaseException:
        source.close()
        raise
    return source


def source_name(path: str | os.PathLike[str]) -> str:
    """Return the name of the input for messages.

    >>> source_name("-"), source_name("data/train.svm")
    ('<stdin>', 'data/train.svm')
    """
    path = os.fspath(path)
    return "<stdin>" if path == STDIN else path


class TruncatedData(DataFormatError):
    """Compressed data end too early."""


class ByteSource:
    """Reads a stream of blocks in pieces of any size.

    `name` is used in messages. A failure of the stream is raised only after all bytes before it have been returned, so
    that results do not depend on the sizes of the pieces.
    """

    def __init__(self, name: str, stream: BinaryIO, blocks: Iterator[bytes]):
        self.name = name
        self._stream, self._blocks = stream, blocks
        self._held = b""
        self._failure: Exception | None = None

    def read(self, n_bytes: int, behind: bytes = b"") -> bytes:
        """Return the next n_bytes bytes, appended to `behind`: fewer where the stream ends or fails, then none."""
        parts = list(self._take(n_bytes))
        if not parts and self._failure:
            raise self._failure
        return b"".join([behind, *parts])

    def read_all(self) -> bytes:
        """Return all bytes that are left; a failure of the stream is raised, never the bytes before it returned."""
        parts = []
        while part := self.read(BLOCK_BYTES):
            parts.append(part)
        return b"".join(parts)

    def readinto(self, view: memoryview) -> int:
        """Fill the view with the next bytes; return how many: fewer where the stream ends or fails, then 0."""
        size = 0
        for part in self._take(len(view)):
            view[size : size + len(part)] = part
            size += len(part)
        if not size and self._failure:
            raise self._failure
        return size

    def _take(self, n_bytes: int) -> Iterator[bytes]:
        """Yield the next n_bytes bytes in parts, fewer where the stream ends or fails."""
        while n_bytes > 0 and (block := self._held or self._next_block()):
            part, self._held = block[:n_bytes], block[n_bytes:]
            n_bytes -= len(part)
            yield part

    def peek(self, n_bytes: int) -> bytes:
        """Return the next n_bytes bytes without taking them."""
        head = self.read(n_bytes)
        self._held = head + self._held
        return head

    def has_ended(self) -> bool:
        """Tell whether neither bytes nor a failure are left; may block on a pipe."""
        self._held = self._held or self._next_block()
        return not self._held and self._failure is None

    def skip_mark(self) -> None:
        """Skip a UTF-8 byte order mark at the start; reject UTF-16."""
        head = self.read(4)  # enough to see two UTF-16 characters
        if _looks_like_utf16(head):
            raise DataFormatError("the text looks like UTF-16; convert it to UTF-8", path=self.name, line=1, column=1)
        self._held = head.removeprefix(UTF8_BOM) + self._held

    def close(self) -> None:
        """Close the file; leave standard input open."""
        if self._stream is not _stdin():
            self._stream.close()

    def _next_block(self) -> bytes:
        try:
            return next(self._blocks, b"")
        except (DataFormatError, OSError) as failure:
            self._failure = failure  # raised by the next read, once the bytes before it are gone
            return b""

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _stdin() -> BinaryIO | None:
    # None if the process was started with a closed descriptor 0
    return None if sys.stdin is None else sys.stdin.buffer


def _open_stream(path: str | os.PathLike[str]) -> BinaryIO:
    """Open the file or standard input."""
    if os.fspath(path) != STDIN:
        return open(path, "rb")
    stream = _stdin()
    if stream is None:
        raise OSError("standard input is closed")
    return stream


def _looks_like_utf16(head: bytes) -> bool:
    """Tell whether the text starts with a UTF-16 mark, or with two ASCII letters in UTF-16."""
    zeros = [byte == 0 for byte in head]
    return head.startswith(UTF16_BOMS) or zeros in ([False, True] * 2, [True, False] * 2)


def _text_blocks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the text in blocks of at most BLOCK_BYTES, decompressed if it is gzip or zstd."""
    raw = _raw_blocks(stream, name)
    head = next(raw, b"")
    raw = chain([head], raw)
    for magic, other in OTHER_MAGIC.items():
        if head.startswith(magic):
            message = f"{other} is not supported; decompress the file, or compress it with gzip or zstd"
            raise DataFormatError(message, name)
    if head.startswith(GZIP_MAGIC):
        raw = _counted(_gunzip(raw), "gzip", name)
    elif ZSTD_MAGIC.match(head):
        raw = _counted(_unzstd(raw), "zstd", name)
    yield from raw


def _counted(blocks: Iterator[bytes], codec: str, name: str) -> Iterator[bytes]:
    """Yield the blocks; if decompression fails, name the codec and the line."""
    n_lines = 0
    try:
        for block in blocks:
            n_lines += block.count(b"\n")
            yield block
    except (EOFError, zlib.error) as error:
        kind, fault = DataFormatError, f"broken {codec} data ({error})"
        if isinstance(error, EOFError):
            kind, fault = TruncatedData, "compressed data ends early"
        place = (
            f"after {counted(n_lines, 'complete line')}; copy or compress the file again"  # a partial download, usually
        )
        raise kind(f"{fault} {place}", path=name, line=n_lines + 1) from None


def _raw_blocks(stream: BinaryIO, name: str) -> Iterator[bytes]:
    """Yield the stream as it is; add the file name to system errors."""
    read = getattr(stream, "read1", stream.read)  # returns what a pipe has; waiting for a full block delays Ctrl-C
    try:
        while block := read(BLOCK_BYTES):
            yield block
    except OSError as error:
        error.filename = error.filename or name
        raise


def _gunzip(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text of all gzip members; zero bytes between members are padding."""
    data = b""
    while data := _next_member(data, raw):
        member = zlib.decompressobj(GZIP_WINDOW)
        yield from _inflate(member, data, raw)
        data = member.unused_data


def _next_member(data: bytes, raw: Iterator[bytes]) -> bytes:
    """Return the bytes from the next gzip member on, none at the end of the stream."""
    # A block may end inside the padding or inside the two magic bytes.
    while len(data := data.lstrip(b"\0")) < len(GZIP_MAGIC) and (block := next(raw, b"")):
        data += block
    if data and not data.startswith(GZIP_MAGIC):
        raise zlib.error("trailing bytes are not gzip")
    return data


def _inflate(member: zlib._Decompress, data: bytes, raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield one member in blocks of at most BLOCK_BYTES, even if a few bytes expand to gigabytes."""
    while not member.eof:
        block = member.decompress(data, BLOCK_BYTES)
        if block:
            yield block
        data = member.unconsumed_tail
        if not (block or data or member.eof) and not (data := next(raw, b"")):
            raise EOFError


class _BlockFile:
    """File-like object over an iterator of blocks, with as much of the interface as Arrow uses."""

    closed = False

    def __init__(self, blocks: Iterator[bytes]):
        self._blocks, self._held = blocks, b""

    def read(self, n_bytes: int) -> bytes:
        block = self._held or next(self._blocks, b"")
        self._held = block[n_bytes:]
        return block[:n_bytes]

    def close(self) -> None:
        self.closed = True


def _unzstd(raw: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text of all zstd frames; anything between frames is an error, even zero bytes."""
    import pyarrow as pa

    with pa.CompressedInputStream(pa.PythonFile(_BlockFile(raw), mode="r"), "zstd") as stream:
        try:
            while block := stream.read(ZSTD_PIECE_BYTES):
                yield block
        except OSError as error:
            if error.errno is not None:  # from the system; Arrow's codec errors have no errno
                raise
            raise (EOFError if "Truncated" in str(error) else zlib.error(str(error))) from None
