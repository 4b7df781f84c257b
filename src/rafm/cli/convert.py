"""`rafm convert`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from .arguments import (
    Column,
    Columns,
    DataPath,
    Duplicates,
    Format,
    Label,
    MaxFeatures,
    MaxLineBytes,
    MinCount,
    Spill,
    Weight,
    check_output,
    given_options,
    opening,
    print_notes,
    table_spec,
    with_room,
)

if TYPE_CHECKING:
    from ..read.convert import Like

WAITING_MB = 128  # of codes, before they wait in a temporary file beside the output
OF_A_NEW_ENCODER = ("label", "weight", "column", "columns", "min_count")


def convert(
    context: typer.Context,
    data: DataPath,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The Arrow file to write.")],
    task: Annotated[str, typer.Option(help="binary or regression: which labels there are.")] = "binary",
    index_base: Annotated[int, typer.Option(help="The smallest feature id of the file, 0 or 1.")] = 0,
    like: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Use the encoder, index base and task of a model or a converted file."),
    ] = None,
    format: Format = "auto",
    label: Label = None,
    weight: Weight = None,
    column: Column = None,
    columns: Columns = None,
    min_count: MinCount = None,
    duplicates: Duplicates = "error",
    max_features: MaxFeatures = None,
    max_line_bytes: MaxLineBytes = None,
    wide_ids: Annotated[bool, typer.Option("--wide-ids", help="Store feature ids in 8 bytes, not in 4.")] = False,
    spill: Spill = None,
) -> None:
    """Write rows as an Arrow file, which opens at once and trains without fitting in memory.

    The file is read back and checked before it replaces an older one.
    """
    from pathlib import Path

    from ..encode.coverage import Coverage
    from ..losses import loss_for
    from ..read.convert import convert, is_current

    check_output(out, data, like)
    spec = table_spec(columns, column, label, weight, min_count)
    files = opening(loss_for(task).task, format, duplicates, index_base, max_features, max_line_bytes, spec)
    source = None if like is None else _read_like(like, files, given_options(context))
    if is_current(data, out, files, source, wide_ids):
        print(f"kept {out}: {data} has not changed since")
        return
    files, coverage = with_room(files, WAITING_MB, spill or str(Path(out).parent)), Coverage()
    size = convert(data, out, files, lambda text: print(text, file=sys.stderr), source, wide_ids, coverage)
    print(f"saved {out}: {size} bytes")
    print_notes(coverage)


def _read_like(path: str, files: object, given: set[str]) -> Like:
    """Return what a model or a converted file says; an option cannot say it differently."""
    from ..errors import ConfigError
    from ..read.convert import Like
    from ..read.formats import FORMATS

    for name in OF_A_NEW_ENCODER:
        if name in given:
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag} cannot be given with --like: {path} knows its columns", key=name)
    if FORMATS["arrow"].starts(path):
        rows = FORMATS["arrow"].read(path)
        found = Like(rows.conversion.task, rows.conversion.index_base, rows.encoder)
    else:
        from ..model.file import load

        saved = load(path)
        found = Like(saved.model.loss.task, saved.index_base, saved.encoder)
    for name in ("task", "index_base"):
        if name in given and getattr(files, name) != getattr(found, name):
            flag = name.replace("_", "-")
            message = f"--{flag} {getattr(files, name)} contradicts --like: that of {path} is {getattr(found, name)}"
            raise ConfigError(message, key=name)
    return found
