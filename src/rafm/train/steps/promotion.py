"""Promote features to a higher level, with new vectors that keep their interactions as they were.

RaFM: a pair (i, j) interacted at the lower of its old levels, l = min(k_i, k_j). At every level p that feature i gets,

    sum_j w_ij (v . v_j^(p) - v_i^(l) . v_j^(l))^2 + ridge |v - middle|^2

summed over the members j of F_p is minimised by its new vector v. w_ij counts the rows in which i and j co-occur; since
most pairs never do, i is assumed to co-occur with OTHERS further members, drawn in proportion to their counts. `middle`
is the old vector, extended by random values. The ridge grows with the share of the old products that no vector can
explain, so that an impossible fit does not lead to long vectors. Features are promoted one after the other, most
frequent first; each is then a member for the next ones.

DiFacto: the new coordinates of a promoted feature are 0, which changes no pair, and are learnt from members that have
them. If there are no such members, they stay random: between zeros, gradients would be 0 forever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...plan.features import PlannedFeatures
from ...plan.ranks import RankPlan
from ...rows.blocks import take_rows
from ...rows.checked import CheckedRows
from ...rows.numbering import number_rows

OTHERS = 100.0
RIDGE, LEAST_RIDGE = 0.3, 1e-4  # in units of the squares that a vector as long as the old one must explain
TINY = 1e-30  # avoids division by 0
CHUNK = 1 << 16  # members summed at a time
PAIRS = 1 << 24  # limit of pairs in the rows in which co-occurrences are counted


def promoted_features(plan: RankPlan, before: np.ndarray) -> np.ndarray:
    """Return the numbers of the features whose level is higher than before.

    >>> promoted_features(RankPlan("rafm", (2, 4), (4, 4, 2, 0)), before=np.array([2, 1, 1, 1]))
    array([1])
    """
    return np.flatnonzero(before < plan.levels())


def count_pairs(batch: CheckedRows, features: PlannedFeatures, promoted: np.ndarray) -> Any:
    """Return a sparse matrix: co-occurrences of each promoted feature with any other, by weight and squared values."""
    from scipy import sparse  # not needed otherwise, and slow to import

    enough = int(np.searchsorted(np.cumsum(np.diff(batch.indptr) ** 2), PAIRS, side="right"))
    rows = number_rows(take_rows(batch, 0, enough), features.numbering)
    squares = np.square(rows.values.astype(float) / features.value_scales[rows.indices])
    shape = (rows.labels.size, features.plan.n_features)
    matrix = sparse.csr_array((squares, rows.indices, rows.indptr), shape)
    weighted = sparse.diags_array(rows.weights.astype(float)) @ matrix
    return sparse.csr_array(sparse.csc_array(weighted)[:, promoted].T @ matrix)


def promote(
    plan: RankPlan, before: np.ndarray, counts: np.ndarray, factors: Sequence[np.ndarray], pair_counts: Any
) -> list[np.ndarray]:
    """Return the vectors of all blocks, with new ones for promoted features.

    before: the previous level of every feature; for new features, the planned one. counts: occurrences of each feature.
    factors: blocks, random where a feature just got them. pair_counts: one line per promoted feature.
    """
    grown, promoted = [block.copy() for block in factors], promoted_features(plan, before)
    for level in range(1, plan.n_levels + 1):
        size = plan.sizes[level]
        rows = np.flatnonzero((promoted < size) & (before[promoted] < level))
        if plan.nested:
            _fit_level(level, before[:size], counts, grown, promoted[rows], pair_counts[rows, :size])
        elif (before[:size] >= level).any():
            grown[level - 1][promoted[rows]] = 0
    return grown


def _fit_level(
    level: int, before: np.ndarray, counts: np.ndarray, factors: list[np.ndarray], rising: np.ndarray, pair_counts: Any
) -> None:
    """Fit the new vectors of a level, one feature after the other; features that had no vector keep a random one."""
    block, known = factors[level - 1], np.flatnonzero(before >= level)
    moments = {old: _moments(block, factors[old - 1], counts, known) for old in np.unique(before[rising]) if old}
    for row, number in enumerate(rising):
        old = before[number]
        if old:
            met, weights = _entries(pair_counts, row)
            usable = (before[met] >= level) | (met < number)  # had the level before, or has just been promoted
            met, weights = met[usable], weights[usable]
            wanted, own = _products(True, before, factors, number, met), factors[old - 1][number].astype(float)
            middle = block[number].astype(float)
            middle[: own.size] = own
            block[number] = _fit(block[met].astype(float), weights, wanted, moments[old], own, middle)


def _fit(
    vectors: np.ndarray,
    weights: np.ndarray,
    wanted: np.ndarray,
    moments: np.ndarray,
    own: np.ndarray,
    middle: np.ndarray,
) -> np.ndarray:
    """Return the vector whose products with `vectors` are near `wanted`, and with all members near those of `own`."""
    rank = middle.size
    matrix = OTHERS * moments[:rank, :rank] + (vectors.T * weights) @ vectors
    pull = OTHERS * moments[:rank, rank:] @ own + (weights * wanted) @ vectors
    total = OTHERS * own @ moments[rank:, rank:] @ own + weights @ wanted**2
    unit = max(np.trace(matrix) / rank, total / max(own @ own, TINY), TINY)

    def solution(ridge: float) -> np.ndarray:
        return np.linalg.solve(matrix + ridge * unit * np.eye(rank), pull + ridge * unit * middle)

    free = solution(LEAST_RIDGE)  # the best fit: what it misses cannot be explained
    missed = (total - 2 * pull @ free + free @ matrix @ free) / max(total, TINY)
    return solution(LEAST_RIDGE + RIDGE * min(max(missed, 0.0), 1.0))


def _moments(high: np.ndarray, low: np.ndarray, counts: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return the count-weighted mean of z z^T over members, where z is the concatenation of their two vectors."""
    total = np.zeros((high.shape[1] + low.shape[1],) * 2)
    for first in range(0, members.size, CHUNK):
        some = members[first : first + CHUNK]
        both = np.concatenate([high[some], low[some]], axis=1, dtype=float)
        total += (both.T * counts[some]) @ both
    return total / max(counts[members].sum(), 1)


def _entries(table: Any, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns and values of one line of a sparse matrix."""
    place = slice(table.indptr[row], table.indptr[row + 1])
    return table.indices[place], table.data[place]


def _products(
    nested: bool, levels: np.ndarray, factors: Sequence[np.ndarray], number: int, others: np.ndarray
) -> np.ndarray:
    """Return the interaction of a feature with others: at the lower of both levels if nested, else summed up to it."""
    shared, found = np.minimum(levels[number], levels[others]), np.zeros(others.size)
    for level in range(1, shared.max(initial=0) + 1):
        own = shared == level if nested else shared >= level
        block = factors[level - 1]
        found[own] += block[others[own]].astype(float) @ block[number]
    return found


def pair_error(
    plan: RankPlan, before: np.ndarray, old: Sequence[np.ndarray], new: Sequence[np.ndarray], pair_counts: Any
) -> float | None:
    """Return sqrt(sum w (now - then)^2 / sum w then^2) over promoted pairs, where w is how often they co-occur.

    None if all products were 0.
    """
    after, missed, total = plan.levels(), 0.0, 0.0
    for row, number in enumerate(promoted_features(plan, before)):
        met, weights = _entries(pair_counts, row)
        rises = np.minimum(before[number], before[met]) < np.minimum(after[number], after[met])
        once = (before[met] == after[met]) | (met > number)  # pairs of two promoted features appear twice; not i with i
        met, weights = met[rises & once], weights[rises & once]
        then = _products(plan.nested, before, old, number, met)
        now = _products(plan.nested, after, new, number, met)
        missed, total = missed + weights @ (now - then) ** 2, total + weights @ then**2
    return float(np.sqrt(missed / total)) if total else None
