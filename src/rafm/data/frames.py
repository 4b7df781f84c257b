"""Tables in memory: pandas and polars frames and pyarrow tables become one pyarrow table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def is_frame(X: Any) -> bool:
    """Tell whether X is a frame or table with named columns; imports none of the libraries for it.

    >>> is_frame([[1, 2]])
    False
    """
    kinds = (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "Table"))
    return any(name in sys.modules and isinstance(X, getattr(sys.modules[name], kind)) for name, kind in kinds)


def as_table(X: Any) -> pa.Table:
    """Return a frame as a pyarrow table; row labels are left out."""
    import pyarrow as pa

    if isinstance(X, pa.Table):
        return X
    if hasattr(X, "to_arrow"):
        return X.to_arrow()
    return pa.Table.from_pandas(X, preserve_index=False)


def has_categories(X: Any) -> bool:
    """Tell whether a frame has a column that is no number, so that it needs an encoder."""
    import pyarrow as pa

    from .casts import family

    kinds = [field.type for field in as_table(X).schema]
    return any(pa.types.is_dictionary(kind) or family(kind) != "number" for kind in kinds)
