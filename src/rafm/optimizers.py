"""Optimisers: their settings. The steps are in kernels.py; a number's state lies beside it in its record."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np

from .errors import ConfigError
from .kernels import records as kernels


@dataclass(frozen=True)
class _MiniBatches:
    """Settings of training by small mini-batches.

    A feature expected more than head_share times in a batch sums its gradient over the batch and steps once; all
    others step at each occurrence.
    """

    batch_size: int = 16
    head_share: float = 1.0

    code: ClassVar[int]
    shadows: ClassVar[int] = 0  # vectors that are kept beside each vector
    first_state: ClassVar[float] = 1.0
    slower: ClassVar[float] = 1.0  # its usual learning rate, as a share of AdaGrad's

    def first_shadow(self, vectors: np.ndarray, rate: float, l1: float) -> np.ndarray:
        """Return what the first shadow of fresh vectors is."""
        return np.zeros_like(vectors)

    def states_of(self, number: float, rate: float) -> tuple[float, float]:
        """Return the two states of a number."""
        return self.first_state, 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.batch_size, Integral) and 1 <= self.batch_size <= 65_536):
            raise ConfigError(
                f"batch_size must be a whole number between 1 and 65536, found {self.batch_size!r}", key="optimizer"
            )
        if not self.head_share >= 0:
            raise ConfigError(f"head_share must be a number of at least 0, found {self.head_share!r}", key="optimizer")


@dataclass(frozen=True)
class AdaGrad(_MiniBatches):
    """Step by learning_rate / sqrt(1 + summed squared gradients), with one sum per vector (its mean square)."""

    code: ClassVar[int] = kernels.ADAGRAD


@dataclass(frozen=True)
class Sgd(_MiniBatches):
    """Step by learning_rate, as in the paper's Algorithm 1."""

    code: ClassVar[int] = kernels.SGD
    slower: ClassVar[float] = 0.25


@dataclass(frozen=True)
class Ftrl(_MiniBatches):
    """Follow the regularised leader: AdaGrad whose weights and whole vectors an L1 penalty sets to 0.

    A weight is 0 while its summed gradients stay within l1_weights; a vector, while they stay within l1 times the
    root of its rank.
    """

    code: ClassVar[int] = kernels.FTRL
    shadows: ClassVar[int] = 1

    def first_shadow(self, vectors: np.ndarray, rate: float, l1: float) -> np.ndarray:
        """Return the z that belongs to fresh vectors."""
        sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
        return -vectors / rate * (1 + rate * l1 * np.sqrt(vectors.shape[1]) / np.maximum(sizes, 1e-30))

    def states_of(self, number: float, rate: float) -> tuple[float, float]:
        """Return the two states of a number that no L1 penalty holds."""
        return self.first_state, -number / rate


@dataclass(frozen=True)
class Adam(_MiniBatches):
    """Step along running means of gradients, divided by the root of their running mean square, number by number.

    Only features that occur are touched.
    """

    code: ClassVar[int] = kernels.ADAM
    shadows: ClassVar[int] = 2
    first_state: ClassVar[float] = 0.0
    slower: ClassVar[float] = 0.01


Optimizer = _MiniBatches
OPTIMIZERS: dict[str, type[Optimizer]] = {"adagrad": AdaGrad, "sgd": Sgd, "adam": Adam, "ftrl": Ftrl}


def optimizer_for(given: str | Optimizer) -> Optimizer:
    """Return the optimiser of a name, or settings as they are.

    >>> optimizer_for("adagrad")
    AdaGrad(batch_size=16, head_share=1.0)
    """
    if isinstance(given, Optimizer):
        return given
    if given not in OPTIMIZERS:
        raise ConfigError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, found {given!r}", key="optimizer")
    return OPTIMIZERS[given]()
