"""Rotate vectors to their principal axes, so that the first coordinates carry most.

A pair of features uses the dot product of two vectors of the same block, which does not change if all vectors of the
block are rotated alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

CHUNK_FACTORS = 1 << 17  # in float64 at a time: a megabyte
LEAST_MOMENT = 1e-9  # of the largest one, so that matrices can be inverted


def chunks(vectors: np.ndarray, n_factors: int | None = None) -> Iterator[slice]:
    """Yield slices of vectors with about this many factors each, CHUNK_FACTORS by default."""
    n, size = len(vectors), max((n_factors or CHUNK_FACTORS) // max(vectors.shape[1], 1), 1)
    return (slice(first, min(first + size, n)) for first in range(0, n, size))


class Sides(NamedTuple):
    """Features of two sides, and the change of coordinates T: vectors of the first become T^T v, all others T^-1 v.

    Products of two vectors of different sides stay as they are; those within a side change.
    """

    first: np.ndarray  # mask of features
    change: np.ndarray


def principal_axes(vectors: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Return the eigenvectors of sum_i importance_i v_i v_i^T as columns, the largest eigenvalue first.

    >>> vectors = np.float32([[0, 2], [0, -1], [0.5, 0]])
    >>> np.abs(principal_axes(vectors, np.ones(3)))
    array([[0., 1.],
           [1., 0.]])
    """
    moments = np.zeros((vectors.shape[1],) * 2)
    with threadpool_limits(1, "blas"):  # several threads wait for each other longer than such small products take
        for some in chunks(vectors):
            part = vectors[some].astype(float)
            moments += (part.T * importance[some]) @ part
        return np.linalg.eigh(moments)[1][:, ::-1]  # eigh sorts eigenvalues in ascending order


def rotated(vectors: np.ndarray, importance: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return the vectors in the coordinates of their principal axes, in a new array by default."""
    axes, found = principal_axes(vectors, importance), np.empty_like(vectors) if out is None else out
    with threadpool_limits(1, "blas"):
        for some in chunks(vectors):
            found[some] = vectors[some].astype(float) @ axes
    return found


def balanced(vectors: np.ndarray, sides: Sides, out: np.ndarray | None = None) -> np.ndarray:
    """Return vectors in the coordinates of `sides`, in a new array by default."""
    inverse, found = np.linalg.inv(sides.change).T, np.empty_like(vectors) if out is None else out
    for some in chunks(vectors):
        part = vectors[some].astype(float)
        found[some] = np.where(sides.first[some, None], part @ sides.change, part @ inverse)
    return found


def balancing_map(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return T such that T^T first T = T^-1 second T^-T, a diagonal matrix with the largest entries first.

    first, second: moments of the sums of vectors of each side. So their coordinates become uncorrelated and equally
    large, and the first ones carry most of the products.

    >>> first, second = np.array([[2.0, 1], [1, 3]]), np.array([[5.0, 0], [0, 1]])
    >>> change = balancing_map(first, second)
    >>> inverse = np.linalg.inv(change)
    >>> np.abs(np.round([change.T @ first @ change, inverse @ second @ inverse.T], 3)).tolist()
    [[[3.264, 0.0], [0.0, 1.532]], [[3.264, 0.0], [0.0, 1.532]]]
    """
    least = LEAST_MOMENT * max(np.trace(second), 1e-300)
    root = np.linalg.cholesky(second + least * np.eye(len(second)))
    squares, axes = np.linalg.eigh(root.T @ first @ root)
    squares = np.maximum(squares, LEAST_MOMENT * max(squares.max(initial=0.0), 1e-300))
    return (root @ axes * squares**-0.25)[:, ::-1]
