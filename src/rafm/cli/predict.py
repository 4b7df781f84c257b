"""`rafm predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ..files.terminal import SafeStream
from .arguments import (
    DataPath,
    Duplicates,
    Format,
    ModelPath,
    check_row_flags,
    given_options,
    print_notes,
    read_options,
)
from .clusters import RayAddress, Workers, check_ray_flags, scaling_of
from .outputs import check_output

if TYPE_CHECKING:
    import numpy as np

    from ..losses.loss import Loss
    from ..read.open import ExtraColumns

DIGITS = ".9g"  # nine digits tell any two float32 numbers apart


def predict(
    context: typer.Context,
    model: ModelPath,
    data: DataPath,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write to this file instead of stdout, if all rows are valid.")
    ] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="COLUMN", help="Tables: write CSV that includes this column. Can be repeated."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object per row: score, probability or prediction.")
    ] = False,
    index_base: Annotated[
        int | None, typer.Option(help="Smallest feature id in DATA; must match the model (default: the model's).")
    ] = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    ray: RayAddress = None,
    workers: Workers = 2,
) -> None:
    """Print one prediction per row, in input order.

    Predictions are probabilities of the positive label, values or expected counts, depending on the task.

    For tables, values never seen in training are reported on stderr.
    """
    if out == "-":
        out = None
    if out is not None:
        check_output(out)  # before the imports below, which take longer than the check
    from ..encode.coverage import Coverage
    from ..files.atomic import write_atomically
    from ..model.folder import load_common
    from ..predictor import Predictor
    from ..read.open import ExtraColumns

    coverage, files = Coverage(), read_options("binary", format, duplicates)
    predictor = Predictor.load(model) if ray is None else Predictor(load_common(model))  # workers have the rest
    check_ray_flags(ray, given_options(context))
    beside = ExtraColumns(tuple(dict.fromkeys(with_))) if with_ else None
    if ray is None:
        check_row_flags(data, files, given_options(context))
        found = predictor.scores(data, files, index_base, coverage, beside)
    else:
        found = _scores_on_cluster(model, data, ray, workers, beside)
    scores = _note_if_none(found, data)
    loss = predictor.saved.model.loss
    lines = _json_lines(scores, loss, beside) if json else _csv_lines(scores, loss, beside)
    if out is not None:
        write_atomically(out, lines)
    else:
        for part in lines:
            cast(SafeStream, sys.stdout).write_bytes(part)
    print_notes(coverage)


def _scores_on_cluster(
    model: str, data: str, address: str, workers: int, beside: ExtraColumns | None
) -> Iterator[np.ndarray]:
    from ..distributed.scoring import predict_scores
    from ..errors import ConfigError

    if beside is not None:
        raise ConfigError("--with cannot be combined with --ray: drop one of them", key="with")
    return predict_scores(model, data, address, scaling_of(address, workers))


def _note_if_none(scores: Iterator[np.ndarray], data: str) -> Iterator[np.ndarray]:
    """Pass scores through; print a note if there are none."""
    n_rows = 0
    for part in scores:
        n_rows += part.size
        yield part
    if not n_rows:
        print(f"note: {'stdin' if data == '-' else data}: 0 rows", file=sys.stderr)


def _csv_lines(scores: Iterator[np.ndarray], loss: Loss, beside: ExtraColumns | None) -> Iterator[bytes]:
    """Yield predictions as lines, or as CSV with a header if there are columns to write beside them."""
    heading = b"" if beside is None else _csv([[*beside.names, "prediction"]])
    for part in scores:
        if heading:  # only now, since reading the first rows may fail
            yield heading
            heading = b""
        predictions = loss.predict(part).tolist()
        if beside is None:
            yield b"".join(b"%.9g\n" % value for value in predictions)
        else:
            yield _csv([*cells, f"{value:{DIGITS}}"] for cells, value in zip(_texts(beside), predictions))
    if heading:
        yield heading


def _csv(rows: Any) -> bytes:
    import csv
    import io

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "surrogateescape")


def _json_lines(scores: Iterator[np.ndarray], loss: Loss, beside: ExtraColumns | None) -> Iterator[bytes]:
    """Yield one JSON object per row: the columns, the score, and the probability or prediction."""
    from json import dumps

    kind = "probability" if loss.is_classification else "prediction"
    for part in scores:
        columns = _texts(beside) if beside is not None else ((),) * part.size
        names = () if beside is None else beside.names
        rows = zip(columns, part.tolist(), loss.predict(part).tolist())
        objects = (
            {**dict(zip(names, cells)), "score": float(f"{score:{DIGITS}}"), kind: float(f"{value:{DIGITS}}")}
            for cells, score, value in rows
        )
        yield "".join(f"{dumps(found, allow_nan=False)}\n" for found in objects).encode()


def _texts(beside: ExtraColumns) -> Iterator[tuple[str, ...]]:
    """Return the cells of the next batch, row by row, as text; a missing one is empty."""
    from ..encode.casts import as_text, cell_type, plain

    batch = beside.cells.popleft()
    columns = []
    for cells in batch.columns:
        cells = plain(cells)
        known = as_text(cells).to_pylist() if cell_type(cells.type) in ("text", "number") else cells.to_pylist()
        columns.append(["" if cell is None else _text(cell) for cell in known])
    return zip(*columns)


def _text(cell: Any) -> str:
    return cell.decode("utf-8", "backslashreplace") if isinstance(cell, bytes) else str(cell)
