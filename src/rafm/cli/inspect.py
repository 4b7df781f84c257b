"""`rafm inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .arguments import Duplicates, Format, Json, Label, opening, print_json, table_spec, whole_numbers


def inspect(
    path: Annotated[str, typer.Argument(metavar="DATA|MODEL", help='A data file, "-", or a .rafm file.')],
    task: Annotated[str, typer.Option(help="binary or regression: which labels data may have.")] = "regression",
    ranks: Annotated[str | None, typer.Option(help="Ranks to plan for data; suggested unless given.")] = None,
    rank_scale: Annotated[float, typer.Option(help="A feature seen n times gets the rank nearest to C n.")] = 1.0,
    index_base: Annotated[int, typer.Option(help="The smallest feature id of data, 0 or 1.")] = 0,
    label: Label = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    json: Json = False,
) -> None:
    """Describe data (rows, features, their frequencies, a plan of ranks) or a model (plan, size, training)."""
    from ..container import is_container

    if path.endswith(".rafm") or (path != "-" and is_container(path)):
        report, lines = _model_report(path)
    else:
        files = opening(task, format, duplicates, index_base, spec=table_spec(None, None, label, None, None))
        report, lines = _data_report(path, ranks, rank_scale, files)
    if json:
        print_json(report)
    else:
        print("\n".join(lines))


def _model_report(path: str) -> tuple[dict[str, Any], list[str]]:
    from ..progress import plan_lines
    from ..ranks import describe_plan
    from ..storage import load
    from ..trainer import Planned

    saved = load(path)
    model = saved.model
    report = {
        "kind": "model",
        "model": model.plan.family,
        "task": model.loss.task,
        "features": model.plan.n_features,
        "trained_rows": model.n_rows,
        "parameters": model.n_parameters,
        "bytes": Path(path).stat().st_size,
        "index_base": saved.index_base,
        **_plan_report(describe_plan(model.plan, model.counts, model.n_rows)),
        "best_epoch": model.best_epoch,
        "options": model.options,
        "history": model.history,
    }
    lines = _listed(report, skip=("kind", "plan", "fm_of_top_rank", "history", "options"))
    lines += [f"{name:14} {value}" for name, value in model.options.items()]
    lines += ["", *plan_lines(Planned(model.plan, model.counts, model.n_rows)), ""]
    lines += [_history_line(entry, model.best_epoch) for entry in model.history]
    return report, lines


def _plan_report(lines: list[dict[str, float]]) -> dict[str, Any]:
    return {"plan": lines[:-1], "fm_of_top_rank": lines[-1] if lines else None}


def _history_line(entry: dict[str, Any], best: int) -> str:
    names = ("train_loss", "valid_log_loss", "valid_auc", "valid_rmse", "valid_mae")
    numbers = [f"{name} {entry[name]:.5f}" for name in names if entry.get(name) is not None]
    return f"epoch {entry['epoch']:3d}   " + "   ".join(numbers) + ("   kept" if entry["epoch"] == best else "")


def _data_report(path: str, ranks: str | None, rank_scale: float, files: Any) -> tuple[dict[str, Any], list[str]]:
    from ..data.door import any_rows
    from ..errors import DataValueError
    from ..progress import plan_lines
    from ..ranks import NearestRank, check_ranks, describe_plan, plan_ranks
    from ..survey import suggest_ranks, survey
    from ..trainer import Planned

    choices: list[str] = []
    found = survey(any_rows(path, files, choices.append))
    if not found.rows:
        raise DataValueError("no rows", path=path)
    given = suggest_ranks(found.counts) if ranks is None else whole_numbers(ranks, "ranks")
    plan, order = plan_ranks("rafm", check_ranks("rafm", given), found.counts, NearestRank(rank_scale))
    report = {"kind": "data", **found.report(), "ranks": list(given), "rank_scale": rank_scale}
    report |= _plan_report(describe_plan(plan, found.counts[order], found.rows))
    lines = [*choices, *_listed(report, skip=("kind", "plan", "fm_of_top_rank", "frequencies"))]
    lines += ["", "seen       features  share of nonzeros"]
    lines += [f"{name:9} {size:9d} {share:18.3f}" for name, size, share in found.histogram()]
    return report, [*lines, "", *plan_lines(Planned(plan, found.counts[order], found.rows))]


def _listed(report: dict[str, Any], skip: tuple[str, ...]) -> list[str]:
    return [f"{name:14} {value}" for name, value in report.items() if name not in skip]
