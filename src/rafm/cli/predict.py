"""`rafm predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from .arguments import DataPath, Duplicates, Format, ModelPath, check_output, opening


def predict(
    model: ModelPath,
    data: DataPath,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write here, all or nothing, not to stdout.")] = None,
    index_base: Annotated[int | None, typer.Option(help="Must agree with the model's.")] = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
) -> None:
    """Print one prediction per line, in input order: probabilities, or values."""
    if out is not None:
        check_output(out, model, data)
    from ..files import write_atomically
    from ..predictor import Predictor

    predictions = Predictor.load(model).predict(data, opening("binary", format, duplicates), index_base)
    lines: Iterator[bytes] = (b"".join(b"%.9g\n" % value for value in part.tolist()) for part in predictions)
    if out is not None:
        write_atomically(out, lines)
        return
    for part in lines:
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()
