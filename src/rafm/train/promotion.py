"""Features that rise to a higher level: their new vectors, such that pairs go on to interact as they did.

RaFM: a pair (i, j) interacted at the lower of its old levels, l = min(k_i, k_j). At every level p that feature i gets,

    sum_j w_ij (v . v_j^(p) - v_i^(l) . v_j^(l))^2 + ridge |v - middle|^2

over the members j of F_p is least at its new vector v. w_ij is how often i and j meet in rows; as most pairs meet in
none, i is taken to meet OTHERS more members, drawn by their counts. The middle is the old vector, filled up with fresh
numbers. The ridge grows with the share of the old products that no vector explains: what can be kept is kept, and what
cannot does not end in long vectors. Features come one after the other, frequent ones first, and are then members for
those that follow.

DiFacto: new coordinates are 0 on the promoted side, which changes no pair; they learn from members that have them. If
there are none, they stay fresh: between zeros nothing would ever be learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..plan.features import Features
from ..plan.ranks import RankPlan
from ..rows.blocks import take_rows
from ..rows.checked import CheckedRows
from ..rows.numbering import number_rows

OTHERS = 100.0
RIDGE, LEAST_RIDGE = 0.3, 1e-4  # in units of the squares that a vector as long as the old one must explain
TINY = 1e-30
CHUNK = 1 << 16  # members that are summed at a time
PAIRS = 1 << 24  # in the rows that tell which features meet


def promoted_features(plan: RankPlan, before: np.ndarray) -> np.ndarray:
    """Return the numbers of features whose level was lower.

    >>> promoted_features(RankPlan("rafm", (2, 4), (4, 4, 2, 0)), before=np.array([2, 1, 1, 1]))
    array([1])
    """
    return np.flatnonzero(before < plan.levels())


def count_meetings(batch: CheckedRows, features: Features, promoted: np.ndarray) -> Any:
    """Return a sparse table: how often each promoted feature meets each other one, by weights and squared values."""
    from scipy import sparse  # not needed otherwise, and slow to import

    enough = int(np.searchsorted(np.cumsum(np.diff(batch.indptr) ** 2), PAIRS, side="right"))
    rows = number_rows(take_rows(batch, 0, enough), features.numbering)
    squares = np.square(rows.values.astype(float) / features.value_scales[rows.indices])
    shape = (rows.labels.size, features.plan.n_features)
    matrix = sparse.csr_array((squares, rows.indices, rows.indptr), shape)
    weighted = sparse.diags_array(rows.weights.astype(float)) @ matrix
    return sparse.csr_array(sparse.csc_array(weighted)[:, promoted].T @ matrix)


def promote(
    plan: RankPlan, before: np.ndarray, counts: np.ndarray, factors: Sequence[np.ndarray], meetings: Any
) -> list[np.ndarray]:
    """Return the vectors of all blocks, with new ones for promoted features.

    before: the level of every feature until now; that of the plan if the feature is new. counts: how often each was
    seen. factors: blocks that are fresh where a feature has just got them. meetings: a row per promoted feature.
    """
    grown, promoted = [block.copy() for block in factors], promoted_features(plan, before)
    for level in range(1, plan.n_levels + 1):
        size = plan.sizes[level]
        rows = np.flatnonzero((promoted < size) & (before[promoted] < level))
        if plan.nested:
            _fit_level(level, before[:size], counts, grown, promoted[rows], meetings[rows, :size])
        elif (before[:size] >= level).any():
            grown[level - 1][promoted[rows]] = 0
    return grown


def _fit_level(
    level: int, before: np.ndarray, counts: np.ndarray, factors: list[np.ndarray], rising: np.ndarray, meetings: Any
) -> None:
    """Set the vectors that features get at a level, one after the other; those that had no vector keep a fresh one."""
    block, known = factors[level - 1], np.flatnonzero(before >= level)
    moments = {old: _moments(block, factors[old - 1], counts, known) for old in np.unique(before[rising]) if old}
    for row, number in enumerate(rising):
        old = before[number]
        if old:
            met, weights = _entries(meetings, row)
            usable = (before[met] >= level) | (met < number)
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
    """Return the vector whose products with vectors are nearly as wanted, and with all members nearly those of own."""
    rank = middle.size
    matrix = OTHERS * moments[:rank, :rank] + (vectors.T * weights) @ vectors
    pull = OTHERS * moments[:rank, rank:] @ own + (weights * wanted) @ vectors
    total = OTHERS * own @ moments[rank:, rank:] @ own + weights @ wanted**2
    unit = max(np.trace(matrix) / rank, total / max(own @ own, TINY), TINY)

    def solution(ridge: float) -> np.ndarray:
        return np.linalg.solve(matrix + ridge * unit * np.eye(rank), pull + ridge * unit * middle)

    free = solution(LEAST_RIDGE)
    missed = (total - 2 * pull @ free + free @ matrix @ free) / max(total, TINY)
    return solution(LEAST_RIDGE + RIDGE * min(max(missed, 0.0), 1.0))


def _moments(high: np.ndarray, low: np.ndarray, counts: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return the mean of z z^T, z being both vectors of a member, over members drawn by their counts."""
    total = np.zeros((high.shape[1] + low.shape[1],) * 2)
    for first in range(0, members.size, CHUNK):
        some = members[first : first + CHUNK]
        both = np.concatenate([high[some], low[some]], axis=1, dtype=float)
        total += (both.T * counts[some]) @ both
    return total / max(counts[members].sum(), 1)


def _entries(table: Any, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns and values of a row of a sparse table."""
    place = slice(table.indptr[row], table.indptr[row + 1])
    return table.indices[place], table.data[place]


def _products(
    nested: bool, levels: np.ndarray, factors: Sequence[np.ndarray], number: int, others: np.ndarray
) -> np.ndarray:
    """Return how a feature interacts with others: at the lower of two levels, or at all up to it."""
    shared, found = np.minimum(levels[number], levels[others]), np.zeros(others.size)
    for level in range(1, shared.max(initial=0) + 1):
        own = shared == level if nested else shared >= level
        block = factors[level - 1]
        found[own] += block[others[own]].astype(float) @ block[number]
    return found


def pair_error(
    plan: RankPlan, before: np.ndarray, old: Sequence[np.ndarray], new: Sequence[np.ndarray], meetings: Any
) -> float | None:
    """Return sqrt(sum w (now - then)^2 / sum w then^2) over the pairs that rise, w being how often they meet in rows.

    None if all of them were 0.
    """
    after, missed, total = plan.levels(), 0.0, 0.0
    for row, number in enumerate(promoted_features(plan, before)):
        met, weights = _entries(meetings, row)
        rises = np.minimum(before[number], before[met]) < np.minimum(after[number], after[met])
        once = (before[met] == after[met]) | (met > number)  # and never with itself
        met, weights = met[rises & once], weights[rises & once]
        then = _products(plan.nested, before, old, number, met)
        now = _products(plan.nested, after, new, number, met)
        missed, total = missed + weights @ (now - then) ** 2, total + weights @ then**2
    return float(np.sqrt(missed / total)) if total else None
