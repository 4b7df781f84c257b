"""The terms of single pairs of features, which kernels only sum up."""

from __future__ import annotations

import numpy as np

from .model import Model


def pair_products(model: Model, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return what each pair of features adds to a score when both values are 1, in float64.

    left, right: feature numbers, ascending, so that the features of a level or higher come first.
    """
    if model.parameters.mixture is not None:
        return _mixed_products(model, left, right)
    if model.plan.n_field_vectors:
        return _field_products(model, left, right)
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


def _field_products(model: Model, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return <v_{i,f(j)}, v_{j,f(i)}>, with f(i) the field of feature i."""
    assert model.fields is not None
    n_fields, block, fields = model.plan.n_field_vectors, model.parameters.factors[0], model.fields.numbers
    a, b = left[left < len(block)], right[right < len(block)]  # the others have no vectors
    own = block[a].astype(float).reshape(a.size, n_fields, -1)[:, fields[b]]
    other = block[b].astype(float).reshape(b.size, n_fields, -1)[:, fields[a]]
    products = np.zeros((left.size, right.size))
    products[: a.size, : b.size] = np.einsum("ijk,jik->ij", own, other)
    return products


def _mixed_products(model: Model, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return MRMA's mixture over ranks: sum of c_p v_i.v_j over the sum of c_p, where c_p = a_i^p a_j^p."""
    mixture = np.asarray(model.parameters.mixture, float)
    total, weights = np.zeros((2, left.size, right.size))
    for p, block in enumerate(model.parameters.factors):
        share = np.outer(mixture[left, p], mixture[right, p])
        total += share * (block[left].astype(float) @ block[right].T.astype(float))
        weights += share
    return total / weights


def pair_levels(model: Model, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the level at which each pair interacts: the lower of the two; 0 if a feature has no vector."""
    levels = model.plan.levels()
    return np.minimum.outer(levels[left], levels[right])
