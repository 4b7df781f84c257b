"""`rafm predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from .arguments import DataPath, Duplicates, Format, ModelPath, check_output, print_notes, read_options


def predict(
    model: ModelPath,
    data: DataPath,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write to this file instead of stdout; nothing on failure.")
    ] = None,
    index_base: Annotated[
        int | None, typer.Option(help="Smallest feature id in DATA; must match the model (default: the model's).")
    ] = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
) -> None:
    """Print one prediction per line, in input order: probabilities or values.

    For tables, values never seen in training are reported on stderr.
    """
    if out is not None:
        check_output(out, model, data)  # before the imports below, which take longer than the check
    from ..encode.coverage import Coverage
    from ..files.atomic import write_atomically
    from ..predictor import Predictor

    coverage = Coverage()
    predictions = Predictor.load(model).predict(data, read_options("binary", format, duplicates), index_base, coverage)
    # nine digits tell any two float32 numbers apart
    lines: Iterator[bytes] = (b"".join(b"%.9g\n" % value for value in part.tolist()) for part in predictions)
    if out is not None:
        write_atomically(out, lines)
    else:
        for part in lines:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
    print_notes(coverage)
