"""`rafm evaluate`."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import DataPath, Duplicates, Format, Json, ModelPath, opening, print_json, print_metrics, print_notes


def evaluate(
    model: ModelPath,
    data: DataPath,
    index_base: Annotated[int | None, typer.Option(help="Must agree with the model's.")] = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    json: Json = False,
) -> None:
    """Score labelled rows and print log loss, AUC and calibration, or RMSE and MAE.

    Of tables it is told on stderr, and within --json, which values training has never seen.
    """
    from ..encode.coverage import Coverage
    from ..errors import DataValueError
    from ..predictor import Predictor

    coverage = Coverage()
    found = Predictor.load(model).evaluate(data, opening("binary", format, duplicates), index_base, coverage)
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
    """Print what was predicted and what happened, from the lowest predictions to the highest."""
    if table:
        print("\n    weight   mean prediction   mean label")
    for line in table:
        print(f"{line['weight']:10.0f} {line['mean_prediction']:17.6f} {line['mean_label']:12.6f}")
