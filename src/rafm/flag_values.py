"""Convert the text of flags to option values, and back."""

from __future__ import annotations

from typing import Any

from .errors import ConfigError
from .losses import LOSSES, loss_named

AUTO = "auto"  # a value to be found by training


def flag_name(name: str) -> str:
    """Return a parameter name spelled as a flag."""
    return f"--{name.replace('_', '-')}"


def flag_words(name: str, value: Any) -> list[str]:
    """Return a flag with its value as words of a command line; a list repeats the flag.

    >>> flag_words("ranks", (8, 32)), flag_words("averaging", False), flag_words("column", ["a=bins", "b=text"])
    (['--ranks', '8,32'], ['--no-averaging'], ['--column', 'a=bins', '--column', 'b=text'])
    """
    if isinstance(value, bool):
        return [flag_name(name if value else f"no_{name}")]
    values = value if isinstance(value, list) else [value]
    return [word for one in values for word in (flag_name(name), value_text(one))]


def value_text(value: Any) -> str:
    """Return a value as text that is read back as the same value.

    >>> value_text((0.1, 1 / 3)), value_text(30.0)
    ('0.1,0.3333333333333333', '30')
    """
    if isinstance(value, tuple | list):
        return ",".join(map(value_text, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


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
        raise ConfigError(f"{flag_name(name)} must be a number or auto, found {text!r}", key=name) from None


def number_or_word(text: str, name: str) -> str | float:
    """Parse one number, or leave a word to the check of the option."""
    try:
        return float(text)
    except ValueError:
        return text


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
