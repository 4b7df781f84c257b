"""Optimisers, one file each. To add one, add its file to this folder and its name here.

The order defines the codes used in kernels.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError

if TYPE_CHECKING:
    from .optimizer import Optimizer

OPTIMIZERS = {"adagrad": "AdaGrad", "sgd": "Sgd", "ftrl": "Ftrl", "adam": "Adam"}  # the file, and the class in it
SAMPLERS = {"gibbs": "Gibbs"}  # train in a way of their own, without the kernels' steps
SOLVERS = {"als": "Als"}  # the same


def optimizer_class(name: str) -> type[Optimizer]:
    """Return the class of an optimiser by name."""
    _check_name(name)
    return getattr(import_module(f".{name}", __name__), (OPTIMIZERS | SAMPLERS | SOLVERS)[name])


def optimizer_for(given: Any) -> Optimizer:
    """Return an optimiser by name, or the given Optimizer unchanged.

    >>> optimizer_for("adagrad")
    AdaGrad(batch_size=16, head_share=1.0)
    """
    if getattr(given, "name", None) in OPTIMIZERS | SAMPLERS | SOLVERS and isinstance(
        given, optimizer_class(given.name)
    ):
        return given
    return optimizer_class(given)()


def _check_name(name: Any) -> None:
    """Reject names that are not in the registry: nothing else is ever imported."""
    known = OPTIMIZERS | SAMPLERS | SOLVERS
    if not isinstance(name, str) or name not in known:
        raise ConfigError(f"optimizer must be one of {', '.join(known)}, found {name!r}", key="optimizer")
