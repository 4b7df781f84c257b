"""Arguments that several commands share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

DataPath = Annotated[str, typer.Argument(metavar="DATA", help='libsvm text, plain or gzip; "-" is the standard input.')]
ModelPath = Annotated[str, typer.Argument(metavar="MODEL", help="A .rafm file.")]
Format = Annotated[str, typer.Option(help="auto or libsvm.")]
Duplicates = Annotated[str, typer.Option(help='What to do with an id twice in a row: "error" or "sum".')]
MaxFeatures = Annotated[int | None, typer.Option(help="Refuse larger feature ids.")]
MaxLineBytes = Annotated[int | None, typer.Option(help="Refuse longer lines.")]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def reading(
    format: str, duplicates: str, max_features: int | None = None, max_line_bytes: int | None = None
) -> dict[str, Any]:
    """Return the options of a reader."""
    from ..data import Limits

    given = {"max_features": max_features, "max_line_bytes": max_line_bytes}
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    return {"format": format, "duplicates": duplicates, "limits": limits}


def whole_numbers(text: str, key: str) -> tuple[int, ...]:
    """Read "8,32,128".

    >>> whole_numbers("8,32", "ranks")
    (8, 32)
    """
    from ..errors import ConfigError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"{key} must be whole numbers with commas, such as 8,32,128; found {text!r}", key=key
        ) from None


def print_json(values: dict[str, Any]) -> None:
    """Print one line of JSON; what is not finite or unknown is null."""
    print(json.dumps(values, allow_nan=False))


def print_metrics(values: dict[str, Any]) -> None:
    """Print names and values, one per line, with six decimals."""
    for name, value in values.items():
        print(
            f"{name:10} {value:.6f}"
            if isinstance(value, float)
            else f"{name:10} {'undefined' if value is None else value}"
        )
