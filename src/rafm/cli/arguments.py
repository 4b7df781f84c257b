"""Arguments that several commands share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from ..flag_values import flag_name
from ..losses import TASKS, one_of
from ..read.formats import format_help

if TYPE_CHECKING:
    from ..encode.coverage import Coverage
    from ..read.open import ReadOptions

FILE_FORMATS = format_help().removeprefix("auto, ").removesuffix(".")
DATA_HELP = f'Data file ({FILE_FORMATS}). Text may be compressed with gzip or zstd; "-" reads standard input.'
DataPath = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)]
ModelPath = Annotated[str, typer.Argument(metavar="MODEL", help="Model file (.rafm), or folder of parts.")]
Format = Annotated[str, typer.Option(help=f"Input format: {format_help()}")]
Label = Annotated[str | None, typer.Option(metavar="COLUMN", help="Tables: label column.")]
Positive = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL", help="Binary labels: the positive label (default: the larger number; yes, true, click, ...)."
    ),
]
Weight = Annotated[str | None, typer.Option(metavar="COLUMN", help="Tables: column of row weights.")]
Column = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=KIND", help="Tables: kind of a column, e.g. price=bins:20. Can be repeated."),
]
Columns = Annotated[str | None, typer.Option(metavar="FILE", help="Tables: TOML file with the kinds of all columns.")]
MinCount = Annotated[
    int | None, typer.Option(help="Tables: values with a lower count share one feature per column (default: 1).")
]
Cross = Annotated[
    str | None,
    typer.Option(
        metavar="A*B,...",
        help="Tables: conjunctions: columns whose combinations of values become features, such as "
        '"user*hour,item*hour"; or off, or auto (default: off).',
    ),
]
Duplicates = Annotated[str, typer.Option(help='If an id occurs twice in a row: "error" or "sum".')]
FieldsFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Rows of ids: file with one feature id, a tab and the name of its field per line."
    ),
]
MaxFeatures = Annotated[
    int | None, typer.Option(help="Maximum number of feature ids; larger ids are errors (default: 2**32).")
]
MaxLineBytes = Annotated[int | None, typer.Option(help="Maximum length of a line (default: 16 MiB).")]
Memory = Annotated[float, typer.Option(metavar="MB", help="Memory for encoded rows; further rows spill to disk.")]
Spill = Annotated[str | None, typer.Option(metavar="DIR", help="Directory for spilled rows (default: system temp).")]
Task = Annotated[str, typer.Option(help=f"Kind of labels: {one_of(TASKS)}.")]
ExcludeBy = Annotated[
    str | None,
    typer.Option(
        metavar="CONTEXT,ITEM",
        help="Tables: columns that name contexts and items in --exclude (default: of each side, the category with the "
        "most values in the model).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one line of JSON.")]
ROW_OPTIONS = ("index_base", "duplicates", "max_features", "max_line_bytes")  # meaningless for tables
TABLE_OPTIONS = ("label", "weight", "column", "columns", "min_count", "cross")  # meaningless once an encoder is fitted


def given_options(context: typer.Context) -> set[str]:
    """Return the names of the options given on the command line, defaults excluded."""
    return {name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"}  # type: ignore[union-attr]


def read_options(
    task: str,
    format: str,
    duplicates: str,
    index_base: int = 0,
    max_features: int | None = None,
    max_line_bytes: int | None = None,
    spec: Any = None,
    fields: str | None = None,
) -> ReadOptions:
    """Return the options for reading files; fields: the file of fields, which is read."""
    from ..read.open import Limits, ReadOptions

    # Limits knows its own defaults, so only what was given is passed on.
    given = {"max_features": max_features, "max_line_bytes": max_line_bytes}
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    found = None if fields is None else _read_fields(fields, index_base, limits.max_features)
    return ReadOptions(task, format, index_base, duplicates, limits, spec, fields=found)


def _read_fields(path: str, index_base: int, max_features: int) -> Any:
    from ..read.fields import read_fields

    return read_fields(path, index_base, max_features)


def check_fields_flag(data: str, files: ReadOptions) -> None:
    """Reject a file of fields for data that already have fields."""
    from ..errors import ConfigError
    from ..read.formats import CONVERTED, TABLE

    if files.fields is None:
        return
    entry = files.format_of(data)
    if entry.gives == TABLE:
        raise ConfigError(
            f"--fields is for rows of ids, but {data} is {entry.name}: its columns are its fields", "fields"
        )
    if entry.has_fields or (entry.gives == CONVERTED and entry.read(data).fields is not None):
        raise ConfigError(f"--fields is for rows without fields, but {data} has its own: drop --fields", "fields")


def check_row_flags(data: str, files: ReadOptions, given: set[str]) -> None:
    """Reject options about rows of ids if the data are a table, and those that a converted file has settled."""
    from ..errors import ConfigError
    from ..read.formats import CONVERTED, TABLE

    entry = files.format_of(data)
    for name in ROW_OPTIONS:
        flag = flag_name(name)
        if name in given and entry.gives == TABLE:
            raise ConfigError(f"{flag} is for rows of ids, but {data} is {entry.name}: drop it", key=name)
        if name in given and entry.gives == CONVERTED and name != "index_base":  # which is compared with the file
            raise ConfigError(f"{flag} has no effect on {data}, which is converted already: drop it", key=name)
    if "spill" in given and entry.gives == CONVERTED:
        raise ConfigError(f"--spill has no effect on {data}, which is read again instead: drop it", key="spill")


def check_valid_flags(valid: str | None, given: set[str]) -> None:
    """Reject a share to hold out if there is a file of validation rows."""
    from ..errors import ConfigError

    if valid is not None and "valid_share" in given:
        raise ConfigError(
            "--valid-share holds out training rows, which is not needed with --valid FILE: drop one of them",
            key="valid",
        )


def check_label_flag(data: str, files: ReadOptions) -> None:
    """Reject a label column if the data are not a table, or a converted one."""
    from ..errors import ConfigError
    from ..read.formats import TABLE

    entry = files.format_of(data)
    if entry.gives != TABLE:
        raise ConfigError(f"--label is for tables, but {data} is {entry.name}: drop it", key="label")


def with_room(files: ReadOptions, memory: float, folder: str | None, report: Any = None) -> ReadOptions:
    """Set the megabytes of memory for rows, and the directory that further rows spill to."""
    from dataclasses import replace

    from ..rows.spill import SpillOptions

    return replace(files, room=SpillOptions(memory, folder, report))


def table_spec(
    columns: str | None,
    column: list[str] | None,
    label: str | None,
    weight: str | None,
    min_count: int | None,
    cross: str | None = None,
) -> Any:
    """Return the table spec from a TOML file, overridden by arguments; None if neither is given."""
    from dataclasses import replace

    from ..encode.spec import TableSpec

    given = {"label": label, "weight": weight, "min_count": min_count, "cross": cross}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if columns is None:
        return TableSpec.from_arguments(column or (), **settings) if column or settings else None
    # Column by column: an argument replaces all that the file says of that column.
    base, more = TableSpec.from_toml(columns), TableSpec.from_arguments(column or ())
    named = {spec.name for spec in more.columns}
    kept = tuple(spec for spec in base.columns if spec.name not in named)
    return replace(base, columns=(*kept, *more.columns), **settings)


def check_positive(positive: str | None, loss: Any) -> None:
    """Reject a positive label where labels are numbers."""
    from ..errors import ConfigError

    if positive is not None and not loss.is_classification:
        raise ConfigError(f"--positive is for --task binary: labels of --task {loss.task} are numbers", key="positive")


def print_safely(stream: TextIO) -> Callable[[str], None]:
    """Return a function that prints to a stream and ignores errors, so that a closed pipe does not end training."""

    def report(text: str) -> None:
        with suppress(OSError):
            print(text, file=stream)

    return report


def print_json(values: dict[str, Any]) -> None:
    """Print one line of JSON; NaN and infinity are errors, since JSON has neither."""
    print(json.dumps(values, allow_nan=False))


def print_notes(coverage: Coverage) -> None:
    """Report on stderr which values were never seen in training."""
    for line in coverage.notes():
        print(line, file=sys.stderr)


def print_metrics(values: dict[str, Any]) -> None:
    """Print one metric per line, with six decimals."""
    for name, value in values.items():
        shown = f"{value:.6f}" if isinstance(value, float) else "undefined" if value is None else value
        print(f"{name:18} {shown}")
