"""Rotate vectors to their principal axes, so that the first coordinates carry most.

A pair of features uses the dot product of two vectors of the same block, which does not change if all vectors of the
block are rotated alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

CHUNK = 1 << 14  # vectors rotated at a time


def chunks(n: int, size: int | None = None) -> Iterator[slice]:
    """Yield the slices of a long array, CHUNK elements each by default."""
    size = size or CHUNK
    return (slice(first, min(first + size, n)) for first in range(0, n, size))


def principal_axes(vectors: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Return the eigenvectors of sum_i importance_i v_i v_i^T as columns, the largest eigenvalue first.

    >>> vectors = np.float32([[0, 2], [0, -1], [0.5, 0]])
    >>> np.abs(principal_axes(vectors, np.ones(3)))
    array([[0., 1.],
           [1., 0.]])
    """
    moments = np.zeros((vectors.shape[1],) * 2)
    for some in chunks(len(vectors)):
        part = vectors[some].astype(float)
        moments += (part.T * importance[some]) @ part
    return np.linalg.eigh(moments)[1][:, ::-1]  # eigh sorts eigenvalues in ascending order


def rotated(vectors: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Return the vectors in the coordinates of their principal axes."""
    axes, found = principal_axes(vectors, importance), np.empty_like(vectors)
    for some in chunks(len(vectors)):
        found[some] = vectors[some].astype(float) @ axes
    return found
