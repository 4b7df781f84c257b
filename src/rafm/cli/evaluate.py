"""`rafm evaluate`."""

from __future__ import annotations

from typing import Annotated

import typer

from .arguments import DataPath, Duplicates, Format, Json, ModelPath, opening, print_json, print_metrics


def evaluate(
    model: ModelPath,
    data: DataPath,
    index_base: Annotated[int | None, typer.Option(help="Must agree with the model's.")] = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    json: Json = False,
) -> None:
    """Score labelled rows and print log loss and AUC, or RMSE and MAE."""
    from ..errors import DataValueError
    from ..predictor import Predictor

    found = Predictor.load(model).evaluate(data, opening("binary", format, duplicates), index_base)
    if not found["rows"]:
        raise DataValueError("no rows", path=data)
    (print_json if json else print_metrics)(found)
