"""`rafm evaluate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..flag_values import flag_name
from .arguments import (
    DataPath,
    Duplicates,
    ExcludeBy,
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
from .clusters import RayAddress, Workers, check_ray_flags, scaling_of
from .groups import with_groups

if TYPE_CHECKING:
    from ..predictor import Predictor
    from ..read.open import ReadOptions


@dataclass(frozen=True)
class RankingFlags:
    """How to evaluate recommendations."""

    ranking: Annotated[
        bool, typer.Option("--ranking", help="Evaluate recommendations: rank --items for each context of DATA.")
    ] = False
    items: Annotated[str | None, typer.Option(metavar="FILE", help="Ranking: file with one row per item.")] = None
    at: Annotated[str, typer.Option(metavar="K,...", help="Ranking: lengths of the lists to evaluate.")] = "10"
    exclude: Annotated[
        str | None, typer.Option(metavar="FILE", help="Ranking: rows not to recommend, such as training rows.")
    ] = None
    exclude_by: ExcludeBy = None
    leave_one_out: Annotated[
        bool, typer.Option("--leave-one-out", help="Ranking: only the last relevant item of a context counts.")
    ] = False
    relevant: Annotated[
        float | None,
        typer.Option(metavar="LABEL", help="Ranking: smallest label of a relevant item (default: above 0)."),
    ] = None
    threads: Annotated[int, typer.Option(min=1, help="Ranking: worker threads.")] = 1


@with_groups
def evaluate(
    context: typer.Context,
    model: ModelPath,
    data: DataPath,
    ranked: RankingFlags,
    index_base: Annotated[
        int | None, typer.Option(help="Smallest feature id in DATA; must match the model (default: the model's).")
    ] = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Tables: label column (default: that of training).")
    ] = None,
    ray: RayAddress = None,
    workers: Workers = 2,
    json: Json = False,
) -> None:
    """Score labelled rows and print the metrics of the task.

    Clicks: log loss, AUC and calibration. Ratings: RMSE and MAE. Counts: Poisson deviance, MAE and RMSE.
    For tables, values never seen in training are reported on stderr, and as `coverage` with --json.

    With --ranking, for each context (e.g. user) of the rows: precision, recall, NDCG, MAP, MRR and hit rate of the best
    items of a catalogue, and the share of the catalogue that is recommended to anyone.
    """
    from ..encode.coverage import Coverage
    from ..errors import ConfigError, DataValueError
    from ..predictor import Predictor

    coverage = Coverage()
    check_ray_flags(ray, given_options(context))
    if ray is not None:
        from ..distributed.scoring import evaluate as evaluate_on_cluster

        if label is not None or ranked.ranking:
            raise ConfigError("--label and --ranking cannot be combined with --ray: drop them", key="ray")
        found = evaluate_on_cluster(model, data, ray, scaling_of(ray, workers))
        table = [] if json else found.pop("reliability", [])
        print_json(found) if json else print_metrics(found)
        _print_reliability(table)
        return
    # "binary" is a placeholder: the predictor uses the task of the model.
    predictor, files = Predictor.load(model), read_options("binary", format, duplicates)
    check_row_flags(data, files, given_options(context))
    if label is not None:
        check_label_flag(data, files)
        predictor = predictor.with_label(label)
    _check_ranking_flags(ranked, given_options(context))
    if ranked.ranking:
        found = _evaluate_ranking(predictor, data, files, index_base, ranked)
        print_json(found) if json else print_metrics(found)
        return
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


def _check_ranking_flags(ranked: RankingFlags, given: set[str]) -> None:
    """Reject flags of rankings without --ranking, and a ranking without a catalogue."""
    from ..errors import ConfigError

    names = {name for name in vars(ranked) if name != "ranking"} & given
    if names and not ranked.ranking:
        raise ConfigError(f"{flag_name(min(names))} is for rankings: add --ranking", key=min(names))
    if ranked.ranking and ranked.items is None:
        raise ConfigError("--ranking needs a catalogue: add --items FILE", key="items")


def _evaluate_ranking(
    predictor: Predictor, data: str, files: ReadOptions, index_base: int | None, ranked: RankingFlags
) -> dict[str, Any]:
    """Read rows and catalogue, and return the metrics of rankings."""
    from ..errors import DataValueError
    from ..flag_values import whole_numbers
    from ..recommend.excluded import read_excluded
    from ..recommend.partial import read_side
    from ..recommend.ranked import evaluate_ranking
    from ..recommend.top import Catalogue
    from ..rows.blocks import join_rows

    at = whole_numbers(ranked.at, "at")
    batches = [*predictor.batches(data, files, index_base)]
    if not batches:
        raise DataValueError("no rows", path=data)
    assert ranked.items is not None
    items, test, seen = read_side(predictor, ranked.items, files), join_rows(batches), None
    if ranked.exclude is not None:
        catalogue, paths = Catalogue(predictor.saved.model, items), (data, ranked.items, ranked.exclude)
        seen = read_excluded(predictor, paths, files, ranked.exclude_by, test, catalogue)
    chosen = at, seen, ranked.leave_one_out, ranked.relevant, ranked.threads
    return evaluate_ranking(predictor.saved.model, test, items, *chosen)


def _print_reliability(table: list[dict[str, float]]) -> None:
    """Print mean prediction and mean label per bin, lowest predictions first."""
    if table:
        print("\n    weight   mean prediction   mean label")
    for line in table:
        print(f"{line['weight']:10.0f} {line['mean_prediction']:17.6f} {line['mean_label']:12.6f}")
