"""Tables of categories with a label per row, and sampled negatives."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rafm.errors import DataValueError
from rafm.rows.checked import Batch

MAX_ROUNDS = 100  # of redrawing negatives that turned out to be positives


@dataclass(frozen=True)
class Table:
    """Table of categories: codes[r, f] is the code of field f in row r; values[f] lists its values by code."""

    fields: tuple[str, ...]
    values: list[list[str]]
    codes: np.ndarray
    labels: np.ndarray
    note: str = ""

    @property
    def offsets(self) -> np.ndarray:
        return np.cumsum([0, *(len(values) for values in self.values)])

    def batch(self) -> Batch:
        """Return the rows as features; the ids of a field are consecutive, in order of first appearance."""
        n_rows, n_fields = self.codes.shape
        indices = (self.codes + self.offsets[:-1]).astype(np.int32).ravel()
        indptr = np.arange(n_rows + 1, dtype=np.int64) * n_fields
        return Batch(indptr, indices, np.ones(indices.size, np.float32), int(self.offsets[-1]), self.labels)

    def feature_names(self) -> list[tuple[str, str]]:
        """Return field and value of each feature."""
        return [(field, value) for field, values in zip(self.fields, self.values) for value in values]


class TableBuilder:
    """Collects rows one by one; stores each distinct value once.

    >>> rows = TableBuilder("user", "item")
    >>> rows.add(4.0, "ann", "tea"); rows.add(2.0, "bob", "tea")
    >>> rows.table().batch().indices.tolist()
    [0, 2, 1, 2]
    """

    def __init__(self, *fields: str):
        self.fields = fields
        self.known: list[dict[str, int]] = [{} for _ in fields]
        self.codes = [array("i") for _ in fields]  # 4 bytes per cell; a list of ints would take 8 and more
        self.labels = array("f")

    def add(self, label: float, *cells: str) -> None:
        """Add a row."""
        self.labels.append(label)
        for codes, known, cell in zip(self.codes, self.known, cells):
            codes.append(known.setdefault(cell, len(known)))

    def table(self, note: str = "") -> Table:
        """Return the table."""
        if not self.labels:
            raise DataValueError("the source has no rows")
        codes = np.column_stack([np.frombuffer(column, np.int32) for column in self.codes])
        return Table(self.fields, [list(known) for known in self.known], codes, np.array(self.labels, np.float32), note)


def with_negatives(positives: Table, field: str, per_row: int, seed: int, known_by: Sequence[str] = ()) -> Table:
    """Return each row with label 1, followed by per_row copies with label 0 in which one field is redrawn.

    Values are drawn by their frequency among the positives. A negative is redrawn while its values in that field and in
    the fields of known_by (default: all other fields) occur together among the positives.
    """
    at = positives.fields.index(field)
    others = [f for f, name in enumerate(positives.fields) if f != at and (not known_by or name in known_by)]
    taken = np.unique(_keys(positives, positives.codes, [*others, at]))
    negatives = np.repeat(positives.codes, per_row, axis=0)
    draw, redo = np.random.default_rng(seed), np.arange(len(negatives))
    for _ in range(MAX_ROUNDS):
        negatives[redo, at] = positives.codes[draw.integers(len(positives.codes), size=redo.size), at]
        redo = redo[np.isin(_keys(positives, negatives[redo], [*others, at]), taken)]
        if not redo.size:
            break
    else:
        raise DataValueError(f"cannot sample negatives for {redo.size} rows: nearly every {field} is a positive")
    groups = [positives.codes, *(negatives[k::per_row] for k in range(per_row))]
    codes = np.stack(groups, axis=1).reshape(-1, len(positives.fields))  # each positive, then its negatives
    labels = np.tile(np.array([1, *[0] * per_row], np.float32), len(positives.codes))
    note = f"{len(positives.codes)} positives, {per_row} negatives each, {field} drawn by popularity, seed {seed}"
    return Table(positives.fields, positives.values, codes, labels, note)


def _keys(table: Table, codes: np.ndarray, columns: Sequence[int]) -> np.ndarray:
    """Return one number per row that identifies its values in some columns."""
    keys = np.zeros(len(codes), np.int64)
    for column in columns:
        keys = keys * len(table.values[column]) + codes[:, column]
    return keys
