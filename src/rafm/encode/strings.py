"""Growing table of distinct strings, which maps Arrow arrays to ids without a Python loop.

Strings are bytes, here UTF-8. Equal hashes are resolved by comparing bytes, so ids are exact.
"""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import ResourceLimitError
from ..rows.checked import read_only
from .interning import (
    Slots,
    Strings,
    fill_slots,
    find_strings,
    hash_all,
    hash_into,
    intern_strings,
    leading_bytes,
    move_slots,
    n_slots_for,
    sort_by_bits,
    write_decimals,
)

MAX_STRINGS = 2**31 - 2  # ids are int32
MANY_STRINGS = 2**15  # from here on, larger radix digits and tighter tables pay off
NO_SLOTS = np.zeros(0, np.uint64)


def _buffer(buffer: pa.Buffer | None, dtype: type) -> np.ndarray:
    array: np.ndarray = np.zeros(0, dtype) if buffer is None else np.frombuffer(buffer, dtype)
    return read_only(array)


def as_strings(array: pa.Array) -> Strings:
    """Return the buffers of an array of text or bytes, or of a dictionary of them."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return as_strings(array.cast(kind.value_type))
    if pa.types.is_null(kind) or pa.types.is_string_view(kind):
        return as_strings(array.cast(pa.large_string()))
    if pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return as_strings(array.cast(pa.large_binary()))
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not (wide or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        raise TypeError(f"expected text or bytes, found {kind}")
    validity, offsets, data = array.buffers()
    begin, end = array.offset, array.offset + len(array) + 1
    places = _buffer(offsets, np.int64 if wide else np.int32)[begin:end].astype(np.int64)
    if not places.size:  # an empty array may have no offsets at all
        places = np.zeros(1, np.int64)
    bits = _buffer(validity if array.null_count else None, np.uint8)
    return Strings(_buffer(data, np.uint8), places, bits, array.offset)


def decimal_text(numbers: np.ndarray) -> pa.Array:
    """Return integers as text; much faster than Arrow's cast.

    >>> decimal_text(np.array([0, -12, 2**63 - 1])).to_pylist()
    ['0', '-12', '9223372036854775807']
    """
    text, offsets = np.empty(20 * numbers.size, np.uint8), np.zeros(numbers.size + 1, np.int64)
    with np.errstate(over="ignore"):  # without compilation, NumPy warns of wrapping unsigned numbers
        size = write_decimals(np.ascontiguousarray(numbers, np.int64), text, offsets)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text[:size])]
    return pa.Array.from_buffers(pa.large_string(), numbers.size, buffers)


def hash_buckets(array: pa.Array, n_buckets: int) -> np.ndarray:
    """Return XXH64 of each string modulo n_buckets, NULL for nulls.

    >>> hash_buckets(pa.array(["", "a", None]), 1000).tolist()
    [921, 955, -2]
    """
    ids = np.empty(len(array), np.int32)
    with np.errstate(over="ignore"):
        hash_into(as_strings(array), n_buckets, ids)
    return ids


def hash_strings(strings: Strings) -> np.ndarray:
    """Return XXH64 of each string."""
    keys = np.empty(strings.offsets.size - 1, np.uint64)
    with np.errstate(over="ignore"):
        hash_all(strings, keys)
    return keys


def sorted_order(array: pa.Array) -> np.ndarray:
    """Return the positions that sort distinct strings by their bytes.

    >>> sorted_order(pa.array(["b", "a", "\u00e9", "ab"])).tolist()
    [1, 3, 0, 2]
    """
    pairs, room = np.empty((2, len(array), 2), np.uint64)
    leading_bytes(as_strings(array), pairs)
    bits = 16 if len(array) > MANY_STRINGS else 8  # per pass of the radix sort, lowest first
    places = np.empty(2**bits + 1, np.int64)
    for shift in range(0, 64, bits):
        if sort_by_bits(pairs, shift, places, room):
            pairs, room = room, pairs
    if (pairs[1:, 0] == pairs[:-1, 0]).any():  # some share their first eight bytes: sort whole strings, more slowly
        return pc.sort_indices(array).to_numpy(zero_copy_only=False)
    return pairs[:, 1].astype(np.int64)


class StringTable:
    """Distinct strings, numbered by first appearance.

    >>> table = StringTable()
    >>> table.intern(pa.array(["tea", "jam", None, "tea", ""])).tolist()
    [0, 1, -2, 0, 2]
    >>> table.lookup(pa.array(["jam", "egg"])).tolist()
    [1, -1]
    """

    def __init__(self) -> None:
        self._table = Slots(np.empty(256, np.uint8), np.empty(16, np.int64), NO_SLOTS, np.zeros(2, int))

    @classmethod
    def of_distinct(cls, array: pa.Array) -> StringTable:
        """Return the table of strings that are known to be distinct, numbered in order.

        >>> StringTable.of_distinct(pa.array(["jam", "tea"]))[1]
        b'tea'
        """
        strings, table = as_strings(array), cls()
        first, last = strings.offsets[0], strings.offsets[-1]
        ends, used = strings.offsets[1:] - first, np.array([len(array), last - first])
        table._table = Slots(strings.data[first:last].copy(), ends, NO_SLOTS, used)  # slots come with the first lookup
        return table

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StringTable):
            return NotImplemented
        return np.array_equal(self.text, other.text) and np.array_equal(self.ends, other.ends)

    def __len__(self) -> int:
        return int(self._table.used[0])

    @property
    def text(self) -> np.ndarray:
        """Bytes of all strings, ordered by id."""
        return self._table.text[: self._table.used[1]]

    @property
    def ends(self) -> np.ndarray:
        """Where each string ends in the text."""
        return self._table.ends[: len(self)]

    def intern(self, array: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the id of every string, NULL for nulls; new strings get the next ids."""
        return _by_chunk(array, self._intern)

    def lookup(self, array: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the id of every string, UNKNOWN for those not in the table, NULL for nulls."""
        return _by_chunk(array, self._lookup)

    def _intern(self, array: pa.Array) -> np.ndarray:
        strings, ids, done = as_strings(array), np.empty(len(array), np.int32), 0
        with np.errstate(over="ignore"):
            while (done := intern_strings(strings, self._with_slots(), ids, done)) < ids.size:
                self._grow(int(strings.offsets[done + 1] - strings.offsets[done]))
        return ids

    def _lookup(self, array: pa.Array) -> np.ndarray:
        ids = np.empty(len(array), np.int32)
        with np.errstate(over="ignore"):
            find_strings(as_strings(array), self._with_slots(), ids)
        return ids

    def _with_slots(self) -> Slots:
        """Return the table with room for one more string in its slots, which are created on first use."""
        n_slots = n_slots_for(len(self) + 1)
        if 2 * n_slots > self._table.slots.size:
            n_slots *= 4 if n_slots < MANY_STRINGS else 1  # memory for fewer collisions, while it fits the cache
            table = self._table._replace(slots=np.zeros(2 * n_slots, np.uint64))
            if self._table.slots.size:
                move_slots(self._table.slots, table.slots)
            elif len(self):
                fill_slots(table)
            self._table = table
        return self._table

    def _grow(self, n_bytes: int) -> None:
        """Make room for one more string of n_bytes, at least doubling what is full."""
        text, ends, slots, used = self._table
        if used[0] >= MAX_STRINGS:
            raise ResourceLimitError(f"a column has over {MAX_STRINGS} distinct values; hash them with hash_size")
        if used[1] + n_bytes > text.size:
            text = np.concatenate([text, np.empty(max(text.size, n_bytes), np.uint8)])
        if used[0] == ends.size:
            ends = np.concatenate([ends, np.empty(max(ends.size, 1), np.int64)])
        self._table = Slots(text, ends, slots, used)

    def as_array(self) -> pa.Array:
        """Return the strings as bytes, ordered by id."""
        offsets = np.concatenate([np.zeros(1, np.int64), self.ends])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self.text)]
        return pa.Array.from_buffers(pa.large_binary(), len(self), buffers)

    def __getitem__(self, number: int) -> bytes:
        """Return one string."""
        if not 0 <= number < len(self):
            raise IndexError(f"string {number} of {len(self)}")
        begin = self.ends[number - 1] if number else 0
        return self.text[begin : self.ends[number]].tobytes()


def _by_chunk(array: pa.Array | pa.ChunkedArray, ids_of) -> np.ndarray:
    if not isinstance(array, pa.ChunkedArray):
        return ids_of(array)
    return np.concatenate([np.zeros(0, np.int32), *(ids_of(chunk) for chunk in array.chunks)])
