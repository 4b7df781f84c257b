"""Add labels and weights to encoded rows, from the columns named in the spec."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from ..errors import DataValueError, RowError
from ..rows.checked import Batch
from .assemble import take_rows
from .casts import as_numbers, cell_type, naming_column, plain
from .spec import TableSpec

Targets = tuple[np.ndarray, np.ndarray]  # labels and weights


def with_targets(rows: Batch, table: pa.Table | pa.RecordBatch, spec: TableSpec, first_row: int = 0) -> Batch:
    """Return the rows with the labels and weights of the table; first_row: number of the first row in messages."""
    names = table.schema.names
    if spec.clicks is not None and spec.impressions is not None:
        if spec.clicks not in names or spec.impressions not in names:
            return rows
        clicks, impressions = (_numbers(table, name, first_row) for name in (spec.clicks, spec.impressions))
        return _with_clicks(rows, clicks, impressions, spec, first_row)
    labels = _labels(table, spec.label, first_row) if spec.label in names else None
    weights = _numbers(table, spec.weight, first_row) if spec.weight in names else None
    if weights is not None:
        _check(weights < 0, weights, f"weight {spec.weight!r}", "must not be negative", first_row)
    return Batch(rows.indptr, rows.indices, rows.values, rows.n_features, labels, weights)


def sampled_targets(spec: TableSpec, blocks: Iterable[pa.RecordBatch], rows: Sequence[np.ndarray]) -> Targets | None:
    """Return labels and weights of some rows of each block; None without a label column.

    The first columns of blocks are the targets.
    """
    labels, weights, names = [], [], spec.targets()
    if spec.label is None:
        return None
    for block, own in zip(blocks, rows):
        table = pa.RecordBatch.from_arrays(block.columns[: len(names)], names).take(pa.array(own))
        labels.append(_labels(table, spec.label, 0))
        weights.append(np.ones(own.size) if spec.weight is None else _numbers(table, spec.weight, 0))
    return np.concatenate(labels), np.concatenate(weights)


def _labels(table: pa.Table | pa.RecordBatch, name: str | None, first_row: int) -> np.ndarray:
    """Return a column as float32, bool, or an array of str, whichever it holds; no row may lack a label."""
    cells = plain(table.column(name))
    kind = cell_type(cells.type)
    if kind not in ("text", "boolean"):
        return _numbers(table, name, first_row)
    missing = np.asarray(cells.is_null())
    if missing.any():
        raise RowError(f"column {name!r} must have a label in every row", first_row + int(np.argmax(missing)))
    with naming_column(str(name), cells.type):
        return np.array(cells.cast(pa.string() if kind == "text" else pa.bool_()), object if kind == "text" else bool)


def _numbers(table: pa.Table | pa.RecordBatch, name: str | None, first_row: int) -> np.ndarray:
    """Return a column as float32, one finite number per row."""
    cells, what = table.column(name), f"column {name!r}"
    if cell_type(cells.type) not in ("number", "boolean"):
        raise DataValueError(f"{what} must hold numbers, but its type is {cells.type}")
    chunks = cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]  # of a Table, or of a RecordBatch
    numbers = np.concatenate([np.zeros(0), *map(as_numbers, chunks)])
    _check(np.isnan(numbers), numbers, what, "must have a number in every row", first_row)
    with np.errstate(over="ignore"):  # an overflow becomes inf, which is reported
        short = numbers.astype(np.float32)
    _check(np.isinf(short), numbers, what, "must be finite and at most 3.4e38 (float32)", first_row)
    return short


def _check(wrong: np.ndarray, numbers: np.ndarray, what: str, rule: str, first_row: int) -> None:
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise RowError(f"{what} {rule}, found {numbers[row]:g}", first_row + row)


def _with_clicks(rows: Batch, clicks: np.ndarray, impressions: np.ndarray, spec: TableSpec, first_row: int) -> Batch:
    """Return up to two rows for each: label 1 weighted by clicks, label 0 by the other impressions."""
    what = f"clicks {spec.clicks!r}"
    _check(clicks < 0, clicks, what, "must not be negative", first_row)
    _check(clicks > impressions, clicks, what, f"must not exceed impressions {spec.impressions!r}", first_row)
    weights = np.column_stack([clicks, impressions - clicks]).ravel()
    kept = np.flatnonzero(weights > 0)  # even entries are positives of row kept // 2, odd ones its negatives
    indptr, entries = take_rows(rows.indptr, kept // 2)
    labels = 1 - (kept % 2).astype(np.float32)
    return Batch(indptr, rows.indices[entries], rows.values[entries], rows.n_features, labels, weights[kept])
