"""Lazy Adam: only features that occur in a row are updated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .optimizer import Optimizer

ONE = np.float32(1)
DECAY, SQUARE_DECAY, LEAST_ROOT = np.float32(0.9), np.float32(0.999), np.float32(1e-8)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Adam: step along the first moment of the gradient, divided by the root of the second, element by element.

    A scalar is followed by its second moment, then its first; a vector by its first moments, then its second moments.
    """

    name = "adam"
    n_slots = 2
    first_state = 0.0
    rate_share = 0.01

    @staticmethod
    def rate(learning_rate: Any, age: Any) -> Any:
        """Correct the bias of moments that start at 0."""
        return learning_rate * np.sqrt(ONE - SQUARE_DECAY**age) / (ONE - DECAY**age)

    @staticmethod
    def step_number(records: Any, o: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Update both moments, then step."""
        records[o + 1] += (ONE - SQUARE_DECAY) * (gradient * gradient - records[o + 1])
        records[o + 2] += (ONE - DECAY) * (gradient - records[o + 2])
        records[o] -= rate * records[o + 2] / (np.sqrt(records[o + 1]) + LEAST_ROOT)

    @staticmethod
    def step_vector(records: Any, o: Any, block: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Update both moments element by element, then step."""
        # One fused loop: the moments and the vector are read once.
        place, n, sums, j, c, d = o + block.shift, block.n, gradient.sums, gradient.j, gradient.c, gradient.d
        for f in range(place, place + n):
            g = c * sums[j + f - place] + d * records[f]
            records[f + n] += (ONE - DECAY) * (g - records[f + n])
            records[f + 2 * n] += (ONE - SQUARE_DECAY) * (g * g - records[f + 2 * n])
            records[f] -= rate * records[f + n] / (np.sqrt(records[f + 2 * n]) + LEAST_ROOT)
