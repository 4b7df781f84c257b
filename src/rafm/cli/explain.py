"""`rafm explain` and `rafm importance`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import DataPath, Duplicates, Format, Json, ModelPath, print_json, print_notes, read_options

if TYPE_CHECKING:
    from ..rows.checked import CheckedRows


def explain(
    model: ModelPath,
    data: DataPath,
    rows: Annotated[int, typer.Option(min=1, help="Number of rows to explain, from the start of DATA.")] = 10,
    top: Annotated[int, typer.Option(min=1, help="Terms to show per row; smaller ones are summed up.")] = 10,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
) -> None:
    """Split scores exactly into bias, linear and pairwise terms."""
    from ..encode.coverage import Coverage
    from ..explain.names import FeatureNames
    from ..explain.terms import explain_rows
    from ..predictor import Predictor

    predictor, coverage = Predictor.load(model), Coverage()
    names, number = FeatureNames.of(predictor.saved), 0
    batches = predictor.batches(data, read_options("binary", format, duplicates), None, False, coverage)
    for batch in first_rows(batches, rows):
        with predictor.saved.naming_rows(number):
            found = [*explain_rows(predictor.saved.model, batch, names)]
        for one in found:
            if json:
                print_json(one.to_dict(top))
            else:
                print(f"{'' if number == 0 else chr(10)}row {number + 1}: {one.to_text(top)}")
            number += 1
    print_notes(coverage)


def importance(
    model: ModelPath,
    data: DataPath,
    rows: Annotated[int, typer.Option(min=2, help="Maximum number of rows to use, from the first.")] = 100_000,
    repeats: Annotated[int, typer.Option(min=1, help="Permutations of each column.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Worker threads. Results are the same for any value.")] = 1,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    json: Json = False,
) -> None:
    """Measure how much the loss rises if a column is permuted.

    For files of feature ids, every feature is a column; the 100 most frequent are examined.
    """
    from ..encode.coverage import Coverage
    from ..errors import DataValueError
    from ..explain.importance import measure_importance
    from ..explain.names import FeatureNames
    from ..predictor import Predictor
    from ..rows.blocks import join_rows

    predictor, coverage, options = Predictor.load(model), Coverage(), read_options("binary", format, duplicates)
    batches = [*first_rows(predictor.batches(data, options, coverage=coverage), rows)]
    if not batches:
        raise DataValueError("no rows", path=data)
    names = FeatureNames.of(predictor.saved)
    found = measure_importance(
        predictor.saved.model, join_rows(batches), names, repeats=repeats, seed=seed, threads=threads
    )
    if json:
        print_json({"rows": sum(batch.n_rows for batch in batches), "columns": [asdict(one) for one in found]})
    else:
        _print_importance([asdict(one) for one in found])
    print_notes(coverage)


def first_rows(batches: Iterator[CheckedRows], n_rows: int) -> Iterator[CheckedRows]:
    """Yield batches up to a number of rows."""
    from ..rows.blocks import take_rows

    for batch in batches:
        yield take_rows(batch, 0, min(batch.n_rows, n_rows))
        n_rows -= batch.n_rows
        if n_rows <= 0:
            return


def _print_importance(lines: list[dict[str, Any]]) -> None:
    width = max(len(line["column"]) for line in lines)
    print(f"{'column':{width}}   importance   standard error")
    for line in lines:
        print(f"{line['column']:{width}} {line['importance']:12.6f} {line['standard_error']:16.6f}")
