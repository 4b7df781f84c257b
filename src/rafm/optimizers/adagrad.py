"""AdaGrad with one accumulator per vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..jit.vectors import adagrad_steps, combine, combined_norm
from .descent import damped, step_number_by
from .optimizer import Optimizer

ONE = np.float32(1)


@dataclass(frozen=True)
class AdaGrad(Optimizer):
    """AdaGrad: step by learning_rate / sqrt(1 + sum of squared gradients).

    A vector has a single sum, of the mean squares of its gradients.
    """

    name = "adagrad"
    least_rate = 0.1  # sums of squares shorten the steps of rows that are too long for it

    @staticmethod
    def step_number(records: Any, o: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Add the squared gradient to the state, then step."""
        records[o + 1] += gradient * gradient
        step_number_by(records, o, gradient, rate / np.sqrt(records[o + 1]))

    @staticmethod
    def step_vector(records: Any, o: Any, block: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Add the mean squared gradient to the state, then step."""
        place, state, (sums, j, c, d) = o + block.shift, o + block.state, gradient
        records[state] += combined_norm(records, place, sums, j, block.n, d, c) * block.share
        step = rate / np.sqrt(records[state])
        combine(records, place, sums, j, block.n, ONE - step * d, -step * c)

    @staticmethod
    def step_known(records: Any, o: Any, block: Any, gradient: Any, square: Any, rate: Any, l1: Any) -> None:
        """Do the same with the squared norm of the gradient."""
        state, (sums, j, c, d) = o + block.state, gradient
        records[state] += square * block.share
        step = rate / np.sqrt(records[state])
        combine(records, o + block.shift, sums, j, block.n, ONE - step * d, -step * c)

    @staticmethod
    def step_vectors(records: Any, o: Any, vectors: Any, gradients: Any, rate: Any, l1: Any) -> None:
        """Do the same for several vectors at once."""
        shifts, states, first, stop, n, share = vectors
        sums, j, stride, c, d = gradients
        adagrad_steps(records, o, shifts, states, first, stop - first, sums, j, stride, c, d, share, rate, n)

    @staticmethod
    def wide_number(records: Any, o: Any, gradient: Any, square: Any, damping: Any, rate: Any, l1: Any) -> None:
        """Add the damped square to the state, then step by the damped gradient."""
        share = damped(damping * rate / np.sqrt(records[o + 1]) * square)
        records[o + 1] += share * square
        step_number_by(records, o, share * gradient, rate / np.sqrt(records[o + 1]))

    @staticmethod
    def wide_vector(
        records: Any, o: Any, block: Any, gradient: Any, square: Any, damping: Any, rate: Any, l1: Any
    ) -> None:
        """Add the damped square to the state, then step by the damped gradient."""
        state = o + block.state
        share = damped(damping * rate / np.sqrt(records[state]) * square)
        records[state] += share * square
        combine(records, o + block.shift, gradient, 0, block.n, ONE, -share * rate / np.sqrt(records[state]))
