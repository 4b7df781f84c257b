"""Choose the largest scores of each row, and compute a few of them exactly; single-threaded, without the GIL."""

# mypy: ignore-errors
from __future__ import annotations

from ..jit.cache import kernel

LANES = 64  # scores that are compared at a time


@kernel()
def _sink(heap, score):
    """Replace the smallest of a heap, which is its first, and restore the order."""
    place, n = 0, heap.size
    while 2 * place + 1 < n:
        child = 2 * place + 1
        if child + 1 < n and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= score:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = score


@kernel()
def _has_any(scores, least):
    """Return whether a score reaches the least; without a branch inside, so that it is done by vectors."""
    found = False
    for i in range(scores.size):
        found |= scores[i] >= least
    return found


@kernel()
def _collect(scores, slack, heap, columns):
    """List all columns that were within the slack of the best so far; return how many there are."""
    n, least = 0, -float("inf")
    for first in range(0, scores.size, LANES):
        some = scores[first : first + LANES]
        if not _has_any(some, least):
            continue
        for i in range(some.size):
            if some[i] >= least and some[i] > -float("inf"):
                columns[n] = first + i
                n += 1
                if some[i] > heap[0]:
                    _sink(heap, some[i])
                    least = heap[0] - slack
    return n


@kernel()
def select_candidates(scores, slacks, heap, listed, rows, columns):
    """List entries within slacks[r] of the k-th largest score of row r, k = heap.size; return how many there are.

    If they do not fit into rows and columns, the number needed is returned all the same. listed: room for a row.
    """
    n = 0
    for r in range(scores.shape[0]):
        heap[:] = -float("inf")
        n_listed = _collect(scores[r], slacks[r], heap, listed)
        for e in range(n_listed):
            if scores[r, listed[e]] >= heap[0] - slacks[r]:
                if n < rows.size:
                    rows[n], columns[n] = r, listed[e]
                n += 1
    return n


@kernel()
def exact_products(left, right, rows, columns, products):
    """Set products to the inner products of left[rows] and right[columns], summed in float64."""
    for e in range(rows.size):
        total, one, other = 0.0, left[rows[e]], right[columns[e]]
        for f in range(one.size):
            total += float(one[f]) * float(other[f])
        products[e] = total
