"""Plain stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..jit.vectors import combine
from .descent import damped, step_number_by
from .optimizer import Optimizer

ONE = np.float32(1)


@dataclass(frozen=True)
class Sgd(Optimizer):
    """SGD: step by learning_rate, as in the paper's Algorithm 1."""

    name = "sgd"
    rate_share = 0.25

    @staticmethod
    def step_number(records: Any, o: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Step along the gradient."""
        step_number_by(records, o, gradient, rate)

    @staticmethod
    def step_vector(records: Any, o: Any, block: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Step along the gradient."""
        sums, j, c, d = gradient
        combine(records, o + block.shift, sums, j, block.n, ONE - rate * d, -rate * c)

    @staticmethod
    def wide_number(records: Any, o: Any, gradient: Any, square: Any, damping: Any, rate: Any, l1: Any) -> None:
        """Step along the damped gradient."""
        step_number_by(records, o, gradient, damped(damping * rate * square) * rate)

    @staticmethod
    def wide_vector(
        records: Any, o: Any, block: Any, gradient: Any, square: Any, damping: Any, rate: Any, l1: Any
    ) -> None:
        """Step along the damped gradient."""
        combine(records, o + block.shift, gradient, 0, block.n, ONE, -damped(damping * rate * square) * rate)
