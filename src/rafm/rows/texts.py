"""Texts in bytes, each with its length before it, as an Arrow array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..jit.cache import kernel

if TYPE_CHECKING:
    import pyarrow as pa

LENGTH_BYTES = 4


def texts_of_bytes(data: bytes | memoryview) -> pa.Array:
    """Return the texts of bytes, each with its length before it in 4 bytes, little-endian.

    >>> texts_of_bytes(b"\\x02\\0\\0\\0ab\\0\\0\\0\\0\\x01\\0\\0\\0c").to_pylist()
    ['ab', '', 'c']
    """
    import pyarrow as pa

    given = np.frombuffer(data, np.uint8)
    ends, letters = np.zeros(given.size // LENGTH_BYTES + 1, np.int32), np.empty(given.size, np.uint8)
    count = split_texts(given, ends, letters)
    if count < 0:
        raise ValueError("a text ends beyond the input")
    found = pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(letters))
    found.validate(full=True)  # that it is UTF-8
    return found


@kernel()
def split_texts(given, ends, letters):  # type: ignore[no-untyped-def]
    """Write the texts into letters, without their lengths; return their number, -1 if one ends beyond the bytes."""
    at, size, count = 0, 0, 0
    while at < given.size:
        start, length = at + LENGTH_BYTES, 0
        if start > given.size:
            return -1
        for place in range(LENGTH_BYTES):
            length |= np.int64(given[at + place]) << (8 * place)  # type: ignore[assignment]
        at = start + length
        if at > given.size:
            return -1
        for place in range(start, at):
            letters[size] = given[place]
            size += 1
        count += 1
        ends[count] = size
    return count
