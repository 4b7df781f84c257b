"""Validate CSR rows: `Batch` is what readers produce, `CheckedRows` is what kernels accept.

Kernels do not check bounds, so they take only `CheckedRows`, which only `check_batch` creates. An explicit zero counts
as absent: it is not an occurrence of its feature and never reaches a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, Self

import numpy as np

from ..errors import DataValueError, FeatureRangeError, RowError
from .memory import owned


@dataclass(frozen=True)
class Batch:
    """Unchecked rows in CSR form; ids may be in any order within a row and should be below n_features."""

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    n_features: int
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        return self.indptr.size - 1

    @property
    def nbytes(self) -> int:
        columns = (self.indptr, self.indices, self.values, self.labels, self.weights)
        return sum(column.nbytes for column in columns if column is not None)

    def _derived(self, *arrays: Any) -> Self:
        """Return rows of the same class; CheckedRows accept only arrays taken from checked rows."""
        return type(self)(*arrays)


@dataclass(frozen=True, init=False)
class CheckedRows(Batch):
    """Rows that passed `check_batch`: read-only arrays of the right types, in memory owned by this process.

    >>> CheckedRows(np.array([0]), np.array([]), np.array([]), 0)
    Traceback (most recent call last):
    TypeError: CheckedRows cannot be created directly; use check_batch
    """

    def __init__(self, *_: Any, **__: Any):
        raise TypeError("CheckedRows cannot be created directly; use check_batch")

    @classmethod
    def _passed(cls, *arrays: Any) -> CheckedRows:
        rows = object.__new__(cls)
        for name, array in zip(("indptr", "indices", "values", "n_features", "labels", "weights"), arrays):
            object.__setattr__(rows, name, read_only(array) if isinstance(array, np.ndarray) else array)
        return rows

    def _derived(self, *arrays: Any) -> Self:
        return self._passed(*arrays)  # type: ignore[return-value]

    @property
    def largest_id(self) -> int:
        """The largest id, or -1 if there are no entries."""
        return int(self.indices.max(initial=-1))

    def with_short_ids(self) -> CheckedRows:
        """Return the same rows with 32-bit ids if they fit, else 64-bit ids."""
        indices = self.indices.astype(np.int32 if self.largest_id < 2**31 else np.int64, copy=False)
        return self._passed(self.indptr, indices, self.values, self.n_features, self.labels, self.weights)

    def with_n_features(self, n_features: int) -> CheckedRows:
        """Return the same rows with another number of features; all ids must be below it."""
        if n_features < self.n_features and (largest := self.largest_id) >= n_features:
            raise FeatureRangeError(f"the rows have feature id {largest}, but ids must be below {n_features}")
        return self._passed(self.indptr, self.indices, self.values, n_features, self.labels, self.weights)


def check_batch(batch: Batch) -> CheckedRows:
    """Validate a batch and return its rows; raise an error that names the first bad row otherwise.

    >>> check_batch(Batch(np.array([0, 1]), np.array([7]), np.array([1.0]), n_features=5))
    Traceback (most recent call last):
    rafm.errors.FeatureRangeError: row 1 has feature id 7, but ids must be between 0 and 4
    """
    indptr, indices, values = _contiguous(batch.indptr, np.int64), np.asarray(batch.indices), _float32(batch.values)
    _check_offsets(indptr, indices, values)
    if indices.size and not np.issubdtype(indices.dtype, np.integer):  # an empty list is float64 to NumPy
        raise DataValueError(f"malformed rows: feature ids must be integers, found type {indices.dtype}")
    indices = _contiguous(indices, indices.dtype.newbyteorder("=") if indices.size else np.dtype(np.int64))
    _check_ids(indptr, indices, batch.n_features)
    if not np.isfinite(values).all():
        row = _row_of(int(np.flatnonzero(~np.isfinite(values))[0]), indptr)
        raise RowError("a value is NaN, infinite or out of float32 range", row)
    labels = _check_column(batch.labels, "label", indptr.size - 1)
    weights = _check_column(batch.weights, "sample weight", indptr.size - 1)
    if weights is not None and weights.size and weights.min() < 0:
        raise DataValueError(
            f"sample weight of row {weights.argmin() + 1} is {weights.min()}; weights must be at least 0"
        )
    return CheckedRows._passed(indptr, indices, values, batch.n_features, labels, weights)


def require_checked(rows: CheckedRows) -> None:
    """Raise TypeError unless the rows are checked; called before rows go to a kernel."""
    if not isinstance(rows, CheckedRows):
        _refuse(rows)


def _refuse(rows: Any) -> NoReturn:
    raise TypeError(f"expected CheckedRows, found {type(rows).__name__}; call check_batch first")


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view. Numba types read-only arrays apart, so kernels are compiled for this kind alone."""
    view = array.view()
    view.flags.writeable = False
    return view


def _contiguous(array: Any, kind: Any) -> np.ndarray:
    """Return a C-contiguous, aligned array of this type in owned memory; copy only if needed."""
    return owned(np.require(array, kind, ("C", "A")))


def _float32(numbers: np.ndarray) -> np.ndarray:
    """Convert to float32; values out of range become infinite, so that the caller can report their row."""
    with np.errstate(over="ignore"):
        return _contiguous(numbers, np.float32)


def _check_offsets(indptr: np.ndarray, indices: np.ndarray, values: np.ndarray) -> None:
    if indptr.ndim != 1 or indptr.size == 0 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise DataValueError("malformed rows: indptr must start at 0 and never decrease")
    if indices.ndim != 1 or values.ndim != 1 or not indptr[-1] == indices.size == values.size:
        raise DataValueError(
            f"malformed rows: indptr ends at {indptr[-1]}, but there are {indices.size} ids and {values.size} values"
        )


def _check_ids(indptr: np.ndarray, indices: np.ndarray, n_features: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= n_features):
        entry = int(np.flatnonzero((indices < 0) | (indices >= n_features))[0])
        raise FeatureRangeError(
            f"row {_row_of(entry, indptr) + 1} has feature id {indices[entry]}, "
            f"but ids must be between 0 and {n_features - 1}"
        )


def _row_of(entry: int, indptr: np.ndarray) -> int:
    return int(np.searchsorted(indptr, entry, side="right")) - 1  # the last of empty rows that start at the entry


def _check_column(column: np.ndarray | None, name: str, n_rows: int) -> np.ndarray | None:
    if column is None:
        return None
    found = _float32(column)
    if found.shape != (n_rows,):
        rows = "the only row" if n_rows == 1 else f"each of {n_rows} rows"
        raise DataValueError(f"expected one {name} for {rows}, found shape {found.shape}")
    if not np.isfinite(found).all():
        raise DataValueError(
            f"{name} of row {np.flatnonzero(~np.isfinite(found))[0] + 1} is not finite, or beyond 3.4e38 (float32)"
        )
    return found
