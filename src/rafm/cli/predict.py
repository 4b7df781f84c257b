"""`rafm predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from .arguments import DataPath, Duplicates, Format, ModelPath, check_output, opening, print_notes


def predict(
    model: ModelPath,
    data: DataPath,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Write here, all or nothing, not to stdout.")] = None,
    index_base: Annotated[int | None, typer.Option(help="Must agree with the model's.")] = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
) -> None:
    """Print one prediction per line, in input order: probabilities, or values.

    Of tables it is told on stderr which values training has never seen.
    """
    if out is not None:
        check_output(out, model, data)
    from ..encode.coverage import Coverage
    from ..files.atomic import write_atomically
    from ..predictor import Predictor

    coverage = Coverage()
    predictions = Predictor.load(model).predict(data, opening("binary", format, duplicates), index_base, coverage)
    lines: Iterator[bytes] = (b"".join(b"%.9g\n" % value for value in part.tolist()) for part in predictions)
    if out is not None:
        write_atomically(out, lines)
    else:
        for part in lines:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    print_notes(coverage)
