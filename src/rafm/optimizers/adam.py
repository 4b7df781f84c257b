"""Adam, of which only features that occur are touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .optimizer import Optimizer

ONE = np.float32(1)
DECAY, SQUARE_DECAY, LEAST_ROOT = np.float32(0.9), np.float32(0.999), np.float32(1e-8)


@dataclass(frozen=True)
class Adam(Optimizer):
    """Step along running means of gradients, divided by the root of their running mean square, number by number.

    A number is followed by its mean square, then its mean; a vector by its means, then its mean squares.
    """

    name = "adam"
    n_slots = 2
    first_state = 0.0
    rate_share = 0.01

    @staticmethod
    def rate(learning_rate: Any, age: Any) -> Any:
        """Make up for moments that start at 0."""
        return learning_rate * np.sqrt(ONE - SQUARE_DECAY**age) / (ONE - DECAY**age)

    @staticmethod
    def step_number(records: Any, o: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Take the gradient into both moments, then step along the first."""
        records[o + 1] += (ONE - SQUARE_DECAY) * (gradient * gradient - records[o + 1])
        records[o + 2] += (ONE - DECAY) * (gradient - records[o + 2])
        records[o] -= rate * records[o + 2] / (np.sqrt(records[o + 1]) + LEAST_ROOT)

    @staticmethod
    def step_vector(records: Any, o: Any, block: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Take the gradient into both moments, number by number; step along the first."""
        place, n, sums, j, c, d = o + block.shift, block.n, gradient.sums, gradient.j, gradient.c, gradient.d
        for f in range(place, place + n):
            g = c * sums[j + f - place] + d * records[f]
            records[f + n] += (ONE - DECAY) * (g - records[f + n])
            records[f + 2 * n] += (ONE - SQUARE_DECAY) * (g * g - records[f + 2 * n])
            records[f] -= rate * records[f + n] / (np.sqrt(records[f + 2 * n]) + LEAST_ROOT)
