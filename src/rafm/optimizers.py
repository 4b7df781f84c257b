"""Optimisers: their settings. The steps are in kernels.py; a number's state lies beside it in its record."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

from . import kernels
from .errors import ConfigError


@dataclass(frozen=True)
class _MiniBatches:
    """Settings of training by small mini-batches.

    A feature expected more than head_share times in a batch sums its gradient over the batch and steps once; all
    others step at each occurrence.
    """

    batch_size: int = 16
    head_share: float = 1.0

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


Optimizer = AdaGrad | Sgd
OPTIMIZERS: dict[str, type[AdaGrad] | type[Sgd]] = {"adagrad": AdaGrad, "sgd": Sgd}


def optimizer_for(given: str | Optimizer) -> Optimizer:
    """Return the optimiser of a name, or settings as they are.

    >>> optimizer_for("adagrad")
    AdaGrad(batch_size=16, head_share=1.0)
    """
    if isinstance(given, AdaGrad | Sgd):
        return given
    if given not in OPTIMIZERS:
        raise ConfigError(f"optimizer must be {' or '.join(OPTIMIZERS)}, found {given!r}", key="optimizer")
    return OPTIMIZERS[given]()
