"""Convert tables in memory to pyarrow tables: data frames, and whatever has Arrow's PyCapsule interface."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..encode.spec import first_repeated
from ..errors import DataValueError

if TYPE_CHECKING:
    import pyarrow as pa

FRAMES = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("polars", "LazyFrame"), ("pyarrow", "Table"))
SINGLE_COLUMNS = (("pandas", "Series"), ("polars", "Series"), ("pyarrow", "Array"), ("pyarrow", "ChunkedArray"))
CAPSULES = ("__arrow_c_stream__", "__arrow_c_array__")


def is_frame(X: Any) -> bool:
    """Tell whether X is a data frame or table; imports none of the libraries.

    >>> is_frame([[1, 2]])
    False
    """
    if _is_one_of(X, SINGLE_COLUMNS):
        return False
    return _is_one_of(X, FRAMES) or any(hasattr(X, name) for name in CAPSULES)


def is_table(X: Any) -> bool:
    """Tell whether X has columns to encode: any frame does, except one that was made from a matrix.

    That is a pandas frame of sparse columns, or one of complete numbers without column names, which scikit-learn
    requires to be treated like the array.
    """
    if not _is_one_of(X, FRAMES[:1]):
        return is_frame(X)
    if X.shape[1] and all(hasattr(kind, "fill_value") for kind in X.dtypes):  # pandas.SparseDtype
        return False
    return any(isinstance(name, str) for name in X.columns) or _has_other_than_numbers(X)


def _has_other_than_numbers(X: Any) -> bool:
    return any(kind.kind not in "biuf" for kind in X.dtypes) or bool(X.isna().to_numpy().any())


def _is_one_of(X: Any, kinds: tuple[tuple[str, str], ...]) -> bool:
    # If a library was never imported, X cannot be one of its objects.
    return any(name in sys.modules and isinstance(X, getattr(sys.modules[name], kind)) for name, kind in kinds)


def as_table(X: Any) -> pa.Table:
    """Return a data frame as a pyarrow table, without its index."""
    import pyarrow as pa

    if isinstance(X, pa.Table):
        return X
    X = X.collect() if _is_one_of(X, (("polars", "LazyFrame"),)) else X
    try:
        if _is_one_of(X, FRAMES[:1]):
            if (twice := first_repeated(map(str, X.columns))) is not None:
                raise DataValueError(f"two columns are named {twice!r}; rename or drop one")
            return pa.Table.from_pandas(X, preserve_index=False)
        return X.to_arrow() if _is_one_of(X, (("polars", "DataFrame"),)) else _exported(X)
    except (pa.ArrowException, OverflowError, TypeError, UnicodeError) as error:
        raise _unreadable(X, error) from None


def _exported(X: Any) -> pa.Table:
    """Import the Arrow data that an object exports."""
    import pyarrow as pa

    if hasattr(X, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(X).read_all()
    return pa.Table.from_batches([pa.record_batch(X)])


def _unreadable(X: Any, error: Exception) -> DataValueError:
    """Return the error about the first column that Arrow cannot convert."""
    import pyarrow as pa

    for place, name in enumerate(X.columns if _is_one_of(X, FRAMES[:2]) else ()):
        cells = X.to_series(place) if hasattr(X, "to_series") else X.iloc[:, place]
        try:
            cells.to_arrow() if hasattr(cells, "to_arrow") else pa.array(cells, from_pandas=True)
        except (pa.ArrowException, OverflowError, TypeError, UnicodeError) as own:
            return _unreadable_column(name, cells, own)
    return DataValueError(f"the table cannot be read: {' '.join(str(error).split())}")


def _unreadable_column(name: Any, cells: Any, error: Exception) -> DataValueError:
    if str(cells.dtype) != "object":
        return DataValueError(
            f"column {name!r} has type {cells.dtype}, which is not supported; convert it to a common type, such as "
            "float64 or text"
        )
    if isinstance(error, OverflowError):
        return DataValueError(f"column {name!r} has whole numbers beyond 64 bits; convert it to text or float64")
    if isinstance(error, UnicodeError):  # surrogates, which no encoding has
        return DataValueError(
            f"column {name!r} has text that is no Unicode: {error}; decode it with the right encoding"
        )
    kinds = " and ".join(sorted({type(cell).__name__ for cell in cells.dropna()})[:4])
    return DataValueError(f"column {name!r} has values of types {kinds}; convert them to one type, such as text")
