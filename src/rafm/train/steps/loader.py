"""Prepare blocks of rows for the kernels, and the order in which training visits rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...errors import DataValueError
from ...families.family import Family
from ...kernels.tables import Rows
from ...plan.grouping import Grouping
from ...rows.checked import Batch, CheckedRows, require_checked
from ...rows.numbering import Numbering, number_rows
from ...rows.source import InMemory, RowSource

NEIGHBOURS = 16  # consecutive rows that are visited together in every epoch


def as_source(data: CheckedRows | RowSource) -> RowSource:
    """Wrap rows as a source of one block; return a source unchanged."""
    if isinstance(data, Batch):
        require_checked(data)
        return InMemory(data)
    return data


def labelled_blocks(source: RowSource, family: Family) -> Iterator[CheckedRows]:
    """Yield the blocks in order, checking that rows have labels and, for some families, exactly two features."""
    done = 0  # rows of earlier blocks, for messages
    for number in range(source.n_blocks):
        batch = source.block(number)
        if batch.labels is None:
            raise DataValueError("the rows have no labels")
        if family.features_per_row is not None:
            _check_lengths(batch, family, done)
        done += batch.n_rows
        yield batch


def _check_lengths(batch: CheckedRows, family: Family, done: int) -> None:
    # Explicit zeros are not features: count the nonzero values.
    lengths = np.diff(np.concatenate([[0], np.cumsum(batch.values != 0)])[batch.indptr])
    if (lengths != family.features_per_row).any():
        row = int(np.flatnonzero(lengths != family.features_per_row)[0])
        raise DataValueError(
            f"model {family.name!r} needs exactly two features in every row, such as user and item; "
            f"row {done + row + 1} has {lengths[row]}. Keep two columns, or use model='rafm'."
        )


class Blocks:
    """Blocks of a source, prepared for the kernels: features numbered, labels, weights and values scaled.

    They are cached if the source is in memory. With a seed, the rows of each block are shuffled, always the same way;
    with a grouping, their features are split into groups for training.
    """

    def __init__(
        self,
        source: RowSource,
        numbering: Numbering,
        scales: np.ndarray,
        label_scale: float = 1.0,
        seed: int | None = None,
        grouping: Grouping | None = None,
        weight_scale: float = 1.0,
    ):
        self.source, self.numbering, self.label_scale, self.seed = source, numbering, np.float32(label_scale), seed
        self.grouping, self.weight_scale = grouping, weight_scale
        self.scales = None if (scales == 1).all() else scales
        self.cached: dict[int, Rows] = {}

    def __iter__(self) -> Iterator[Rows]:
        return (self.rows(number) for number in range(self.source.n_blocks))

    def rows(self, number: int) -> Rows:
        """Return one block."""
        if number in self.cached:
            return self.cached[number]
        batch = self.source.block(number)
        if batch.labels is None:
            raise DataValueError("the rows have no labels")
        order = None if self.seed is None else np.random.default_rng([self.seed, 0, number]).permutation(batch.n_rows)
        rows = number_rows(batch, self.numbering, order)
        rows = rows._replace(
            labels=rows.labels / self.label_scale, weights=rows.weights / np.float32(self.weight_scale)
        )
        if self.scales is not None:
            rows = rows._replace(values=rows.values / self.scales[rows.indices])
        if self.grouping is not None:
            rows = self.grouping.split(rows)
        if self.source.in_memory or self.source.n_blocks == 1:
            self.cached[number] = rows
        return rows


def visiting_order(n_rows: int, draw: np.random.Generator) -> np.ndarray:
    """Return all rows in random order, in runs of NEIGHBOURS consecutive ones; where runs begin is random too.

    Rows are shuffled when they are loaded, so consecutive rows are unrelated; visiting them together saves most cache
    misses.

    >>> sorted(visiting_order(100, np.random.default_rng(0)).tolist()) == list(range(100))
    True
    """
    starts = np.arange(-int(draw.integers(NEIGHBOURS)), n_rows, NEIGHBOURS)
    order = (draw.permutation(starts)[:, None] + np.arange(NEIGHBOURS)).ravel()
    return order[(order >= 0) & (order < n_rows)]
