"""FTRL-proximal, which produces sparse models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..jit.compile import compiled
from ..jit.vectors import combine, combined_norm
from .descent import damped
from .optimizer import Optimizer

ZERO, ONE = np.float32(0), np.float32(1)


@compiled
def _shrink(records, place, block, step, l1):  # type: ignore[no-untyped-def]
    """Set a vector to -step times its z, which follows it, shrunk as a whole by L1."""
    z, n = place + block.n, block.n
    # block.share is 1 / rank, so the threshold is l1 * sqrt(rank).
    size, least = np.sqrt(combined_norm(records, z, records, z, n, ONE, ZERO)), l1 / np.sqrt(block.share)
    kept = ONE - least / size if size > least else ZERO
    combine(records, place, records, z, n, ZERO, -kept * step)


@dataclass(frozen=True)
class Ftrl(Optimizer):
    """Follow the regularised leader: AdaGrad with an L1 penalty that sets weights and whole vectors to exactly 0.

    A weight is 0 as long as |z|, its summed gradients, is at most l1_weights; a vector, as long as the norm of its z is
    at most l1 * sqrt(rank). A scalar is followed by its sum of squares and its z, a vector by its z.
    """

    name = "ftrl"
    n_slots = 1
    has_l1 = True

    def first_slot(self, vectors: np.ndarray, rate: float, l1: float) -> np.ndarray:
        """Return the z from which a step of gradient 0 restores these vectors."""
        sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
        # A vector is -rate * z, shrunk by L1; solved for z. The bound keeps vectors of zeros from dividing by 0.
        return -vectors / rate * (1 + rate * l1 * np.sqrt(vectors.shape[1]) / np.maximum(sizes, 1e-30))

    def states_of(self, number: float, rate: float) -> tuple[float, float]:
        """Return the two states of a scalar without L1 penalty."""
        return self.first_state, -number / rate

    @staticmethod
    def step_number(records: Any, o: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Add the gradient to z; the scalar is z, shrunk towards 0 by L1, then scaled."""
        before = np.sqrt(records[o + 1])
        records[o + 1] += gradient * gradient
        after = np.sqrt(records[o + 1])
        records[o + 2] += gradient - (after - before) / rate * records[o]
        z = records[o + 2]
        records[o] = -rate / after * (max(z - l1, ZERO) + min(z + l1, ZERO))

    @staticmethod
    def step_vector(records: Any, o: Any, block: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Add the gradient to z; the vector is z, shrunk as a whole by L1, then scaled. Without L1 this is AdaGrad."""
        place, state, n = o + block.shift, o + block.state, block.n
        sums, j, c, d = gradient
        z, before = place + n, np.sqrt(records[state])
        records[state] += combined_norm(records, place, sums, j, n, d, c) * block.share
        after = np.sqrt(records[state])
        combine(records, z, sums, j, n, ONE, c)
        combine(records, z, records, place, n, ONE, d - (after - before) / rate)
        _shrink(records, place, block, rate / after, l1)

    @staticmethod
    def wide_number(records: Any, o: Any, gradient: Any, square: Any, damping: Any, rate: Any, l1: Any) -> None:
        """Do the same with the damped gradient and square."""
        before = np.sqrt(records[o + 1])
        share = damped(damping * rate / before * square)
        records[o + 1] += share * square
        after = np.sqrt(records[o + 1])
        records[o + 2] += share * gradient - (after - before) / rate * records[o]
        z = records[o + 2]
        records[o] = -rate / after * (max(z - l1, ZERO) + min(z + l1, ZERO))

    @staticmethod
    def wide_vector(
        records: Any, o: Any, block: Any, gradient: Any, square: Any, damping: Any, rate: Any, l1: Any
    ) -> None:
        """Do the same with the damped gradient and square."""
        place, state, n = o + block.shift, o + block.state, block.n
        z, before = place + n, np.sqrt(records[state])
        share = damped(damping * rate / before * square)
        records[state] += share * square
        after = np.sqrt(records[state])
        combine(records, z, gradient, 0, n, ONE, share)
        combine(records, z, records, place, n, ONE, -(after - before) / rate)
        _shrink(records, place, block, rate / after, l1)
