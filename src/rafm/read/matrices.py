"""Convert SciPy sparse matrices to rows. SciPy trusts their arrays, so they are checked first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import DataValueError
from ..rows.checked import Batch

MAX_ID_COLUMNS, MIN_IDS, LARGEST_DIGIT = 40, 20, 100  # what a matrix of ids has: few columns, many and large numbers
ID_ROWS = 10_000  # rows that are searched for ids


def rows_of_matrix(X: Any) -> Batch:
    """Return the rows of a dense matrix or a sparse one of any format; duplicate entries are summed.

    >>> from scipy.sparse import coo_array
    >>> rows_of_matrix(coo_array(([1, 2, 3], ([0, 1, 1], [2, 0, 0])), shape=(2, 3))).values
    array([1, 5])
    """
    check_matrix(X)
    matrix = sparse.csr_array(X)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # sum_duplicates works in place, on arrays that may be the user's
        matrix.sum_duplicates()
    return Batch(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1])


def id_columns(X: Any) -> list[int]:
    """Return the columns of a narrow dense matrix that look like ids: many different whole numbers, some over 100.

    >>> id_columns(np.array([[1, 0.5]] * 50 + [[user, 0.5] for user in range(200)]))
    [0]
    """
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.shape[1] > MAX_ID_COLUMNS:
        return []
    return [place for place, cells in enumerate(X[:ID_ROWS].T) if _look_like_ids(cells)]


def _look_like_ids(cells: np.ndarray) -> bool:
    if not cells.size or cells.min() < 0 or cells.max() <= LARGEST_DIGIT or (cells != np.floor(cells)).any():
        return False
    return np.unique(cells).size >= MIN_IDS


def check_matrix(X: Any) -> None:
    """Raise DataValueError if a sparse matrix is malformed; anything else passes.

    >>> bad = sparse.csc_array([[1, 0], [0, 2]])
    >>> bad.indices[0] = 7
    >>> check_matrix(bad)
    Traceback (most recent call last):
    rafm.errors.DataValueError: malformed csc matrix: indices must lie between 0 and 1, found 7
    """
    if not sparse.issparse(X):
        return
    if len(X.shape) != 2:
        raise _malformed(X, f"it must have two dimensions, found shape {X.shape}")
    if X.format not in CHECKS:
        raise DataValueError(f"sparse format {X.format!r} is not supported; convert the matrix with X.tocsr()")
    CHECKS[X.format](X)


def _malformed(X: Any, what: str) -> DataValueError:
    return DataValueError(f"malformed {X.format} matrix: {what}")


def _check_numbers(X: Any, data: np.ndarray, n_dimensions: int = 1) -> None:
    if not isinstance(data, np.ndarray) or data.ndim != n_dimensions:
        raise _malformed(X, f"data must be an array of {n_dimensions} dimension{'s' if n_dimensions > 1 else ''}")
    if data.dtype.kind not in "biuf":
        raise _malformed(X, f"data must be real numbers, found type {data.dtype}")


def _check_whole(X: Any, name: str, numbers: np.ndarray, size: int | None = None) -> None:
    """Check that an index array has integers and the right size."""
    if not isinstance(numbers, np.ndarray) or numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        found = getattr(numbers, "dtype", type(numbers).__name__)
        raise _malformed(X, f"{name} must be a 1-D array of integers, found {found}")
    if size is not None and numbers.size != size:
        raise _malformed(X, f"{name} must have {size} entries, found {numbers.size}")


def _check_range(X: Any, name: str, numbers: np.ndarray, low: int, high: int) -> None:
    bad = (numbers < low) | (numbers > high)
    if bad.any():
        rule = f"lie between {low} and {high}" if high >= low else "be empty, as the matrix is"  # a dimension of 0
        raise _malformed(X, f"{name} must {rule}, found {numbers[bad][0]}")


def _check_compressed(X: Any, n_lines: int, n_places: int, n_entries: int) -> None:
    """Check indptr and indices; n_lines counts rows for CSR and BSR, columns for CSC."""
    _check_whole(X, "indptr", X.indptr, n_lines + 1)
    _check_whole(X, "indices", X.indices, n_entries)
    if X.indptr[0] != 0 or (X.indptr[1:] < X.indptr[:-1]).any():
        raise _malformed(X, "indptr must start at 0 and never decrease")
    if X.indptr[-1] != n_entries:
        raise _malformed(X, f"indptr ends at {X.indptr[-1]}, but there are {n_entries} entries")
    _check_range(X, "indices", X.indices, 0, n_places - 1)


def _check_csr(X: Any) -> None:
    _check_numbers(X, X.data)
    _check_compressed(X, X.shape[0], X.shape[1], X.data.size)


def _check_csc(X: Any) -> None:
    _check_numbers(X, X.data)
    _check_compressed(X, X.shape[1], X.shape[0], X.data.size)


def _check_bsr(X: Any) -> None:
    _check_numbers(X, X.data, 3)
    n_blocks, height, width = X.data.shape
    if min(height, width) < 1 or X.shape[0] % height or X.shape[1] % width:
        raise _malformed(X, f"blocks of {height} x {width} do not divide a matrix of shape {X.shape}")
    _check_compressed(X, X.shape[0] // height, X.shape[1] // width, n_blocks)


def _check_coo(X: Any) -> None:
    _check_numbers(X, X.data)
    for name, places, size in zip(("row", "col"), (X.row, X.col), X.shape):
        _check_whole(X, name, places, X.data.size)
        _check_range(X, name, places, 0, size - 1)


def _check_dia(X: Any) -> None:
    _check_numbers(X, X.data, 2)
    _check_whole(X, "offsets", X.offsets, X.data.shape[0])
    _check_range(X, "offsets", X.offsets, -max(X.shape), max(X.shape))
    if np.unique(X.offsets).size != X.offsets.size:
        raise _malformed(X, "offsets must be distinct")


def _check_lil(X: Any) -> None:
    if X.rows.shape != (X.shape[0],) or X.data.shape != (X.shape[0],):
        raise _malformed(X, f"rows and data must have {X.shape[0]} lists each")
    if not all(isinstance(line, list) for line in chain(X.rows, X.data)):
        raise _malformed(X, "rows and data must be lists")
    if any(len(places) != len(values) for places, values in zip(X.rows, X.data)):
        raise _malformed(X, "lists in rows and data must have the same lengths")
    _check_places(X, [[place] for place in chain.from_iterable(X.rows)], X.shape[1:])


def _check_dok(X: Any) -> None:
    _check_places(X, list(X.keys()), X.shape)


def _check_places(X: Any, places: list[Any], shape: tuple[int, ...]) -> None:
    """Check indices that are stored as Python objects."""
    if not places:
        return
    try:
        table = np.array(places)
    except (ValueError, OverflowError):  # ragged, or beyond 64 bits: fails the next check
        table = np.zeros((0, 0))
    if table.ndim != 2 or table.shape[1] != len(shape) or table.dtype.kind not in "iu":
        raise _malformed(X, "indices must be integers")
    for column, size in zip(table.T, shape):
        _check_range(X, "indices", column, 0, size - 1)


CHECKS: dict[str, Callable[[Any], None]] = {
    "csr": _check_csr,
    "csc": _check_csc,
    "bsr": _check_bsr,
    "coo": _check_coo,
    "dia": _check_dia,
    "lil": _check_lil,
    "dok": _check_dok,
}
