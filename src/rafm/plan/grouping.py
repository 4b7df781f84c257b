"""Divide the features into groups, so that threads can share them.

A row's sums are computed group by group and then joined, for any number of threads, so models are bit-identical.
A thread owns whole groups. The records of a group are contiguous: the hardware prefetcher of one core never touches
cache lines that another thread is writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..jit.compile import kernel
from ..kernels.tables import GROUPS, Rows
from .ranks import RankPlan

GREEDY_FEATURES = 512  # the most frequent features of a level, each assigned to the group with the lowest count so far


@dataclass(frozen=True)
class Grouping:
    """The order of features in training: by level, heads before tails, by group, then by descending count.

    bounds[k, 0] are the bounds of the groups among the heads of level k, bounds[k, 1] those among its tails.
    """

    order: np.ndarray
    bounds: np.ndarray
    step_rows: int = 0  # of wide steps, see steps.py

    def undo(self, values: np.ndarray) -> np.ndarray:
        """Return values of the first features, given in this order, in the original order."""
        found = np.empty_like(values)
        found[self.order[: len(values)]] = values
        return found

    @cached_property
    def places(self) -> np.ndarray:
        """Position in this order of each feature of the original order."""
        return self.undo(np.arange(self.order.size))

    def group_of(self) -> np.ndarray:
        """Return the group of each feature, in this order."""
        lengths = np.diff(self.bounds[::-1]).ravel()  # reversed: features are ordered by descending level
        return np.repeat(np.arange(lengths.size, dtype=np.uint8) % GROUPS, lengths)

    def split(self, rows: Rows) -> Rows:
        """Reorder the features of each row by group, ascending within each, in place."""
        middles, longest = np.empty(rows.labels.size, np.int64), int(np.diff(rows.indptr).max(initial=0))
        buffers = (np.empty(longest, rows.indices.dtype), np.empty(longest, rows.values.dtype))
        _split_rows(rows.indptr, rows.indices, rows.values, self.group_of(), middles, *buffers)
        return rows._replace(middles=middles)


@kernel()
def _split_rows(indptr, indices, values, group_of, middles, later, later_values):  # type: ignore[no-untyped-def]
    """Move the features of the second group to the end of each row, by way of `later`; record where they begin."""
    for r in range(middles.size):
        at, n = indptr[r], 0
        for e in range(indptr[r], indptr[r + 1]):
            i, x = indices[e], values[e]
            if group_of[i] == 0:
                indices[at], values[at] = i, x
                at += 1
            else:
                later[n], later_values[n] = i, x
                n += 1
        middles[r] = at
        for k in range(n):
            indices[at + k], values[at + k] = later[k], later_values[k]


def deal(plan: RankPlan, counts: np.ndarray, threshold: float = np.inf) -> Grouping:
    """Divide the features of each level into groups with about equal numbers of occurrences.

    Heads are features with counts above the threshold; counts must descend within a level.

    >>> deal(RankPlan("fm", (8,), (6, 6, 0)), np.array([9, 4, 3, 2, 1, 1])).order
    array([0, 4, 1, 2, 3, 5])
    """
    order, bounds = [], np.zeros((plan.n_levels + 1, 2, GROUPS + 1), np.int64)
    for level in range(plan.n_levels, -1, -1):
        start, stop = plan.sizes[level + 1], plan.sizes[level]
        middle = start + int((counts[start:stop] > threshold).sum())
        for part, (first, last) in enumerate(((start, middle), (middle, stop))):
            groups = _deal_counts(counts[first:last])
            order.append(first + np.argsort(groups, kind="stable"))
            bounds[level, part] = first + np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=GROUPS))])
    return Grouping(np.concatenate(order), bounds)


def one_group(sizes: Sequence[int]) -> np.ndarray:
    """Return the bounds of a grouping without heads and with all features in the first group."""
    bounds = np.repeat(np.array(sizes[:-1])[:, None, None], 2 * (GROUPS + 1), axis=1).reshape(-1, 2, GROUPS + 1)
    bounds[:, 0], bounds[:, 1, 0] = np.array(sizes[1:])[:, None], sizes[1:]
    return bounds


def _deal_counts(counts: np.ndarray) -> np.ndarray:
    """Return a group for each feature: greedily for the most frequent ones, then in alternating order."""
    there = np.arange(counts.size) % (2 * GROUPS)  # 0, 1, 1, 0, 0, 1, ...: balances descending counts
    groups, costs = np.minimum(there, 2 * GROUPS - 1 - there), np.zeros(GROUPS)
    for place in range(min(GREEDY_FEATURES, counts.size)):
        groups[place] = costs.argmin()
        costs[groups[place]] += counts[place]
    return groups
