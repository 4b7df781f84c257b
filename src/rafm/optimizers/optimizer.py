"""What an optimiser is: settings, the compiled step of a number and of a vector, and the state beside them."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from ..errors import ConfigError
from . import OPTIMIZERS


@dataclass(frozen=True)
class Optimizer:
    """Base of all optimisers, which train by small mini-batches.

    A feature expected more than head_share times in a batch sums its gradient over the batch and steps once; all
    others step at each occurrence. In a record, a number is followed by its states, a vector by its slots. In compiled
    code a gradient is c * sums[j:] + d * vector, and a block says where a vector and its state lie in the record at o.

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
    n_slots: ClassVar[int] = 0  # vectors that are kept beside each vector
    first_state: ClassVar[float] = 1.0  # of a sum of squares
    rate_share: ClassVar[float] = 1.0  # its default learning rate, as a share of AdaGrad's
    has_l1: ClassVar[bool] = False  # whether an L1 penalty makes exact zeros

    def __post_init__(self) -> None:
        if not (isinstance(self.batch_size, Integral) and 1 <= self.batch_size <= 65_536):
            raise ConfigError(
                f"batch_size must be a whole number between 1 and 65536, found {self.batch_size!r}", key="optimizer"
            )
        if not self.head_share >= 0:
            raise ConfigError(f"head_share must be a number of at least 0, found {self.head_share!r}", key="optimizer")

    @property
    def code(self) -> int:
        """The number by which compiled code knows the optimiser."""
        return [*OPTIMIZERS].index(self.name)

    def first_slot(self, vectors: np.ndarray, rate: float, l1: float) -> np.ndarray:
        """Return the first slot of fresh vectors; all others are 0."""
        return np.zeros_like(vectors)

    def states_of(self, number: float, rate: float) -> tuple[float, float]:
        """Return the two states of a number."""
        return self.first_state, 0.0

    @staticmethod
    def rate(learning_rate: Any, age: Any) -> Any:
        """Return the rate of a mini-batch; age counts them from 1."""
        return learning_rate

    @staticmethod
    def step_number(records: Any, o: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Step the number at o, which has its states after it."""
        raise NotImplementedError

    @staticmethod
    def step_vector(records: Any, o: Any, block: Any, gradient: Any, rate: Any, l1: Any) -> None:
        """Step the vector of a block of the record at o."""
        raise NotImplementedError
