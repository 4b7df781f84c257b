"""Choose the largest scores of each row; single-threaded, without the GIL."""

# mypy: ignore-errors
from __future__ import annotations

from ..jit.cache import kernel


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
def select_candidates(scores, slacks, heap, rows, columns):
    """List entries within slacks[r] of the k-th largest score of row r, k = heap.size; return how many there are.

    If they do not fit into rows and columns, the number needed is returned all the same.
    """
    n = 0
    for r in range(scores.shape[0]):
        heap[:] = -float("inf")
        for i in range(scores.shape[1]):
            if scores[r, i] > heap[0]:
                _sink(heap, scores[r, i])
        least = heap[0] - slacks[r]
        for i in range(scores.shape[1]):
            if scores[r, i] >= least and scores[r, i] > -float("inf"):
                if n < rows.size:
                    rows[n], columns[n] = r, i
                n += 1
    return n
