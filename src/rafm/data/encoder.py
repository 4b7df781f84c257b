"""Columns -> features. A category column has one feature per value, named `column=value`; a number column has one.

Numbers are standardised by mean and spread of the training rows. A missing category is a value of its own; a missing
number counts as the mean. Values never seen in training are left out of their row, so they score 0.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..batch import Batch
from ..errors import DataValueError

MISSING = "<missing>"


def column_kind(name: str, kind: pa.DataType) -> str:
    """Return "category" for text, booleans and categories, "number" for numbers.

    >>> column_kind("city", pa.string()), column_kind("age", pa.int8())
    ('category', 'number')
    """
    kinds = pa.types
    if kinds.is_dictionary(kind) or kinds.is_boolean(kind) or kinds.is_null(kind):
        return "category"
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return "category"
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
        return "number"
    raise DataValueError(f"column {name!r} has type {kind}; make it text, a category or a number, or drop it")


@dataclass(frozen=True)
class Column:
    """How one column becomes features; the first of them has id `first`."""

    name: str
    kind: str
    first: int
    values: tuple[str, ...] = ()
    mean: float = 0.0
    spread: float = 1.0

    @property
    def n_features(self) -> int:
        return len(self.values) + 1 if self.kind == "category" else 1

    def feature_names(self) -> list[str]:
        """Return the names of the column's features, in the order of their ids."""
        if self.kind == "number":
            return [self.name]
        return [f"{self.name}={value}" for value in (*self.values, MISSING)]

    def encode(self, cells: pa.ChunkedArray) -> tuple[np.ndarray, np.ndarray]:
        """Return the feature id and the value of every cell; the id is -1 for values never seen."""
        if self.kind == "number":
            numbers = np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(), float)
            standard = np.where(np.isnan(numbers), 0.0, (numbers - self.mean) / self.spread)
            return np.full(len(cells), self.first), standard
        text = _as_text(cells)
        found = pc.index_in(text, value_set=pa.array(self.values, pa.string()), skip_nulls=True)
        ids = np.asarray(found.fill_null(-1).to_numpy(), np.int64)
        missing = np.asarray(text.is_null().to_numpy())
        ids = np.where(missing, len(self.values), ids)
        return np.where(ids < 0, -1, ids + self.first), np.ones(len(cells))


def _as_text(cells: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    return cells.cast(pa.string())


def _learn_column(name: str, cells: pa.ChunkedArray, first: int) -> Column:
    kind = column_kind(name, cells.type)
    if kind == "category":
        seen = pc.unique(_as_text(cells)).drop_null().to_pylist()
        return Column(name, kind, first, values=tuple(sorted(seen)))
    numbers = np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(), float)
    known = numbers[~np.isnan(numbers)]
    if not np.isfinite(known).all():
        raise DataValueError(f"column {name!r} has an infinite value; all numbers must be finite")
    spread = float(known.std()) if known.size else 0.0
    return Column(name, kind, first, mean=float(known.mean()) if known.size else 0.0, spread=spread or 1.0)


@dataclass(frozen=True)
class TableEncoder:
    """Encodes tables with the columns it was trained on.

    >>> table = pa.table({"city": ["Rome", "Oslo", "Rome"], "age": [30, 40, 50]})
    >>> encoder = TableEncoder.learn(table)
    >>> encoder.feature_names()
    ['city=Oslo', 'city=Rome', 'city=<missing>', 'age']
    >>> encoder.encode(table).indices
    array([1, 3, 0, 3, 1, 3])
    """

    columns: tuple[Column, ...]

    @classmethod
    def learn(cls, table: pa.Table) -> TableEncoder:
        """Return the encoder of a table's columns."""
        _check_names(table)
        columns: list[Column] = []
        for name in table.column_names:
            first = columns[-1].first + columns[-1].n_features if columns else 0
            columns.append(_learn_column(name, table[name], first))
        return cls(tuple(columns))

    @property
    def n_features(self) -> int:
        return sum(column.n_features for column in self.columns)

    def feature_names(self) -> list[str]:
        """Return the names of all features, in the order of their ids."""
        return [name for column in self.columns for name in column.feature_names()]

    def encode(self, table: pa.Table) -> Batch:
        """Return the rows of a table that has these columns, in any order."""
        self._check(table)
        parts = [column.encode(table[column.name]) for column in self.columns]
        ids = np.column_stack([part[0] for part in parts]) if parts else np.zeros((table.num_rows, 0), int)
        values = np.column_stack([part[1] for part in parts]) if parts else np.zeros((table.num_rows, 0))
        known = ids >= 0
        indptr = np.concatenate([[0], np.cumsum(known.sum(axis=1))])
        return Batch(indptr, ids[known], values[known].astype(np.float32), self.n_features)

    def _check(self, table: pa.Table) -> None:
        _check_names(table)
        wanted = [column.name for column in self.columns]
        missing = [name for name in wanted if name not in table.column_names]
        if missing:
            raise DataValueError(f"column {missing[0]!r} is missing; the model was trained with {_listed(wanted)}")
        extra = [name for name in table.column_names if name not in wanted]
        if extra:
            # seven frames up stands whoever called `predict`
            warnings.warn(f"columns that the model does not know are left out: {_listed(extra)}", stacklevel=7)
        for column in self.columns:
            found = table[column.name].type
            if column_kind(column.name, found) != column.kind:
                raise DataValueError(f"column {column.name!r} was a {column.kind} in training, now its type is {found}")


def _check_names(table: pa.Table) -> None:
    name, count = Counter(table.column_names).most_common(1)[0] if table.column_names else ("", 0)
    if count > 1:
        raise DataValueError(f"two columns are named {name!r}; rename or drop one")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
