"""64-bit hashes of numbers and rows: two different values collide with probability 2^-64."""

from __future__ import annotations

import numpy as np

from .blocks import take_rows
from .checked import CheckedRows

CHUNK_ROWS = 1 << 14
_ODD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 divided by the golden ratio
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # multipliers of SplitMix64


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Return numbers whose every bit depends on all bits of the given ones (the last steps of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _FIRST
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _SECOND
    return numbers ^ (numbers >> np.uint64(31))


def unmixed(key: int) -> int:
    """Return the number of which this is the hash: odd factors have inverses, and x ^ x >> s can be solved for x.

    >>> unmixed(int(mixed(np.array([5], np.uint64))[0]))
    5
    """
    for shift, factor in ((31, int(_SECOND)), (27, int(_FIRST)), (30, 1)):
        key ^= (key >> shift) ^ (key >> 2 * shift)
        key = key * pow(factor, -1, 2**64) % 2**64
    return key


def hash_position(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Return a hash of each row number and a seed."""
    return mixed((numbers + np.uint64(1)) * _ODD + _salt(seed))


def _salt(seed: int) -> np.ndarray:
    return mixed(np.full(1, seed % 2**64, np.uint64) + _ODD)


def row_hashes(rows: CheckedRows, seed: int) -> np.ndarray:
    """Return a 64-bit hash of the features and values of each row; neither their order nor zeros have an effect."""
    hashes = np.empty(rows.n_rows, np.uint64)
    for first in range(0, rows.n_rows, CHUNK_ROWS):
        stop = min(first + CHUNK_ROWS, rows.n_rows)
        part = take_rows(rows, first, stop)
        entries = entry_hashes(part.indices, part.values)
        hashes[first:stop] = mixed(row_sums(entries, part.indptr) + _salt(seed))
    return hashes


def entry_hashes(ids: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a hash of each feature with its value, 0 for zeros; hashes of the entries of a row may be added up."""
    bits = values.view(np.uint32).astype(np.uint64)
    entries = mixed((ids.astype(np.uint64) + np.uint64(1)) * _ODD + bits * _FIRST)
    entries[values == 0] = 0
    return entries


def row_sums(hashes: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Return the sum of the hashes of each row's entries; exact, as sums and their differences wrap around alike."""
    return np.diff(np.concatenate([np.zeros(1, np.uint64), np.cumsum(hashes, dtype=np.uint64)])[indptr])
