"""Arguments that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ..read.formats import format_help

if TYPE_CHECKING:
    from ..encode.coverage import Coverage
    from ..read.open import Opening

DATA_HELP = (
    f'A file of format {format_help().removeprefix("auto, ")} Text: also gzip, zstd, or "-" for the standard input.'
)
DataPath = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)]
ModelPath = Annotated[str, typer.Argument(metavar="MODEL", help="A .rafm file.")]
Format = Annotated[str, typer.Option(help=format_help())]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="Tables: the column of labels.")]
Weight = Annotated[str | None, typer.Option(metavar="COLUMN", help="Tables: the column of row weights.")]
Column = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=KIND", help="Tables: what a column is, e.g. price=bins:20; may be repeated."),
]
Columns = Annotated[str | None, typer.Option(metavar="FILE", help="Tables: a TOML file that says it for all.")]
MinCount = Annotated[int | None, typer.Option(help="Tables: rarer values share one feature per column.")]
Duplicates = Annotated[str, typer.Option(help='What to do with an id twice in a row: "error" or "sum".')]
MaxFeatures = Annotated[int | None, typer.Option(help="Refuse larger feature ids.")]
MaxLineBytes = Annotated[int | None, typer.Option(help="Refuse longer lines.")]
Memory = Annotated[float, typer.Option(metavar="MB", help="Encoded rows beyond this go to a temporary file.")]
Spill = Annotated[str | None, typer.Option(metavar="DIR", help="The folder of that file, not the system's.")]
Json = Annotated[bool, typer.Option("--json", help="Print one line of JSON.")]


def given_options(context: typer.Context) -> set[str]:
    """Return the names of the options that stand in the command."""
    return {name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"}  # type: ignore[union-attr]


def opening(
    task: str,
    format: str,
    duplicates: str,
    index_base: int = 0,
    max_features: int | None = None,
    max_line_bytes: int | None = None,
    spec: Any = None,
) -> Opening:
    """Return how files are to be read."""
    from ..read.open import Limits, Opening

    given = {"max_features": max_features, "max_line_bytes": max_line_bytes}
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    return Opening(task, format, index_base, duplicates, limits, spec)


def with_room(files: Opening, memory: float, folder: str | None, told: Any = None) -> Opening:
    """Return how files are to be read, with so many megabytes of memory for rows and a folder for the others."""
    from dataclasses import replace

    from ..rows.spill import SpillOptions

    return replace(files, room=SpillOptions(memory, folder, told))


def table_spec(
    columns: str | None, column: list[str] | None, label: str | None, weight: str | None, min_count: int | None
) -> Any:
    """Return the specification of a table from a file and, stronger, from arguments; None if nothing is given."""
    from dataclasses import replace

    from ..encode.spec import TableSpec

    given = {"label": label, "weight": weight, "min_count": min_count}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if columns is None:
        return TableSpec.from_arguments(column or (), **settings) if column or settings else None
    base, more = TableSpec.from_toml(columns), TableSpec.from_arguments(column or ())
    named = {spec.name for spec in more.columns}
    kept = tuple(spec for spec in base.columns if spec.name not in named)
    return replace(base, columns=(*kept, *more.columns), **settings)


def check_output(out: str, *inputs: str | None) -> None:
    """Refuse an output that would replace an input, or cannot be written, before anything is done."""
    from pathlib import Path

    from ..errors import ConfigError
    from ..files.atomic import check_writable

    folder = Path(out).parent
    if not folder.is_dir():
        raise FileNotFoundError(2, "the folder for the output does not exist", str(folder))
    if Path(out).is_dir():
        raise IsADirectoryError(21, "is a folder, not a place for a file", out)
    check_writable(out)
    for path in inputs:
        if path is not None and Path(out).exists() and Path(path).exists() and Path(out).samefile(path):
            raise ConfigError(f"{out} is an input and would be replaced; choose another output", key="out")


def teller(stream: TextIO) -> Callable[[str], None]:
    """Return what prints news of a command to a stream; the command does its work even if nobody can listen."""

    def tell(text: str) -> None:
        with suppress(OSError):
            print(text, file=stream)

    return tell


def print_json(values: dict[str, Any]) -> None:
    """Print one line of JSON; what is not finite or unknown is null."""
    print(json.dumps(values, allow_nan=False))


def print_notes(coverage: Coverage) -> None:
    """Tell on stderr which values training has never seen."""
    for line in coverage.notes():
        print(line, file=sys.stderr)


def print_metrics(values: dict[str, Any]) -> None:
    """Print names and values, one per line, with six decimals."""
    for name, value in values.items():
        shown = f"{value:.6f}" if isinstance(value, float) else "undefined" if value is None else value
        print(f"{name:18} {shown}")
