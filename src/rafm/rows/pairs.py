"""Pairs of rows: each row with the same context and another item.

The features of a row have two sides, those of the item and all others, which are the context. Rows are numbered here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..jit.compile import helper, kernel
from ..kernels.tables import PairedRows, Rows
from .hashes import entry_hashes, mixed, row_sums


class Items(NamedTuple):
    """Features of items, one row each, in groups like the rows that they become part of."""

    indptr: np.ndarray
    middles: np.ndarray
    indices: np.ndarray
    values: np.ndarray

    @property
    def n_items(self) -> int:
        return self.middles.size

    def in_one_group(self) -> Items:
        """Return the same items with features ascending, as rows are scored."""
        owners = np.repeat(np.arange(self.n_items), np.diff(self.indptr))
        order = np.lexsort((self.indices, owners))
        return Items(self.indptr, self.indptr[1:], self.indices[order], self.values[order])


class DrawnRows(NamedTuple):
    """Rows, and the other item of each: its number in items, or -1 if there is none."""

    rows: Rows
    drawn: np.ndarray
    items: Items
    is_item: np.ndarray  # per feature: whether it belongs to items

    def pairs(self, order: np.ndarray) -> PairedRows:
        """Return each row of the order, followed by the same row with its other item.

        Both have the weight of the row, or 0 if there is no other item.
        """
        rows, is_drawn, drawn = self.rows, self.drawn[order] >= 0, np.maximum(self.drawn[order], 0)
        lengths, others = np.diff(rows.indptr)[order], np.diff(self.items.indptr)[drawn]
        room, n = int(2 * lengths.sum() + others.sum()), 2 * order.size  # more than is needed
        found = (np.zeros(n + 1, np.int64), np.empty(n, np.int64), np.empty(room, np.int32), np.empty(room, np.float32))
        own = (rows.indptr, rows.middles, rows.indices, rows.values)
        size = _pair_rows(own, tuple(self.items), order, drawn, self.is_item, found)
        labels = np.tile(np.array([1, 0], np.float32), order.size)
        weights = np.repeat(np.where(is_drawn, rows.weights[order], np.float32(0)), 2)
        return PairedRows(found[0], found[1], found[2][:size], found[3][:size], labels, weights)


@helper()
def _exchange_item(own, span, items, other, is_item, found, at):  # type: ignore[no-untyped-def]
    """Merge the context of a row's group with another item, by number; return where they end."""
    (_, _, indices, values), (_, _, item_indices, item_values), (_, _, out, out_values) = own, items, found
    (a, b), (c, d) = span, other
    while a < b or c < d:
        if a < b and is_item[indices[a]]:
            a += 1
        elif c == d or (a < b and indices[a] < item_indices[c]):
            out[at], out_values[at] = indices[a], values[a]
            a, at = a + 1, at + 1
        else:
            out[at], out_values[at] = item_indices[c], item_values[c]
            c, at = c + 1, at + 1
    return at


@kernel()
def _pair_rows(own, items, order, drawn, is_item, found):  # type: ignore[no-untyped-def]
    """Write rows and their counterparts; return the number of entries."""
    (indptr, middles, indices, values), (item_indptr, item_middles, _, _) = own, items
    out_indptr, out_middles, out, out_values = found
    at = 0
    for t in range(order.size):
        r, item = order[t], drawn[t]
        out_middles[2 * t] = at + middles[r] - indptr[r]
        for e in range(indptr[r], indptr[r + 1]):
            out[at], out_values[at] = indices[e], values[e]
            at += 1
        out_indptr[2 * t + 1] = at
        span, other = (indptr[r], middles[r]), (item_indptr[item], item_middles[item])
        at = _exchange_item(own, span, items, other, is_item, found, at)
        out_middles[2 * t + 1] = at
        span, other = (middles[r], indptr[r + 1]), (item_middles[item], item_indptr[item + 1])
        at = _exchange_item(own, span, items, other, is_item, found, at)
        out_indptr[2 * t + 2] = at
    return at


def side_keys(rows: Rows, is_item: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a 64-bit hash of the context of each row, and one of its item."""
    hashes, inside = entry_hashes(rows.indices, rows.values), is_item[rows.indices]

    def keys(kept: np.ndarray) -> np.ndarray:
        return mixed(row_sums(np.where(kept, hashes, np.uint64(0)), rows.indptr))

    return keys(~inside), keys(inside)


def pick_items(rows: Rows, chosen: np.ndarray, is_item: np.ndarray) -> Items:
    """Return the items of the chosen rows."""
    inside = is_item[rows.indices]
    ends = np.concatenate([[0], np.cumsum(inside)])
    first, lengths = ends[rows.indptr[chosen]], np.diff(ends[rows.indptr])[chosen]
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    entries = np.flatnonzero(inside)[np.repeat(first - indptr[:-1], lengths) + np.arange(indptr[-1])]
    return Items(indptr, indptr[:-1] + ends[rows.middles[chosen]] - first, rows.indices[entries], rows.values[entries])


def join_items(parts: list[Items]) -> Items:
    """Return all items, one part after the other."""
    shifts = np.cumsum([0, *(part.indices.size for part in parts)])
    indptr = np.concatenate([[0], *(part.indptr[1:] + shift for part, shift in zip(parts, shifts))])
    middles = np.concatenate([part.middles + shift for part, shift in zip(parts, shifts)])
    indices, values = (np.concatenate([part[k] for part in parts]) for k in (2, 3))
    return Items(indptr.astype(np.int64), middles.astype(np.int64), indices, values)
