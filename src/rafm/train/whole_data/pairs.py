"""Distinct contexts and items of the training rows, and which of them were seen together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...errors import DataValueError
from ...kernels.tables import Rows
from ...kernels.whole_data import Side
from ...rows.pairs import Items, side_keys
from ..steps.negatives import NEVER, Numbers, distinct_rows

CONTEXT, ITEM = 0, 1


class Pairs(NamedTuple):
    """Positives, each pair once: by context, then by item.

    tables: features of contexts and of items. numbers: of the contexts and items by their keys. starts: per context its
    first positive, then the number of all. items: per positive. weights: sums of those of its rows.
    """

    tables: tuple[Items, Items]
    numbers: tuple[Numbers, Numbers]
    starts: np.ndarray
    items: np.ndarray
    weights: np.ndarray

    @property
    def contexts(self) -> np.ndarray:
        """The context of each positive."""
        return np.repeat(np.arange(self.starts.size - 1, dtype=np.int32), np.diff(self.starts))

    def sides(self, n_features: int) -> tuple[Side, Side]:
        """Return contexts and items by feature, with their positives."""
        order = np.argsort(self.items, kind="stable").astype(np.int32)
        item_starts = _starts(self.items, self.tables[ITEM].n_items)
        own = np.arange(order.size, dtype=np.int32)
        return (
            Side(*_by_feature(self.tables[CONTEXT], n_features), self.starts, self.items, own),
            Side(*_by_feature(self.tables[ITEM], n_features), item_starts, self.contexts[order], order),
        )


def find_pairs(blocks: Iterable[Rows], is_item: np.ndarray) -> Pairs:
    """Return the contexts and items of the rows, and their pairs."""
    rows = [*blocks]
    keys = [side_keys(block, is_item) for block in rows]
    both = Numbers(np.concatenate([own for own, _ in keys])), Numbers(np.concatenate([own for _, own in keys]))
    sizes = [block.labels.size for block in rows]
    tables = [distinct_rows(rows, sizes, one, side) for one, side in zip(both, (~is_item, is_item))]
    contexts, items = (np.concatenate([one.of(own[side]) for own in keys]) for side, one in enumerate(both))
    if tables[ITEM].n_items < 2:
        raise DataValueError("ranking needs at least two different items in the training rows")
    n_items, weights = tables[ITEM].n_items, np.concatenate([block.weights for block in rows])
    codes, inverse = np.unique(contexts.astype(np.int64) * n_items + items, return_inverse=True)
    totals = np.bincount(inverse, weights).astype(np.float32)
    starts = _starts(codes // n_items, tables[CONTEXT].n_items)
    contexts_table, items_table = (table.in_one_group() for table in tables)
    return Pairs((contexts_table, items_table), both, starts, (codes % n_items).astype(np.int32), totals)


def pairs_of(rows: Rows, is_item: np.ndarray, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of context and item of each row, NEVER for those that no training row has."""
    numbers = [one.of(keys) for one, keys in zip(pairs.numbers, side_keys(rows, is_item))]
    known = (numbers[CONTEXT] != NEVER) & (numbers[ITEM] != NEVER)
    return numbers[CONTEXT][known], numbers[ITEM][known]


def _starts(owners: np.ndarray, n: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=n))]).astype(np.int64)


def _by_feature(table: Items, n_features: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = np.argsort(table.indices, kind="stable")
    owners = np.repeat(np.arange(table.n_items, dtype=np.int32), np.diff(table.indptr))
    return _starts(table.indices, n_features), owners[order], table.values[order]
