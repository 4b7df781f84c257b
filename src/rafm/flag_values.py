"""Parse the text of flags into option values."""

from __future__ import annotations

from typing import Any

from .errors import ConfigError
from .losses import LOSSES, loss_named

AUTO = "auto"  # a value to be found by training


def names_setting(text: str, name: str) -> tuple[str, ...]:
    """Parse comma-separated names."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def whole_numbers(text: str, name: str) -> tuple[int, ...]:
    """Parse comma-separated whole numbers.

    >>> whole_numbers("8,32", "ranks")
    (8, 32)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        rule = f"{name} must be comma-separated whole numbers such as 8,32,128{', or auto' if name == 'ranks' else ''}"
        raise ConfigError(f"{rule}; found {text!r}", key=name) from None


def ranks_setting(text: str, name: str) -> str | tuple[int, ...]:
    """Parse ranks, or "auto"."""
    return text if text == AUTO else whole_numbers(text, name)


def one_or_more(text: str, name: str) -> float | tuple[float, ...]:
    """Parse one number, or several separated by commas.

    >>> one_or_more("0.01", "l2"), one_or_more("0.01,0.005", "l2")
    (0.01, (0.01, 0.005))
    """
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        rule = f"{name} must be one number, or one per rank separated by commas"
        raise ConfigError(f"{rule}; found {text!r}", key=name) from None
    return values[0] if len(values) == 1 else values


def numbers_or_auto(text: str, name: str) -> str | float | tuple[float, ...]:
    """Parse one number, several, or "auto"."""
    return text if text == AUTO else one_or_more(text, name)


def number_or_auto(text: str, name: str) -> str | float:
    """Parse one number, or "auto"."""
    try:
        return text if text == AUTO else float(text)
    except ValueError:
        raise ConfigError(f"--{name.replace('_', '-')} must be a number or auto, found {text!r}", key=name) from None


def loss_setting(text: str, name: str) -> Any:
    """Parse the name of a loss, optionally with its setting, such as "huber:0.5"."""
    loss, colon, setting = text.partition(":")
    if not colon:
        return loss
    try:
        return type(loss_named(loss))(float(setting))  # type: ignore[call-arg]
    except (TypeError, ValueError) as error:  # no such loss, one without a setting, no number
        if isinstance(error, ConfigError) and loss in LOSSES:
            raise ConfigError(f"{name} {text!r}: {error}", key=name) from None
        raise ConfigError(f"{name} {text!r} is unknown; give huber:DELTA or bpr:POWER", key=name) from None


def thresholds(text: str, name: str) -> Any:
    """Parse the minimum counts of the higher ranks."""
    from .plan.ranks import Thresholds

    return Thresholds(whole_numbers(text, "thresholds"))
