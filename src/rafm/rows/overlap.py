"""Compare the ids of rows with those of other rows."""

from __future__ import annotations

import numpy as np

from .source import RowSource
from .stats import count_rows

CHUNK = 1 << 20  # nonzeros that are compared at a time


def known_ids(rows: RowSource, others: RowSource, enough: float = 0.5) -> np.ndarray:
    """Return whether the id of each nonzero of the rows occurs in the others, which are read until enough of them do.

    >>> from .checked import Batch, check_batch
    >>> from .source import InMemory
    >>> rows = [Batch(np.array([0, 2]), np.array(ids), np.ones(2), 9, np.ones(1)) for ids in ([3, 4], [4, 7])]
    >>> known_ids(*(InMemory(check_batch(one)) for one in rows))
    array([False,  True])
    """
    found = count_rows(rows.block(number) for number in range(rows.n_blocks))
    is_known, needed = np.zeros(found.ids.size, bool), enough * found.counts.sum()
    for number in range(others.n_blocks):
        indices = others.block(number).indices
        for start in range(0, indices.size, CHUNK):
            is_known |= np.isin(found.ids, indices[start : start + CHUNK])
            if found.counts[is_known].sum() >= needed:
                break
        else:
            continue
        break
    return np.repeat(is_known, found.counts)
