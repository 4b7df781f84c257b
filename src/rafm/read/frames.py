"""Tables in memory: pandas and polars frames and pyarrow tables become one pyarrow table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..errors import DataValueError

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
    try:
        return pa.Table.from_pandas(X, preserve_index=False)
    except (pa.ArrowTypeError, pa.ArrowInvalid) as error:
        raise _mixed_types(X, error) from None


def _mixed_types(X: Any, error: Exception) -> DataValueError:
    """Return the error about the first column of a pandas frame that cannot be one type."""
    import pyarrow as pa

    for place, name in enumerate(X.columns):
        cells = X.iloc[:, place]
        try:
            pa.array(cells, from_pandas=True)
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            kinds = " and ".join(sorted({type(cell).__name__ for cell in cells.dropna()})[:4])
            return DataValueError(f"column {name!r} has values of types {kinds}; make them one type, such as text")
    return DataValueError(f"the table cannot be read: {' '.join(str(error).split())}")


def needs_encoder(X: Any) -> bool:
    """Tell whether a frame has a column that is no number, or whole numbers with the name of an id.

    Frames of numbers, truth values included, are matrices.
    """
    import pyarrow as pa

    from ..encode.casts import family
    from ..encode.infer import ID_REASON, choose_kinds

    table = as_table(X)
    kinds = [field.type for field in table.schema]
    if any(pa.types.is_dictionary(kind) or family(kind) not in ("number", "boolean") for kind in kinds):
        return True
    return any(choice.reason == ID_REASON for choice in choose_kinds(table.schema, table[:1000]))
