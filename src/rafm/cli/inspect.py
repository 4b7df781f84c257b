"""`rafm inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..files.terminal import printable
from ..flag_values import whole_numbers
from ..losses import TASKS, one_of
from .arguments import (
    Column,
    Columns,
    Duplicates,
    Format,
    Json,
    Label,
    MinCount,
    Weight,
    check_row_flags,
    given_options,
    print_json,
    read_options,
    table_spec,
)

MOST_FIELDS = 50  # listed in the text form of the report


def inspect(
    context: typer.Context,
    path: Annotated[
        str, typer.Argument(metavar="DATA|MODEL", help='Data file, "-" for standard input, or model file (.rafm).')
    ],
    ranks: Annotated[str | None, typer.Option(help="Ranks to plan for (default: those of `rafm train`).")] = None,
    rank_scale: Annotated[
        float | None, typer.Option(help="A feature seen n times gets the rank nearest to n times this number.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help=f"Kind of labels: {one_of(TASKS)} (default: binary if there are two).")
    ] = None,
    index_base: Annotated[int, typer.Option(help="Smallest feature id in the data: 0 or 1.")] = 0,
    label: Label = None,
    weight: Weight = None,
    column: Column = None,
    columns: Columns = None,
    min_count: MinCount = None,
    format: Format = "auto",
    duplicates: Duplicates = "error",
    json: Json = False,
) -> None:
    """Describe a model, or check data for problems.

    For data: labels, columns, duplicate rows, columns that leak the label, bad lines, and the ranks that features get.

    Bad lines are listed and skipped. The exit code is then 3, since training would stop at the first of them, as at
    a cell that its column cannot encode.
    """
    from ..errors import DataValueError
    from ..model.file import is_model

    # By name too, so that a damaged .rafm file is reported as such and not as odd data.
    if path.endswith(".rafm") or (path != "-" and is_model(path)):
        report, lines = model_report(path)
    else:
        spec = table_spec(columns, column, label, weight, min_count)
        files = read_options(TASKS[0] if task is None else task, format, duplicates, index_base, spec=spec)
        check_row_flags(path, files, given_options(context))
        report, lines = _data_report(path, ranks, rank_scale, files)
    if json:
        print_json(report)
    else:
        print("\n".join(lines))
    if report["kind"] == "data" and (n_bad := report["bad_lines"]["count"]):
        raise DataValueError(f"{n_bad} bad line{'s' if n_bad > 1 else ''}; see the report", path=path)
    if report["kind"] == "data" and report["faults"]:
        raise DataValueError(f"training would stop: {report['faults'][0]}", path=path)


def model_report(path: str) -> tuple[dict[str, Any], list[str]]:
    """Return the description of a model file as a dict and as lines of text."""
    from ..model.describe import model_line
    from ..model.file import load
    from ..plan.ranks import describe_plan
    from ..train.events import Planned

    saved = load(path)
    model = saved.model
    report = {
        "kind": "model",
        "model": model.plan.family,
        "trained": model_line(model),
        "task": model.loss.task,
        "loss": model.loss.name,
        "features": model.plan.n_features,
        **({"dropped_as_zero": model.n_dropped} if model.n_dropped else {}),
        "zero_weights": int((model.parameters.weights == 0).sum()),
        "zero_vectors": sum(int((~block.any(axis=1)).sum()) for block in model.parameters.factors),
        "trained_rows": model.n_rows,
        "parameters": model.n_parameters,
        "bytes": Path(path).stat().st_size,
        **({"bits": model.parameters.bits} if model.parameters.bits is not None else {}),
        "index_base": saved.index_base,
        **_plan_report(describe_plan(model.plan, model.counts, model.n_rows)),
        **_columns_report(saved.encoder),
        **_fields_report(model),
        "best_epoch": model.best_epoch,
        "options": model.options,
        "history": model.history,
    }
    lines = _listed(report, skip=("kind", "plan", "fm_of_top_rank", "history", "options", "fields", "columns"))
    lines += [f"{name:14} {value}" for name, value in model.options.items()]
    lines += ["", *Planned(model.plan, model.counts, model.n_rows).lines(), ""]
    lines += _column_lines(report["columns"]) if "columns" in report else []
    if "columns" not in report or model.plan.n_field_weights:
        lines += _field_lines(report.get("fields", []))
    lines += [_history_line(entry, model.best_epoch) for entry in model.history]
    return report, lines


def _columns_report(encoder: Any) -> dict[str, Any]:
    if encoder is None:
        return {}
    columns = [
        {"column": one.name, "kind": one.kind, **one.spec.settings(), "features": one.n_features}
        for one in encoder.columns
    ]
    columns += [{"column": one.name, "kind": "cross", "features": one.n_features} for one in encoder.crosses]
    return {"columns": columns}


def _column_lines(columns: list[dict[str, Any]]) -> list[str]:
    """Return a table of columns and kinds, cut off if there are many; its last line is empty."""
    lines = [f"{one['features']:8d}  {one['kind']:8}  {one['column']}" for one in columns[:MOST_FIELDS]]
    more = len(columns) - MOST_FIELDS
    return ["features  kind      column", *lines, *([f"          and {more} more"] if more > 0 else []), ""]


def _fields_report(model: Any) -> dict[str, Any]:
    if model.fields is None:
        return {}
    counted = zip(model.fields.names, model.fields.counts().tolist())
    fields: list[dict[str, Any]] = [{"field": name, "features": count} for name, count in counted]
    if model.parameters.fields is not None:
        fields = [one | {"weight": weight} for one, weight in zip(fields, model.parameters.fields.tolist())]
    return {"fields": fields}


def _field_lines(fields: list[dict[str, Any]]) -> list[str]:
    """Return a table of the fields, cut off if there are many; its last line is empty."""
    if not fields:
        return []
    weighted = "weight" in fields[0]
    lines = ["features  weight  field" if weighted else "features  field"]
    for one in fields[:MOST_FIELDS]:
        weight = f"  {one['weight']:6.3f}" if weighted else ""
        lines.append(f"{one['features']:8d}{weight}  {printable(one['field'])}")
    more = len(fields) - MOST_FIELDS
    return [*lines, *([f"          and {more} more"] if more > 0 else []), ""]


def _plan_report(lines: list[dict[str, float]]) -> dict[str, Any]:
    # the last line compares with an FM that gives every feature the top rank
    return {"plan": lines[:-1], "fm_of_top_rank": lines[-1] if lines else None}


def _history_line(entry: dict[str, Any], best: int) -> str:
    names = ("train_loss", "valid_log_loss", "valid_auc", "valid_rmse", "valid_mae")
    numbers = [f"{name} {entry[name]:.5f}" for name in names if entry.get(name) is not None]
    return f"epoch {entry['epoch']:3d}   " + "   ".join(numbers) + ("   kept" if entry["epoch"] == best else "")


def _data_report(
    path: str, ranks: str | None, rank_scale: float | None, files: Any
) -> tuple[dict[str, Any], list[str]]:
    from ..inspect.examine import examine
    from ..inspect.report import as_json, as_lines, plan_for
    from ..options import resolve
    from ..train.events import level_lines

    found = examine(path, files)
    summary = as_json(found)
    task = files.task if found.labels.are_numbers else summary["task"] or TASKS[0]
    given = None if ranks is None else whole_numbers(ranks, "ranks")
    usual = resolve(task=task, ranks=given, rank_scale=rank_scale)
    plan, described = plan_for(found.frequencies(), usual.ranks, usual.rank_scale, found.rows)
    report = summary | {"ranks": list(usual.ranks), "rank_scale": usual.rank_scale} | _plan_report(described)
    is_default = "" if given or rank_scale else " (the default)"
    planned = f"--ranks {','.join(map(str, usual.ranks))} --rank-scale {usual.rank_scale:g}{is_default} would give"
    return report, [*as_lines(found), "", planned, *level_lines(plan, described)]


def _listed(report: dict[str, Any], skip: tuple[str, ...]) -> list[str]:
    return [f"{name:14} {value}" for name, value in report.items() if name not in skip]
