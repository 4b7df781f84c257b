"""The terms of single pairs of features, which kernels only sum up."""

from __future__ import annotations

import numpy as np

from .model import Model


def products_of_vectors(model: Model, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the inner products of vectors that are the same for all partners."""
    products = np.zeros((left.size, right.size))
    for block, size in zip(model.parameters.factors, model.plan.sizes[1:]):
        a, b = np.searchsorted(left, size), np.searchsorted(right, size)
        own = block[left[:a]].astype(float) @ block[right[:b]].T.astype(float)
        # RaFM: a pair interacts at its lower level alone. Otherwise each level extends a vector.
        products[:a, :b] = own if model.plan.nested else products[:a, :b] + own
    if model.parameters.fields is not None and model.fields is not None:
        weights = model.parameters.fields[model.fields.numbers].astype(float)
        products *= 1 - np.outer(weights[left], weights[right])
    return products


def pair_levels(model: Model, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the level at which each pair interacts: the lower of the two; 0 if a feature has no vector."""
    levels = model.plan.levels()
    return np.minimum.outer(levels[left], levels[right])
