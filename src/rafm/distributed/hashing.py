"""The shard that owns an id."""

from __future__ import annotations

import numpy as np

BUCKETS = 1024  # ids are dealt out by bucket, so that checkpoints can be loaded by another number of shards
BUCKET_MIX, BUCKET_SHIFT = np.uint64(0xD6E8FEB86659FD93), np.uint64(54)


def bucket_of(ids: np.ndarray) -> np.ndarray:
    """Return the bucket of every id.

    >>> bucket_of(np.array([0, 1, 2**40])).tolist()
    [0, 859, 359]
    """
    return ((ids.astype(np.uint64) * BUCKET_MIX) >> BUCKET_SHIFT).astype(np.int64)


def shard_of(ids: np.ndarray, n_shards: int) -> np.ndarray:
    """Return the shard that owns each id: shards have contiguous buckets."""
    return bucket_of(ids) * n_shards // BUCKETS
