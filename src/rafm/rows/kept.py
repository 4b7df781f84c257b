"""Rows kept for training: blocks on a shelf, in memory or in a temporary file. Which of both changes no model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..memory import give_back_unused
from .checked import Batch, check_batch, cut_blocks
from .spill import Room, Shelf


class KeptRows:
    """Labelled rows in blocks that depend on the rows alone.

    n_features: of the encoder; without one, ids have no end but the largest.
    """

    def __init__(self, batches: Iterable[Batch], room: Room, n_features: int | None = None):
        self._shelf = Shelf(room, _pack, _unpack)
        self.n_rows, self.n_features = 0, n_features or 0
        for block in cut_blocks(check_batch(batch) for batch in batches):
            largest = int(block.indices.max(initial=-1))
            self._shelf.append(_narrow(block, np.int32 if largest < 2**31 else np.int64))
            self.n_rows += block.n_rows
            if n_features is None:
                self.n_features = max(self.n_features, largest + 1)
            del block  # before the next one is made
        give_back_unused()

    @property
    def in_memory(self) -> bool:
        return self._shelf.in_memory

    @property
    def n_blocks(self) -> int:
        return len(self._shelf)

    def block(self, number: int) -> Batch:
        """Return one block as views."""
        block = self._shelf[number]
        return replace(block, indptr=block.indptr.astype(np.int64), n_features=self.n_features)


def _narrow(block: Batch, id_type: type) -> Batch:
    """Return rows as Arrow has them, in less memory."""
    return replace(block, indptr=block.indptr.astype(np.int32), indices=block.indices.astype(id_type, copy=False))


def _pack(block: Batch) -> Any:
    from .arrow import record_batch_of

    return record_batch_of(block, block.indices.dtype.type)


def _unpack(found: Any) -> Batch:
    from .arrow import batch_of

    return batch_of(found, 0)
