"""Checks of option values, and texts of flags as values. A check takes the name of an option, its value and what is
checked already, and returns the value to use or raises ConfigError."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from .errors import ConfigError
from .families import FAMILIES
from .losses import loss_for, loss_named
from .metrics import check_metric
from .optimizers import optimizer_for

if TYPE_CHECKING:
    from .losses.loss import Loss
    from .optimizers.optimizer import Optimizer

UPDATES = ("joint", "algorithm1")
Check = Callable[[str, Any, dict[str, Any]], Any]  # name, value, what is checked already -> value


def number(positive: bool = False, optional: bool = False) -> Check:
    """Return a check for a finite number of at least 0, or above 0."""
    rule = "a positive number" if positive else "a number of at least 0"

    def check(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
        if optional and value is None:
            return None
        is_good = isinstance(value, Real) and math.isfinite(value) and float(value) >= 0
        if not is_good or (positive and value == 0):
            raise ConfigError(f"{name} must be {rule}, found {value!r}", key=name)
        return float(value)

    return check


def whole(least: int = 1, optional: bool = False) -> Check:
    """Return a check for a whole number."""

    def check(name: str, value: Any, chosen: dict[str, Any]) -> int | None:
        if optional and value is None:
            return None
        if not isinstance(value, Integral) or value < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, found {value!r}", key=name)
        return int(value)

    return check


def loss(name: str, value: Any, chosen: dict[str, Any]) -> Loss:
    """Check a loss of the task."""
    return loss_for(chosen["task"], value)


def choice(names: Sequence[str]) -> Check:
    """Return a check for one of some names."""

    def check(name: str, value: Any, chosen: dict[str, Any]) -> str:
        if value not in names:
            raise ConfigError(f"{name} must be one of {', '.join(names)}, found {value!r}", key=name)
        return value

    return check


def ranks(name: str, value: Any, chosen: dict[str, Any]) -> tuple[int, ...]:
    """Check increasing ranks that the family can work with."""
    from .plan.ranks import check_ranks

    return check_ranks(chosen["model"], value)


def anything(name: str, value: Any, chosen: dict[str, Any]) -> Any:
    """Take any value; it is checked where it is used."""
    return value


def dependent_weight(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
    """Fill in the weight that is usual for the loss and the update rule."""
    default = chosen["loss"].dependent_weight if chosen["update"] == UPDATES[0] else 1.0
    return number()(name, default if value is None else value, chosen)


def optimizer(name: str, value: Any, chosen: dict[str, Any]) -> Optimizer:
    """Check an optimiser that can train the family."""
    found, allowed = optimizer_for(value), FAMILIES[chosen["model"]].optimizers
    if allowed is not None and found.name not in allowed:
        raise ConfigError(f"model {chosen['model']!r} is trained by optimizer={allowed[0]!r} alone", key=name)
    return found


def learning_rate(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
    """Fill in the rate that is usual for the loss and the optimiser."""
    default = chosen["loss"].learning_rate * chosen["optimizer"].rate_share
    return number(positive=True)(name, default if value is None else value, chosen)


def l2(name: str, value: Any, chosen: dict[str, Any]) -> tuple[float | None, ...]:
    """Return a number for each rank, given one for all or one for each."""
    value, n_ranks = chosen["loss"].l2 if value is None else value, len(chosen["ranks"])
    is_one = isinstance(value, str) or not hasattr(value, "__len__")
    values = [value] * n_ranks if is_one else list(value)
    if len(values) != n_ranks:
        raise ConfigError(f"{name} must be one number, or {n_ranks}: one per rank, found {len(values)}", key=name)
    if is_one and not values:
        number()(name, value, chosen)
    return tuple(number()(name, one, chosen) for one in values)


def l1(name: str, value: Any, chosen: dict[str, Any]) -> float | None:
    """Check a penalty that only some optimisers can make exact zeros of."""
    if value and not chosen["optimizer"].has_l1:
        raise ConfigError(f"{name} needs optimizer='ftrl': the others would reach no zeros", key=name)
    return number()(name, value, chosen)


def metric(name: str, value: Any, chosen: dict[str, Any]) -> str:
    """Check a metric of the loss."""
    return check_metric(value, chosen["loss"])


def negative_rate(name: str, value: Any, chosen: dict[str, Any]) -> float:
    """Check a share of kept negatives."""
    rate = number(positive=True)(name, value, chosen)
    if rate > 1:
        raise ConfigError(f"{name} must be a share of at most 1, found {value!r}", key=name)
    if rate < 1 and chosen["loss"].task != "binary":
        raise ConfigError(f"{name} needs task='binary': ratings have no negatives", key=name)
    return rate


# ---- Texts of flags


def whole_numbers(text: str, name: str) -> tuple[int, ...]:
    """Read "8,32,128".

    >>> whole_numbers("8,32", "ranks")
    (8, 32)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        rule = f"{name} must be whole numbers with commas, such as 8,32,128"
        raise ConfigError(f"{rule}; found {text!r}", key=name) from None


def one_or_more(text: str, name: str) -> float | tuple[float, ...]:
    """Read one number, or several with commas.

    >>> one_or_more("0.01", "l2"), one_or_more("0.01,0.005", "l2")
    (0.01, (0.01, 0.005))
    """
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"{name} must be a number, or one per rank with commas; found {text!r}", key=name) from None
    return values[0] if len(values) == 1 else values


def loss_setting(text: str, name: str) -> Any:
    """Read the name of a loss, or its name and setting, such as "huber:0.5"."""
    loss, colon, setting = text.partition(":")
    if not colon:
        return loss
    try:
        return type(loss_named(loss))(float(setting))  # type: ignore[call-arg]
    except (TypeError, ValueError):
        raise ConfigError(f"{name} {text!r} is unknown; a loss with a setting is huber:DELTA", key=name) from None


def thresholds(text: str, name: str) -> Any:
    """Read the counts from which on features get the next rank."""
    from .plan.ranks import Thresholds

    return Thresholds(whole_numbers(text, "thresholds"))
