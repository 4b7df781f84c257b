"""`rafm report`."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import Duplicates, Format, ModelPath, read_options
from .outputs import check_output


def report(
    model: ModelPath,
    out: Annotated[str, typer.Option(metavar="HTML", help="Page to write.")],
    data: Annotated[
        str | None, typer.Option(metavar="FILE", help="Test rows, for quality, importance and coverage.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Worker threads. Results are the same for any value.")] = 1,
    format: Format = "auto",
    duplicates: Duplicates = "error",
) -> None:
    """Write an HTML report about a model.

    It shows what the model was trained on, how well it predicts, and which features matter.

    The page is one file without scripts; it opens from disk, on a phone and in print.
    """
    from pathlib import Path

    from ..encode.coverage import Coverage
    from ..explain.names import FeatureNames
    from ..files.atomic import write_atomically
    from ..predictor import Predictor
    from ..report.page import report_page
    from ..report.results import evaluate_rows

    check_output(out)
    predictor, coverage, results = Predictor.load(model), Coverage(), None
    if data is not None:
        batches = predictor.batches(data, read_options("binary", format, duplicates), coverage=coverage)
        names = FeatureNames.of(predictor.saved)
        results = evaluate_rows(predictor.saved.model, batches, names, Path(data).name, coverage, threads)
    page = report_page(predictor.saved, results, Path(model).name)
    write_atomically(out, [page.encode()])
    print(f"saved {out}")
