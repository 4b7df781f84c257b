"""Compare the ids of rows with those of other rows, and whole rows with others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .hashes import mixed, row_hashes
from .source import RowSource
from .stats import count_rows

CHUNK = 1 << 20  # nonzeros that are compared at a time
MOST_HASHES = 1 << 17  # of rows that are compared; of more, those with the lowest hashes
MOST, LUCK = 0.5, 3.0  # share of rows that chance does not explain, and standard deviations of what it explains


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


@dataclass(frozen=True)
class Copies:
    """How many of some rows are among others, labels included; repeated: share of the others that are there twice.

    Where rows have few features, equal ones are no surprise: any two samples share as many as one has twice.
    """

    n_rows: int = 0
    n_compared: int = 0  # a sample of many
    n_copies: int = 0  # among these
    repeated: float = 0.0

    def are_most(self) -> bool:
        """Return whether most rows that chance does not explain are copies, and more than it may explain with luck.

        >>> Copies(10, 10, 5, 0.0).are_most(), Copies(10, 10, 6, 0.0).are_most()
        (False, True)
        >>> Copies(100, 100, 100, 0.97).are_most()
        False
        """
        expected = self.repeated * self.n_compared
        luck = LUCK * float(np.sqrt(expected * (1 - self.repeated)))
        return self.n_copies - expected > max(MOST * (self.n_compared - expected), luck)


def copies_among(rows: RowSource, others: RowSource) -> Copies:
    """Return how many rows are copies of others, which are read once.

    >>> from .checked import Batch, check_batch
    >>> from .source import InMemory
    >>> def rows_of(*ids):
    ...     return InMemory(check_batch(Batch(np.arange(5), np.array(ids), np.ones(4), 9, np.ones(4))))
    >>> copies_among(rows_of(3, 4, 4, 5), rows_of(4, 5, 6, 7))
    Copies(n_rows=4, n_compared=4, n_copies=3, repeated=0.0)
    """
    sizes: list[int] = []

    def counted() -> Iterator[np.ndarray]:
        for hashes in _hashes(rows):
            sizes.append(hashes.size)
            yield hashes

    wanted, counts = np.unique(_lowest(counted()), return_counts=True)
    is_known = np.zeros(wanted.size, bool)

    def compared() -> Iterator[np.ndarray]:
        for hashes in _hashes(others):
            is_known[:] |= np.isin(wanted, hashes)
            yield hashes

    times = np.unique(_lowest(compared()), return_counts=True)[1]
    repeated = float(times[times > 1].sum() / max(times.sum(), 1))
    return Copies(sum(sizes), int(counts.sum()), int(counts[is_known].sum()), repeated)


def _hashes(rows: RowSource) -> Iterator[np.ndarray]:
    """Yield the hashes of each block's rows and their labels."""
    for number in range(rows.n_blocks):
        block = rows.block(number)
        labels = np.zeros(block.n_rows) if block.labels is None else block.labels  # which is an error, but not here
        labels = np.asarray(labels, np.float32).view(np.uint32).astype(np.uint64)
        yield mixed(row_hashes(block, 0) + labels)


def _lowest(blocks: Iterator[np.ndarray]) -> np.ndarray:
    """Return all hashes or, of many, those below a limit: a sample that has all copies of a row or none."""
    kept, limit = np.zeros(0, np.uint64), np.uint64(2**64 - 1)
    for hashes in blocks:
        kept = np.concatenate([kept, hashes[hashes <= limit]])
        while kept.size > MOST_HASHES and limit > 0:
            limit //= np.uint64(2)
            kept = kept[kept <= limit]
    return kept
