"""Hash cells and rows to 64-bit keys."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ..encode.casts import cell_type, without_halves
from ..encode.interning import Strings
from ..encode.strings import as_strings, hash_strings
from ..rows.hashes import mixed, row_sums, unmixed

NULL_KEY = np.uint64(1)


def folded(rows: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return the keys of rows, combined with those of one more column."""
    return mixed(rows * np.uint64(31) + keys)  # not commutative: (a, b) and (b, a) differ


def fold_lists(sizes: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return one key per list, given the sizes (-1 if missing) and the keys of the elements, in any order."""
    indptr = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))])
    return folded(hash_numbers(np.minimum(sizes, 0)), row_sums(keys, indptr))


def hash_numbers(numbers: np.ndarray) -> np.ndarray:
    """Return the keys of integers, or of the bits of floats, where -0 equals 0.

    >>> np.unique(hash_numbers(np.array([0.0, -0.0, 1.0, 1.0]))).size
    2
    """
    floats = np.issubdtype(numbers.dtype, np.floating)
    keys = (numbers.astype(np.float64) + 0.0).view(np.uint64) if floats else numbers.astype(np.int64).view(np.uint64)
    return mixed(keys)


def unhash_numbers(keys: np.ndarray) -> list[int]:
    """Return the integers that have these keys.

    >>> unhash_numbers(hash_numbers(np.array([0, 5, 2**40])))
    [0, 5, 1099511627776]
    """
    return [unmixed(int(key)) for key in keys]


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
    numbers = without_halves(cells).fill_null(0).to_numpy(zero_copy_only=False)
    if np.issubdtype(numbers.dtype, np.floating):
        known = known & ~np.isnan(numbers)
    keys = hash_numbers(numbers)
    keys[~known] = NULL_KEY
    return keys, known
