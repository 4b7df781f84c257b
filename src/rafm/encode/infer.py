"""Choose the kind of each column automatically, with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataValueError
from ..rows.arrow import array_of
from .casts import as_numbers, as_text, cell_type, is_bytes, naming_column, plain, without_views
from .spec import ColumnSpec

ID_REASON = "name of an id"
ID_NAME = re.compile(
    r"(^|[^a-z])(id|uid|guid|user|item|movie|product|ad|campaign|creative|advertiser|publisher|site|app|device|query"
    r"|session|category|brand|zip|zipcode|postcode|code|hash|key)s?$"
)
ISO_DATE = r"^\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?)?$"
FEW_VALUES, ROWS_PER_VALUE = 100, 10  # integers with at most this many values, each this often, are categories
SKEW = 20.0  # maximum of counts relative to their median
FEW_TEXTS = 1000  # texts that are examined
LIST_SHARE = 0.5  # minimum share of texts with a "|"


class Choice(NamedTuple):
    """A column with its kind, its Arrow type and the reason for the kind."""

    column: ColumnSpec
    type: str
    reason: str


def choose_kinds(schema: pa.Schema, sample: pa.RecordBatch | pa.Table) -> list[Choice]:
    """Choose the kind of each column by its type, its name and a sample of its cells.

    >>> table = pa.table({"user_id": [7, 8], "price": [1.5, 2.5], "city": ["Rome", "Oslo"]})
    >>> print(describe_choices(choose_kinds(table.schema, table)))
    user_id   int64    category   name of an id
    price     double   number     has fractions
    city      string   category   text
    """
    return [_choose(field, without_views(_whole(cells))) for field, cells in zip(schema, sample.columns)]


def describe_choices(choices: Iterable[Choice]) -> str:
    """Return one line per column: name, type, kind, reason."""
    rows = [(choice.column.name, choice.type, choice.column.kind, choice.reason) for choice in choices]
    widths = [max((len(row[i]) for row in rows), default=0) for i in range(3)]
    return "\n".join("   ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[3]]) for row in rows)


def _whole(cells: pa.Array | pa.ChunkedArray) -> pa.Array:
    cells = cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells
    return cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells  # Arrow may return chunks again


def _choose(field: pa.Field, cells: pa.Array) -> Choice:
    kind, name = cell_type(field.type), field.name
    if kind == "other":
        raise DataValueError(
            f"column {name!r} has type {field.type}, which is not supported; convert it to text, a category, a number, "
            "a time or a list, or ignore it"
        )
    with naming_column(name, field.type):
        column, reason = _choose_by_cells(field, cells, kind)
    return Choice(column, str(field.type), reason)


def _choose_by_cells(field: pa.Field, cells: pa.Array, kind: str) -> tuple[ColumnSpec, str]:
    name = field.name
    if kind == "number" and not pa.types.is_dictionary(field.type):
        return _choose_number(name, field.type, as_numbers(cells))
    if kind == "text" and not pa.types.is_dictionary(field.type):
        return _choose_text(name, cells)
    chosen = {"time": "datetime", "list": "list"}.get(kind, "category")
    reasons = {"time": "time", "list": "list", "boolean": "true or false", "nothing": "always empty"}
    return ColumnSpec(name, chosen), reasons.get(kind, "categories")


def _choose_text(name: str, cells: pa.Array) -> tuple[ColumnSpec, str]:
    if is_bytes(cells.type):
        return ColumnSpec(name), "bytes"
    text = as_text(plain(cells.drop_null()[:FEW_TEXTS])).cast(pa.large_string())
    # The first text alone rules out most columns, without running the pattern on all of them.
    if len(text) and all(pc.all(pc.match_substring_regex(some, ISO_DATE)).as_py() for some in (text[:1], text)):
        return ColumnSpec(name, "datetime"), "text of times"
    if len(text) and pc.mean(pc.match_substring(text, "|")).as_py() >= LIST_SHARE:
        return ColumnSpec(name, "list", separator="|"), "text with | between values"
    return ColumnSpec(name), "text"


def _choose_number(name: str, kind: pa.DataType, numbers: np.ndarray) -> tuple[ColumnSpec, str]:
    known = numbers[np.isfinite(numbers)]
    whole = pa.types.is_integer(kind) or (known.size < numbers.size and bool((known == np.floor(known)).all()))
    if not whole or not known.size:  # pandas turns whole numbers into floats if one is missing
        return ColumnSpec(name, "number"), "has fractions" if known.size else "no values"
    words = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()  # userId -> user_id
    if ID_NAME.search(words):
        return ColumnSpec(name), ID_REASON
    n_values = pc.count_distinct(array_of(known + 0.0, np.float64)).as_py()  # + 0.0 turns -0.0 into 0.0
    if n_values <= min(FEW_VALUES, known.size / ROWS_PER_VALUE):
        return ColumnSpec(name), f"{n_values} values in {known.size} rows"
    if known.min() >= -1 and known.max() > SKEW * max(1.0, float(np.median(known))):
        return ColumnSpec(name, "log_bins"), "counts with a long tail"
    return ColumnSpec(name, "number"), f"{n_values} values in {known.size} rows"
