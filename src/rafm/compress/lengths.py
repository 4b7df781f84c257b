"""Choose the length of every vector under a budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .rotation import chunks

LENGTHS = (2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
FINE_LENGTHS = (*range(1, 9), *range(10, 17, 2), *range(20, 33, 4), *LENGTHS[7:])
BISECTIONS = 80
LEAST_PRICE = 1e-24  # of the highest one
SMALL_CHUNK = 1 << 15  # factors at a time, of which several copies are made


def lengths_up_to(rank: int, known: Sequence[int] = (), grid: Sequence[int] = LENGTHS) -> tuple[int, ...]:
    """Return the lengths to choose from: 0, those of the grid below the rank, those known, and the rank.

    >>> lengths_up_to(20)
    (0, 2, 4, 8, 12, 16, 20)
    """
    return (0, *sorted({length for length in grid if length < rank} | {*known, rank}))


def missed(vectors: np.ndarray, importance: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    """Return what a feature loses by each length: importance_i sum_{f >= length} v_if^2 s_f.

    s_f = sum_i importance_i v_if^2 / sum_i importance_i is what coordinate f meets in other features.
    """
    squares = np.zeros(vectors.shape[1])
    for some in chunks(vectors):
        squares += importance[some] @ vectors[some].astype(float) ** 2
    met, found = squares / max(importance.sum(), 1e-300), np.empty((len(vectors), len(lengths)))
    for some in chunks(vectors, SMALL_CHUNK):
        parts = vectors[some].astype(float) ** 2 * met
        # summed from the end, so that a part that is all 0 costs exactly 0
        rest = np.cumsum(np.pad(parts, ((0, 0), (0, 1)))[:, ::-1], axis=1)[:, ::-1]
        found[some] = rest[:, list(lengths)] * importance[some, None]
    return found


def choose_lengths(losses: np.ndarray, lengths: Sequence[int], budget: float) -> np.ndarray:
    """Return the length of each vector that minimises losses_i(length) + price * length, in total within the budget.

    The price, the same for all, is the lowest that fits; it is found by bisection.

    >>> choose_lengths(np.array([[9.0, 1, 0], [2, 1, 0]]), (0, 2, 4), budget=4)
    array([2, 0])
    """
    sizes = np.array(lengths)

    def chosen(some: np.ndarray, price: float) -> np.ndarray:
        return sizes[(some + price * sizes).argmin(axis=1)]  # the shortest of equals

    if (longest := chosen(losses, 0.0)).sum() <= budget:
        return longest
    high = float(losses.max(initial=0.0)) + 1e-300  # nothing is worth more
    low, shortest = high * LEAST_PRICE, chosen(losses, high)
    still = np.flatnonzero(longest != shortest)  # features whose length depends on the price, between low and high
    some, spent = losses[still], int(np.delete(shortest, still).sum())
    for _ in range(BISECTIONS):
        price = float(np.sqrt(low) * np.sqrt(high))
        lengths_of_some = chosen(some, price)
        is_too_much = spent + lengths_of_some.sum() > budget
        low, high = (price, high) if is_too_much else (low, price)
        (longest if is_too_much else shortest)[still] = lengths_of_some
        is_open = longest[still] != shortest[still]
        spent += int(shortest[still[~is_open]].sum())
        still, some = still[is_open], some[is_open]
        if not still.size:
            break
    return shortest
