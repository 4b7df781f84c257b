"""Rotate vectors to their principal axes, so that the first coordinates carry most.

A pair of features uses the dot product of two vectors of the same block, which does not change if all vectors of the
block are rotated alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CHUNK_FACTORS = 1 << 17  # in float64 at a time: a megabyte


def chunks(vectors: np.ndarray, n_factors: int | None = None) -> Iterator[slice]:
    """Yield slices of vectors with about this many factors each, CHUNK_FACTORS by default."""
    n, size = len(vectors), max((n_factors or CHUNK_FACTORS) // max(vectors.shape[1], 1), 1)
    return (slice(first, min(first + size, n)) for first in range(0, n, size))


def principal_axes(vectors: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Return the eigenvectors of sum_i importance_i v_i v_i^T as columns, the largest eigenvalue first.

    >>> vectors = np.float32([[0, 2], [0, -1], [0.5, 0]])
    >>> np.abs(principal_axes(vectors, np.ones(3)))
    array([[0., 1.],
           [1., 0.]])
    """
    moments = np.zeros((vectors.shape[1],) * 2)
    for some in chunks(vectors):
        part = vectors[some].astype(float)
        moments += (part.T * importance[some]) @ part
    return np.linalg.eigh(moments)[1][:, ::-1]  # eigh sorts eigenvalues in ascending order


def rotated(vectors: np.ndarray, importance: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Return the vectors in the coordinates of their principal axes, in a new array by default."""
    axes, found = principal_axes(vectors, importance), np.empty_like(vectors) if out is None else out
    for some in chunks(vectors):
        found[some] = vectors[some].astype(float) @ axes
    return found
