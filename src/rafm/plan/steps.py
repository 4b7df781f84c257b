"""Wide steps: how many rows each has, and the nonzeros of each by feature.

A block of rows is divided into steps of consecutive rows, always the same ones, so they are indexed once, when the rows
are loaded. The first steps of a training are short: 16 rows, doubled every 32 steps from the 64th on, so that a step is
never longer than a 32nd of the rows seen before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..jit.compile import helper, kernel
from ..kernels.tables import SHARES, IndexedRows, Rows
from .grouping import Grouping, one_group
from .ranks import RankPlan

AUTO_STEP, LEAST_AUTO_STEP = 1 << 12, 1 << 10  # rows of a step, halved down to the second for large ranks
AUTO_FLOATS = 1 << 20  # limit of the sums of a step's rows, and of its nonzeros
FIRST_STEP, STEPS_PER_SIZE, DOUBLINGS = 16, 32, 12  # at most 65,536 rows, whose positions take 16 bits
LEAST_DAMPING = 16.0
STEPS_PER_EPOCH = 50  # at least, or steps are too few and too long to learn by
FEATURE_COST = 3  # of stepping a feature, in nonzeros
DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS


def choose_step_rows(wanted: str | int, plan: RankPlan, nonzeros: float) -> int:
    """Return the rows per wide step: those wanted, or as many as the cache has room for.

    >>> [choose_step_rows("auto", RankPlan("fm", (rank,), (9, 9, 0)), nonzeros=39) for rank in (32, 512)]
    [4096, 2048]
    """
    if wanted != "auto":
        return int(wanted)
    sums = sum(plan.block_ranks) * (2 if plan.nested else 1) * (2 if plan.n_field_weights else 1)
    size = AUTO_STEP
    while size > LEAST_AUTO_STEP and size * max(sums, nonzeros) > AUTO_FLOATS:
        size //= 2
    return size


def step_size(done: int, step_rows: int) -> int:
    """Return the rows of the step after `done` steps.

    >>> [step_size(done, 4096) for done in (0, 63, 64, 95, 96, 300, 10_000)]
    [16, 16, 32, 32, 64, 4096, 4096]
    """
    return min(step_rows, FIRST_STEP << min(max(0, done // STEPS_PER_SIZE - 1), DOUBLINGS))


def short_steps(first: int, stop: int, done: int, step_rows: int) -> Iterator[int]:
    """Yield the bounds of steps that cover rows [first, stop), after `done` steps.

    >>> [*short_steps(0, 100, done=62, step_rows=4096)]
    [0, 16, 32, 64, 96, 100]
    """
    while first < stop:
        yield first
        first, done = first + step_size(done, step_rows), done + 1
    yield stop


@dataclass(frozen=True)
class WholeSteps(Grouping):
    """Features in one group and in their own order, for wide steps."""

    damping: float = LEAST_DAMPING

    def split(self, rows: Rows) -> IndexedRows:  # type: ignore[override]
        """Return the rows with an index of their steps."""
        n_rows = rows.labels.size
        return index_steps(rows, np.append(np.arange(0, n_rows, self.step_rows), n_rows))


def whole_steps(plan: RankPlan, step_rows: int, nonzeros: float) -> WholeSteps:
    """Keep the order of the features, for steps of `step_rows` rows; nonzeros: of one row, on average.

    All features of a row step at once, so the score of the row moves further the more there are: damp them all by that
    number, see optimizers/descent.py.
    """
    return WholeSteps(np.arange(plan.n_features), one_group(plan.sizes), step_rows, max(LEAST_DAMPING, nonzeros))


def step_order(n_rows: int, step_rows: int, draw: np.random.Generator) -> np.ndarray:
    """Return all rows with the steps in random order; what is left over after whole steps comes last.

    >>> step_order(5, 2, np.random.default_rng(3))
    array([2, 3, 0, 1, 4])
    """
    whole = n_rows // step_rows
    order = draw.permutation(whole)[:, None] * step_rows + np.arange(step_rows)
    return np.append(order.ravel(), np.arange(whole * step_rows, n_rows))


def index_steps(rows: Rows | IndexedRows, firsts: np.ndarray) -> IndexedRows:
    """Index the nonzeros of steps by feature; firsts are the bounds of the steps."""
    a, b = rows.indptr[firsts[0]], rows.indptr[firsts[-1]]
    entries, longest = int(b - a), int(np.diff(rows.indptr[firsts]).max(initial=0))
    features, starts = np.empty(entries, np.int32), np.zeros(entries + 1, np.int64)
    entry_rows, entry_values = np.empty(entries, np.uint16), np.empty(entries, np.float32)
    found = (features, starts, entry_rows, entry_values, np.zeros((firsts.size - 1, SHARES + 1), np.int64))
    buffers = np.empty(longest, np.uint64), np.empty(longest, np.uint64), np.empty(longest, np.uint16)
    n_digits = -(-int(rows.indices[a:b].max(initial=1)).bit_length() // DIGIT_BITS)
    counts = np.empty(DIGITS, np.int64)
    size = _index_steps(rows.indptr, rows.indices, rows.values, firsts, n_digits, found, (*buffers, counts))
    own = (rows.indptr, rows.middles, rows.indices, rows.values, rows.labels, rows.weights)
    # Copies, because there are several times fewer features than nonzeros.
    return IndexedRows(*own, firsts, features[:size].copy(), starts[: size + 1].copy(), *found[2:])


@helper()
def _code_nonzeros(indptr, indices, first, stop, codes, row_of):  # type: ignore[no-untyped-def]
    """Set codes to feature << 32 | position and row_of to the row, for all nonzeros of rows; return their number."""
    n = 0
    for r in range(first, stop):
        for place in range(indptr[r], indptr[r + 1]):
            codes[n], row_of[n] = np.uint64(np.int64(indices[place]) << 32 | n), np.uint16(r - first)
            n += 1
    return n


@helper()
def _sort_by_digit(codes, n, shift, sorted_codes, counts):  # type: ignore[no-untyped-def]
    """Sort codes by one digit of theirs, stably."""
    shift, mask, before = np.uint64(shift), np.uint64(DIGITS - 1), 0
    for digit in range(DIGITS):
        counts[digit] = 0
    for k in range(n):
        counts[(codes[k] >> shift) & mask] += 1
    for digit in range(DIGITS):
        counts[digit], before = before, before + counts[digit]
    for k in range(n):
        own = (codes[k] >> shift) & mask
        sorted_codes[counts[own]] = codes[k]
        counts[own] += 1


@helper()
def _share_out(starts, first, stop, bounds):  # type: ignore[no-untyped-def]
    """Divide features into shares of about equal cost."""
    total, q = starts[stop] - starts[first] + FEATURE_COST * (stop - first), first
    for share in range(SHARES):
        bounds[share] = q
        while q < stop and starts[q] - starts[first] + FEATURE_COST * (q - first) < total * (share + 1) // SHARES:
            q += 1
    bounds[SHARES] = stop


@kernel()
def _index_steps(indptr, indices, values, firsts, n_digits, found, buffers):  # type: ignore[no-untyped-def]
    """Fill in the index of all steps; return the number of features listed."""
    features, starts, entry_rows, entry_values, shares = found
    codes, others, row_of, counts = buffers
    size, e = 0, 0
    for s in range(firsts.size - 1):
        n, begin, last = _code_nonzeros(indptr, indices, firsts[s], firsts[s + 1], codes, row_of), size, np.int64(-1)
        for digit in range(n_digits):
            _sort_by_digit(codes, n, 32 + digit * DIGIT_BITS, others, counts)
            codes, others = others, codes
        for k in range(n):
            i, place = np.int64(codes[k] >> np.uint64(32)), np.int64(codes[k] & np.uint64(0xFFFFFFFF))
            if i != last:
                features[size], starts[size], last = i, e, i
                size += 1
            entry_rows[e], entry_values[e] = row_of[place], values[indptr[firsts[s]] + place]
            e += 1
        starts[size] = e
        _share_out(starts, begin, size, shares[s])
    return size
