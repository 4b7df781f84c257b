"""Convert tables in memory (pandas and polars data frames, pyarrow tables) to pyarrow tables."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..errors import DataValueError

if TYPE_CHECKING:
    import pyarrow as pa


def is_frame(X: Any) -> bool:
    """Tell whether X is a data frame or table; imports none of the libraries.

    >>> is_frame([[1, 2]])
    False
    """
    # If a library was never imported, X cannot be one of its objects.
    kinds = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"))
    return any(name in sys.modules and isinstance(X, getattr(sys.modules[name], kind)) for name, kind in kinds)


def as_table(X: Any) -> pa.Table:
    """Return a data frame as a pyarrow table, without its index."""
    import pyarrow as pa

    if isinstance(X, pa.Table):
        return X
    try:
        return X.to_arrow() if hasattr(X, "to_arrow") else pa.Table.from_pandas(X, preserve_index=False)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise _unreadable(X, error) from None


def _unreadable(X: Any, error: Exception) -> DataValueError:
    """Return the error about the first column that Arrow cannot convert."""
    import pyarrow as pa

    for place, name in enumerate(X.columns):
        cells = X.to_series(place) if hasattr(X, "to_series") else X.iloc[:, place]
        try:
            cells.to_arrow() if hasattr(cells, "to_arrow") else pa.array(cells, from_pandas=True)
        except (pa.ArrowException, OverflowError, TypeError) as own:
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
    kinds = " and ".join(sorted({type(cell).__name__ for cell in cells.dropna()})[:4])
    return DataValueError(f"column {name!r} has values of types {kinds}; convert them to one type, such as text")


def needs_encoder(X: Any) -> bool:
    """Tell whether a data frame has a column that is not numeric, or an integer column named like an id.

    Frames with only numbers and booleans are treated as matrices.
    """
    import pyarrow as pa

    from ..encode.casts import cell_type
    from ..encode.infer import ID_REASON, choose_kinds

    table = as_table(X)
    kinds = [field.type for field in table.schema]
    if any(pa.types.is_dictionary(kind) or cell_type(kind) not in ("number", "boolean") for kind in kinds):
        return True
    # Numbers with few values stay numbers here, or a plain numeric frame would change its meaning.
    return any(choice.reason == ID_REASON for choice in choose_kinds(table.schema, table[:1000]))
