"""`rafm convert`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..losses import TASKS, one_of
from .arguments import (
    TABLE_OPTIONS,
    Column,
    Columns,
    DataPath,
    Duplicates,
    FieldsFile,
    Format,
    Label,
    MaxFeatures,
    MaxLineBytes,
    MinCount,
    Positive,
    Weight,
    check_fields_flag,
    check_output,
    check_positive,
    check_row_flags,
    given_options,
    print_notes,
    print_safely,
    read_options,
    table_spec,
    with_room,
)

if TYPE_CHECKING:
    from ..read.convert import ConversionTemplate

MEMORY_MB = 128  # for codes; further ones spill to a temporary file next to the output


def convert(
    context: typer.Context,
    data: DataPath,
    out: Annotated[str, typer.Argument(metavar="OUT", help="Arrow file to write.")],
    task: Annotated[str, typer.Option(help=f"Kind of labels: {one_of(TASKS)}.")] = TASKS[0],
    index_base: Annotated[int, typer.Option(help="Smallest feature id in the file: 0 or 1.")] = 0,
    like: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Use the encoder, index base and task of this model or converted file."),
    ] = None,
    format: Format = "auto",
    label: Label = None,
    positive: Positive = None,
    weight: Weight = None,
    column: Column = None,
    columns: Columns = None,
    min_count: MinCount = None,
    fields: FieldsFile = None,
    duplicates: Duplicates = "error",
    max_features: MaxFeatures = None,
    max_line_bytes: MaxLineBytes = None,
    wide_ids: Annotated[bool, typer.Option("--wide-ids", help="Store feature ids in 8 bytes instead of 4.")] = False,
    spill: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory for spilled codes (default: that of OUT).")
    ] = None,
) -> None:
    """Convert data to an Arrow file, which opens instantly and can be larger than memory.

    The file is read back and verified before it replaces an existing one.
    """
    from dataclasses import replace
    from pathlib import Path

    from ..encode.coverage import Coverage
    from ..losses import loss_for
    from ..read.convert import convert, is_current
    from ..rows.classes import BinaryLabels

    check_output(out, data, like)
    spec = table_spec(columns, column, label, weight, min_count)
    files = read_options(
        loss_for(task).task, format, duplicates, index_base, max_features, max_line_bytes, spec, fields
    )
    check_positive(positive, loss_for(task))
    files = replace(files, labels=BinaryLabels(positive))
    template = None if like is None else _read_template(like, files, given_options(context))
    check_fields_flag(data, files)
    check_row_flags(data, files, given_options(context))
    if is_current(data, out, files, template, wide_ids):
        print_safely(sys.stdout)(f"kept {out}: {data} has not changed since")
        return
    files, coverage = with_room(files, MEMORY_MB, spill or str(Path(out).parent)), Coverage()
    size = convert(data, out, files, lambda text: print(text, file=sys.stderr), template, wide_ids, coverage)
    if template is None and files.labels is not None and (line := files.labels.describe()):
        print(line, file=sys.stderr)
    print_safely(sys.stdout)(f"saved {out}: {size} bytes")
    print_notes(coverage)


def _read_template(path: str, files: object, given: set[str]) -> ConversionTemplate:
    """Read the encoder, index base and task of a model or converted file; reject options that contradict them."""
    from ..errors import ConfigError
    from ..read.convert import ConversionTemplate
    from ..read.formats import FORMATS

    for name in (*TABLE_OPTIONS, "positive"):
        if name in given:
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag} cannot be combined with --like: {path} defines it", key=name)
    if FORMATS["arrow"].starts(path):
        rows = FORMATS["arrow"].read(path)
        kept = rows.conversion
        found = ConversionTemplate(kept.task, kept.index_base, rows.encoder, kept.classes)
    else:
        from ..model.file import load

        saved = load(path)
        found = ConversionTemplate(saved.model.loss.task, saved.index_base, saved.encoder, saved.classes)
    # The defaults of --task and --index-base are not a contradiction; only what was typed is.
    for name in ("task", "index_base"):
        if name in given and getattr(files, name) != getattr(found, name):
            flag = name.replace("_", "-")
            message = f"--{flag} {getattr(files, name)} contradicts --like: {path} has {getattr(found, name)}"
            raise ConfigError(message, key=name)
    return found
