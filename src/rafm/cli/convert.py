"""`rafm convert`."""

from __future__ import annotations

import sys
from typing import Annotated

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
    opening,
    table_spec,
    with_room,
)

WAITING_MB = 128  # of codes, before they wait in a temporary file beside the output


def convert(
    data: DataPath,
    out: Annotated[str, typer.Argument(metavar="OUT", help="The Arrow file to write.")],
    task: Annotated[str, typer.Option(help="binary or regression: which labels there are.")] = "binary",
    index_base: Annotated[int, typer.Option(help="The smallest feature id of the file, 0 or 1.")] = 0,
    format: Format = "auto",
    label: Label = None,
    weight: Weight = None,
    column: Column = None,
    columns: Columns = None,
    min_count: MinCount = None,
    duplicates: Duplicates = "error",
    max_features: MaxFeatures = None,
    max_line_bytes: MaxLineBytes = None,
    spill: Spill = None,
) -> None:
    """Write rows as an Arrow file, which opens at once and trains without fitting in memory."""
    from pathlib import Path

    from ..losses import loss_for
    from ..read import open as door

    check_output(out, data)
    spec = table_spec(columns, column, label, weight, min_count)
    files = opening(loss_for(task).task, format, duplicates, index_base, max_features, max_line_bytes, spec)
    if door.is_current(data, out, files):
        print(f"kept {out}: {data} has not changed since")
        return
    files = with_room(files, WAITING_MB, spill or str(Path(out).parent))
    size = door.convert(data, out, files, lambda text: print(text, file=sys.stderr))
    print(f"saved {out}: {size} bytes")
