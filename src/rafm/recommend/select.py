"""Choose the largest scores of each row tile by tile, and compute a few of them exactly; without the GIL."""

# mypy: ignore-errors
from __future__ import annotations

from ..jit.compile import helper, kernel

LANES = 64  # scores that are compared at a time


@helper()
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


@helper()
def _has_any(scores, least):
    """Return whether a score reaches the least; without a branch inside, so that it is done by vectors."""
    found = False
    for i in range(scores.size):
        found |= scores[i] >= least
    return found


@helper()
def _collect(scores, first, slack, heap, columns, kept, n):
    """Add the entries that are within the slack of the best so far to a list of n; return its new length."""
    least = heap[0] - slack
    for start in range(0, scores.size, LANES):
        some = scores[start : start + LANES]
        if not _has_any(some, least):
            continue
        for i in range(some.size):
            if some[i] >= least and some[i] > -float("inf"):
                columns[n], kept[n] = first + start + i, some[i]
                n += 1
                if some[i] > heap[0]:
                    _sink(heap, some[i])
                    least = heap[0] - slack
    return n


@helper()
def _drop_beaten(slack, heap, columns, kept, n):
    """Keep the entries of a list that are still within the slack; return how many there are."""
    left = 0
    for e in range(n):
        if kept[e] >= heap[0] - slack:
            columns[left], kept[left] = columns[e], kept[e]
            left += 1
    return left


@kernel()
def add_candidates(scores, first, begin, slacks, lists):
    """Add to the list of each row r >= begin the scores within slacks[r] of its k-th largest so far.

    scores: of the columns from `first` on. lists: heaps of the k largest scores of each row, lengths, columns and
    scores of the lists. Returns the first row whose list has no room for all these columns, or the number of rows.
    """
    heaps, lengths, columns, kept = lists
    room = columns.shape[1] - scores.shape[1]
    for r in range(begin, scores.shape[0]):
        if lengths[r] > room:
            lengths[r] = _drop_beaten(slacks[r], heaps[r], columns[r], kept[r], lengths[r])
        if lengths[r] > room:
            return r
        lengths[r] = _collect(scores[r], first, slacks[r], heaps[r], columns[r], kept[r], lengths[r])
    return scores.shape[0]


@kernel()
def drop_beaten(slacks, lists):
    """Keep in each list what may still belong to the k best."""
    heaps, lengths, columns, kept = lists
    for r in range(lengths.size):
        lengths[r] = _drop_beaten(slacks[r], heaps[r], columns[r], kept[r], lengths[r])


@kernel()
def exact_products(left, right, rows, columns, widths, products):
    """Set products to the inner products of left[rows] and right[columns], of the first widths[row], in float64."""
    for e in range(rows.size):
        total, one, other = 0.0, left[rows[e]], right[columns[e]]
        for f in range(widths[rows[e]]):
            total += float(one[f]) * float(other[f])
        products[e] = total
