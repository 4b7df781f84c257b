"""Base class of optimisers: settings, initial state, and the compiled steps of a scalar and of a vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from ..errors import ConfigError
from . import OPTIMIZERS

OPTIONS = frozenset({"learning_rate", "step_rows", "averaging", "rate_drops", "init_scale", "l2", "l2_weights"})
OPTIONS |= {"update", "dependent_weight", "negative_rate", "calibrate"}  # options that not all optimisers use


@dataclass(frozen=True)
class Optimizer:
    """Base class of all optimisers. Training uses small mini-batches.

    A feature expected more than head_share times per batch sums its gradient over the batch and steps once; all others
    step at each occurrence. In a record, a scalar is followed by its states and a vector by its slots. In compiled
    code, a gradient is c * sums[j:] + d * vector, and a block holds the positions of a vector and its state within the
    record at o.

    Parameters
    ----------
    batch_size : int, default=16
        Rows per mini-batch.
    head_share : float, default=1.0
        Expected occurrences per mini-batch above which a feature steps once per batch.
    """

    batch_size: int = 16
    head_share: float = 1.0

    name: ClassVar[str]
    n_slots: ClassVar[int] = 0  # state vectors per vector
    first_state: ClassVar[float] = 1.0  # initial sum of squares
    rate_share: ClassVar[float] = 1.0  # default learning rate, relative to AdaGrad's
    least_rate: ClassVar[float] = 0.0  # of the default learning rate, however long the rows are; see decision 0009
    has_steps: ClassVar[bool] = True  # otherwise it trains in an engine of its own
    is_sampler: ClassVar[bool] = False  # whether it draws parameters instead of stepping them
    families: ClassVar[tuple[str, ...] | None] = None  # the model families that it trains; all by default
    losses: ClassVar[tuple[str, ...] | None] = None  # the losses that it minimises; all by default
    n_epochs: ClassVar[int] = 30  # default
    options: ClassVar[frozenset[str]] = OPTIONS  # those of OPTIONS that it uses
    has_l1: ClassVar[bool] = False  # whether it supports an L1 penalty, which sets parameters to exactly 0

    # Step of a vector by a gradient whose squared norm is known: the last argument but two. None: a usual step.
    step_known: ClassVar[Callable[..., None] | None] = None
    # Steps of several vectors of a record, see kernels/tables.py; None: one by one.
    step_vectors: ClassVar[Callable[..., None] | None] = None
    # Steps of a scalar and of a vector by the gradient summed over a wide step, for a vector an array; `square` is the
    # sum of the rows' squared gradients, for a vector of their mean squares. None: a usual step by that gradient.
    wide_number: ClassVar[Callable[..., None] | None] = None
    wide_vector: ClassVar[Callable[..., None] | None] = None

    def __post_init__(self) -> None:
        if not (isinstance(self.batch_size, Integral) and 1 <= self.batch_size <= 65_536):
            raise ConfigError(
                f"batch_size must be an integer between 1 and 65536, found {self.batch_size!r}", key="optimizer"
            )
        if not self.head_share >= 0:  # also catches NaN
            raise ConfigError(f"head_share must be at least 0, found {self.head_share!r}", key="optimizer")

    @property
    def code(self) -> int:
        """The code of the optimiser in kernels."""
        return [*OPTIMIZERS].index(self.name)

    @property
    def unused(self) -> frozenset[str]:
        """Names of options that have no effect."""
        return OPTIONS - self.options

    def first_slot(self, vectors: np.ndarray, rate: float, l1: float) -> np.ndarray:
        """Return the initial first slot of vectors; all other slots start at 0."""
        return np.zeros_like(vectors)

    def states_of(self, number: float, rate: float) -> tuple[float, float]:
        """Return the two initial states of a scalar."""
        return self.first_state, 0.0

    @staticmethod
    def rate(learning_rate: Any, age: Any) -> Any:
        """Return the rate of a mini-batch; age is its number, from 1."""
        return learning_rate

    @staticmethod
    def step_number(records: Any, o: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Step the scalar at o; its states follow it."""
        raise NotImplementedError

    @staticmethod
    def step_vector(records: Any, o: Any, block: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Step the vector of a block in the record at o."""
        raise NotImplementedError
