"""`rafm convert`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..flag_values import flag_name
from ..losses import TASKS
from .arguments import (
    TABLE_OPTIONS,
    DataPath,
    Task,
    check_fields_flag,
    check_positive,
    check_row_flags,
    given_options,
    print_notes,
    print_safely,
    with_room,
)
from .groups import with_groups
from .outputs import check_output
from .reading import FileFlags

if TYPE_CHECKING:
    from ..read.convert import ConversionTemplate

MEMORY_MB = 128  # for codes; further ones spill to a temporary file next to the output


@with_groups
def convert(
    context: typer.Context,
    data: DataPath,
    out: Annotated[str, typer.Argument(metavar="OUT", help="Arrow file to write.")],
    reading: FileFlags,
    task: Task = TASKS[0],
    like: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Use the encoder, index base and task of this model or converted file."),
    ] = None,
    wide_ids: Annotated[bool, typer.Option("--wide-ids", help="Store feature ids in 8 bytes instead of 4.")] = False,
    spill: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory for temporary data (default: that of OUT).")
    ] = None,
) -> None:
    """Convert data to an Arrow file for repeated training.

    The file opens instantly and can be larger than memory.

    The file is read back and verified before it replaces an existing one.
    """
    from pathlib import Path

    from ..encode.coverage import Coverage
    from ..losses import loss_for
    from ..read.convert import convert, is_current

    check_output(out)
    check_positive(reading.positive, loss_for(task))
    files = reading.what_to_read(loss_for(task).task, reading.index_base)
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
            raise ConfigError(f"{flag_name(name)} cannot be combined with --like: {path} defines it", key=name)
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
            message = f"{flag_name(name)} {getattr(files, name)} contradicts --like: {path} has {getattr(found, name)}"
            raise ConfigError(message, key=name)
    return found
