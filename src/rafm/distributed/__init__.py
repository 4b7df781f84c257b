"""Training on many machines: shards hold the features, workers read the rows; see docs/scaling.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import FailureConfig, RunConfig, ScalingConfig
    from .training import Result, train

__all__ = ["FailureConfig", "Result", "RunConfig", "ScalingConfig", "train"]

_HOMES = {"train": "training", "Result": "training"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'rafm.distributed' has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES.get(name, 'config')}", __name__), name)
