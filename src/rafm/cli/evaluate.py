"""`rafm evaluate`."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import (
    DataPath,
    Duplicates,
    Format,
    Json,
    ModelPath,
    check_label_flag,
    check_row_flags,
    given_options,
    print_json,
    print_metrics,
    print_notes,
    read_options,
)


def evaluate(
    context: typer.Context,
    model: ModelPath,
    data: DataPath,
    index_base: Annotated[
        int | None, typer.Option(help="Smallest feature id in DATA; must match the model (default: the model's).")
    ] = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Tables: label column (default: that of training).")
    ] = None,
    json: Json = False,
) -> None:
    """Score labelled rows and print the metrics of the task.

    Clicks: log loss, AUC and calibration. Ratings: RMSE and MAE. Counts: Poisson deviance, MAE and RMSE.
    For tables, values never seen in training are reported on stderr, and as `coverage` with --json.
    """
    from ..encode.coverage import Coverage
    from ..errors import DataValueError
    from ..predictor import Predictor

    coverage = Coverage()
    # "binary" is a placeholder: the predictor uses the task of the model.
    predictor, files = Predictor.load(model), read_options("binary", format, duplicates)
    check_row_flags(data, files, given_options(context))
    if label is not None:
        check_label_flag(data, files)
        predictor = predictor.with_label(label)
    found = predictor.evaluate(data, files, index_base, coverage)
    if not found["rows"]:
        raise DataValueError("no rows", path=data)
    if json:
        print_json(found | ({"coverage": coverage.report()} if coverage.columns else {}))
    else:
        table = found.pop("reliability", [])
        print_metrics(found)
        _print_reliability(table)
    print_notes(coverage)


def _print_reliability(table: list[dict[str, float]]) -> None:
    """Print mean prediction and mean label per bin, lowest predictions first."""
    if table:
        print("\n    weight   mean prediction   mean label")
    for line in table:
        print(f"{line['weight']:10.0f} {line['mean_prediction']:17.6f} {line['mean_label']:12.6f}")
