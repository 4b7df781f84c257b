"""Leave zero vectors out of a model file, and put them back."""

from __future__ import annotations

import numpy as np

from ..plan.ranks import RankPlan


def without_zero_vectors(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays without zero vectors; for blocks that have any, add the indices of the remaining ones."""
    found = dict(arrays)
    for name, block in arrays.items():
        if name.startswith("factors.") and not (alive := block.any(axis=1)).all():
            found[name] = block[alive]
            found[name.replace("factors", "rows")] = np.flatnonzero(alive).astype(np.int32)
    return found


def with_zero_vectors(plan: RankPlan, tensors: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the tensors with zero vectors restored; the inverse of `without_zero_vectors`."""
    found = dict(tensors)
    for level, (size, rank) in enumerate(zip(plan.sizes[1:], plan.block_ranks), start=1):
        if f"rows.{level}" in tensors:
            found[f"factors.{level}"] = np.zeros((size, rank), np.float32)
            found[f"factors.{level}"][tensors[f"rows.{level}"]] = tensors[f"factors.{level}"]
    return found
