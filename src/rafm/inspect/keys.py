"""Hash cells and rows to 64-bit keys; different values collide with probability 2^-64 per pair."""

# mypy: disallow-untyped-defs=False

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..encode.casts import cell_type
from ..encode.interning import Strings
from ..encode.strings import as_strings, hash_strings
from ..jit.cache import kernel
from .sketch import mix

NULL_KEY = np.uint64(1)  # not 0, which marks an empty slot of a sketch


@kernel()
def mix_all(keys):
    """Hash every key in place."""
    for i in range(keys.size):
        keys[i] = mix(keys[i])


@kernel()
def fold_rows(rows, keys):
    """Combine the keys of rows with those of one more column."""
    for i in range(rows.size):
        rows[i] = mix(rows[i] * np.uint64(31) + keys[i])  # not commutative: (a, b) and (b, a) differ


@kernel()
def fold_entries(indptr, ids, bits, fields, rows):
    """Combine the key of each row with its entries; bits: of the values; fields may be empty."""
    for r in range(rows.size):
        for e in range(indptr[r], indptr[r + 1]):
            entry = mix(np.uint64(ids[e])) + np.uint64(bits[e])
            if fields.size > 0:
                entry += np.uint64(fields[e]) << np.uint64(32)
            rows[r] = mix(rows[r] * np.uint64(31) + mix(entry))


def fold_lists(sizes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return one key per list, given the sizes (-1 if missing) and the keys of the elements."""
    indptr = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))])
    lists = hash_numbers(np.minimum(sizes, 0))
    none = np.zeros(0, np.int32)
    with np.errstate(over="ignore"):
        fold_entries(indptr, keys.view(np.int64), np.zeros(keys.size, np.uint32), none, lists)
    return lists


def hash_numbers(numbers: np.ndarray) -> np.ndarray:
    """Return the keys of integers, or of the bits of floats, where -0 equals 0.

    >>> np.unique(hash_numbers(np.array([0.0, -0.0, 1.0, 1.0]))).size
    2
    """
    floats = np.issubdtype(numbers.dtype, np.floating)
    keys = (numbers.astype(np.float64) + 0.0).view(np.uint64) if floats else numbers.astype(np.int64).view(np.uint64)
    keys = keys.copy()
    with np.errstate(over="ignore"):
        mix_all(keys)
    return keys


def unhash_numbers(keys: np.ndarray) -> list[int]:
    """Return the integers that have these keys.

    >>> unhash_numbers(hash_numbers(np.array([0, 5, 2**40])))
    [0, 5, 1099511627776]
    """
    return [_unhash(int(key)) if key != 1 else 0 for key in keys]  # mix maps 0 to 1


def _unhash(key: int) -> int:
    # Each step of `mix` is a bijection: odd factors have inverses modulo 2^64, and x ^ x >> s can be solved for x.
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        key ^= (key >> shift) ^ (key >> 2 * shift)
        key = key * pow(factor, -1, 2**64) % 2**64
    return key


def cell_keys(cells: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the key of each cell and whether it is known; missing cells have NULL_KEY.

    >>> keys, known = cell_keys(pa.array(["tea", None, "tea"]))
    >>> np.unique(keys).size, known.tolist()
    (2, [True, False, True])
    """
    if pa.types.is_dictionary(cells.type):
        words, known = cell_keys(cells.dictionary)
        places = cells.indices.cast(pa.int64()).fill_null(len(words)).to_numpy(zero_copy_only=False)
        return np.append(words, NULL_KEY)[places], np.append(known, False)[places]
    kind = cell_type(cells.type)
    if kind == "number" and not pa.types.is_decimal(cells.type):
        return _number_keys(cells)
    if kind == "time":
        return _number_keys(cells.cast(pa.int64() if cells.type.bit_width == 64 else pa.int32()))
    known = np.asarray(cells.is_valid())
    strings: Strings = as_strings(cells if kind == "text" else cells.cast(pa.large_string()))
    keys = hash_strings(strings)
    keys[~known] = NULL_KEY
    return keys, known


def _number_keys(cells: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    known = np.asarray(cells.is_valid())
    numbers = cells.fill_null(0).to_numpy(zero_copy_only=False)
    if np.issubdtype(numbers.dtype, np.floating):
        known = known & ~np.isnan(numbers)
    keys = hash_numbers(numbers)
    keys[~known] = NULL_KEY
    return keys, known
