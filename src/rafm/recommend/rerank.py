"""The best items of models with a head: the best by the sums of pairs, ordered by the whole score.

A head is not a sum over two sides, so the items that lead without it are scored with it. The order among these is
exact; an item that the sums of pairs put behind them is not found.
"""

from __future__ import annotations

import numpy as np

from ..model.model import Model
from ..rows.blocks import join_sides
from ..rows.checked import CheckedRows

LEADING = 1000  # items of each context, at least, that are scored with the head
PAIRS = 1 << 16  # rows of a context and an item that are scored at a time


def reranked(
    model: Model, contexts: CheckedRows, items: CheckedRows, found: np.ndarray, top: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best of the items found for each context, -1 and NaN where there are none."""
    best, scores = np.full((contexts.n_rows, top), -1), np.full((contexts.n_rows, top), np.nan)
    step = max(1, PAIRS // max(found.shape[1], 1))
    for first in range(0, contexts.n_rows, step):
        block = found[first : first + step]
        rows, places = np.nonzero(block >= 0)
        values = np.full(block.shape, -np.inf)
        joined = join_sides(contexts, rows + first, items, block[rows, places])
        values[rows, places] = model.scores(joined).astype(float)
        order = np.lexsort((block, -values), axis=1)[:, :top]
        kept = np.take_along_axis(values, order, axis=1)
        chosen = np.where(np.isneginf(kept), -1, np.take_along_axis(block, order, axis=1))
        best[first : first + step, : order.shape[1]] = chosen
        scores[first : first + step, : order.shape[1]] = np.where(np.isneginf(kept), np.nan, kept)
    return best, scores
