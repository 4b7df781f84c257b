"""`rafm train`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .arguments import (
    Column,
    Columns,
    DataPath,
    Duplicates,
    Format,
    Json,
    Label,
    MaxFeatures,
    MaxLineBytes,
    Memory,
    MinCount,
    Spill,
    Weight,
    check_output,
    one_or_more,
    opening,
    print_json,
    table_spec,
    teller,
    whole_numbers,
    with_room,
)

if TYPE_CHECKING:
    from ..model.file import Saved
    from ..model.model import Model


TABLE_OPTIONS = ("label", "weight", "column", "columns", "min_count")


def train(
    context: typer.Context,
    data: DataPath,
    out: Annotated[str, typer.Option(metavar="MODEL", help="Where to write the model.")],
    valid: Annotated[str | None, typer.Option(metavar="FILE", help="Rows to choose the best epoch by.")] = None,
    task: Annotated[str, typer.Option(help="binary or regression.")] = "binary",
    model: Annotated[str, typer.Option(help="rafm, fm, lr, difacto or mrma.")] = "rafm",
    ranks: Annotated[str | None, typer.Option(help="Rising ranks, 8,32,128 unless given; one for fm, 32.")] = None,
    rank_scale: Annotated[float, typer.Option(help="A feature seen n times gets the rank nearest to C n.")] = 1.0,
    thresholds: Annotated[str | None, typer.Option(help="Counts from which the next rank begins, instead.")] = None,
    update: Annotated[str, typer.Option(help="joint, or algorithm1 for the paper to the letter.")] = "joint",
    dependent_weight: Annotated[
        float | None, typer.Option(help="Weight of dependent factors' own loss: 0.5 for clicks, 3 for ratings.")
    ] = None,
    optimizer: Annotated[str, typer.Option(help="adagrad, sgd, adam or ftrl.")] = "adagrad",
    learning_rate: Annotated[
        float | None, typer.Option(help="0.2 for clicks, 0.1 for ratings unless given; less for long rows.")
    ] = None,
    l2: Annotated[
        str | None,
        typer.Option(help="Factors: 0.005 for clicks, 0.1 for ratings unless given; or one per rank: 0.01,0.005."),
    ] = None,
    l2_weights: Annotated[float, typer.Option(help="Linear weights.")] = 0.0,
    l1: Annotated[float, typer.Option(help="Of ftrl: the larger, the more whole vectors are 0.")] = 0.0,
    l1_weights: Annotated[float, typer.Option(help="Of ftrl: the larger, the more linear weights are 0.")] = 0.0,
    epochs: Annotated[int, typer.Option(help="At most so many passes over the data.")] = 30,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs without improvement.")] = 3,
    metric: Annotated[
        str | None, typer.Option(help="Best by log_loss, auc or normalized_entropy; ratings: rmse or mae.")
    ] = None,
    max_seconds: Annotated[float | None, typer.Option(help="Stop after so long, with the best so far.")] = None,
    negative_rate: Annotated[float, typer.Option(help="The share of negatives that was kept in the rows.")] = 1.0,
    threads: Annotated[int, typer.Option(min=1, help="More are faster; the model never depends on it.")] = 1,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal models.")] = 0,
    index_base: Annotated[int, typer.Option(help="The smallest feature id of the files, 0 or 1.")] = 0,
    format: Format = "auto",
    label: Label = None,
    weight: Weight = None,
    column: Column = None,
    columns: Columns = None,
    min_count: MinCount = None,
    duplicates: Duplicates = "error",
    max_features: MaxFeatures = None,
    max_line_bytes: MaxLineBytes = None,
    memory: Memory = 1000,
    spill: Spill = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Keep the state here; the same command goes on from it."),
    ] = None,
    checkpoint_seconds: Annotated[float, typer.Option(help="How often, besides at the end of each epoch.")] = 60.0,
    resume_from: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Go on from this model, by one pass unless --epochs says more."),
    ] = None,
    replan: Annotated[
        bool, typer.Option(help="Let its features rise to the ranks that all their counts admit.")
    ] = False,
    keep_state: Annotated[bool, typer.Option(help="Keep the optimiser's states in MODEL, to go on from it.")] = False,
    events: Annotated[
        str | None, typer.Option(metavar="FILE", help='Append one line of JSON per event; "-" is the standard output.')
    ] = None,
    json: Json = False,
) -> None:
    """Train a model and save it. Shows the plan of ranks first, then one line per epoch."""
    from dataclasses import replace

    from ..errors import ConfigError
    from ..options import resolve
    from ..plan.ranks import Thresholds

    given = None if thresholds is None else Thresholds(whole_numbers(thresholds, "thresholds"))
    chosen: dict[str, Any] = {
        "task": task,
        "model": model,
        "ranks": None if ranks is None or model == "lr" else whole_numbers(ranks, "ranks"),
        "rank_scale": rank_scale,
        "levels": given,
        "update": update,
        "dependent_weight": dependent_weight,
        "optimizer": optimizer,
        "learning_rate": learning_rate,
        "l2": None if l2 is None else one_or_more(l2, "l2"),
        "l2_weights": l2_weights,
        "l1": l1,
        "l1_weights": l1_weights,
        "n_epochs": epochs,
        "patience": patience,
        "metric": metric,
        "max_seconds": max_seconds,
        "negative_rate": negative_rate,
        "seed": seed,
        "threads": threads,
    }
    if replan and resume_from is None:
        raise ConfigError("--replan is for the features of a model: give --resume-from MODEL too", key="replan")
    start = None if resume_from is None else _read_start(context, resume_from, index_base)
    options = resolve(**(chosen if start is None else _choices_to_go_on(context, start.model, chosen)))
    had_states = start is not None and start.model.parameters.states is not None
    options = replace(options, shuffle=start is None, keep_state=keep_state or had_states, replan=replan)
    check_output(out, data, valid)
    spec = table_spec(columns, column, label, weight, min_count)
    base = index_base if start is None else start.index_base
    files = opening(options.loss.task, format, duplicates, base, max_features, max_line_bytes, spec)
    stream = sys.stderr if json or events == "-" else sys.stdout
    files = with_room(files, memory, spill, teller(stream))
    with _checkpoint(checkpoint, checkpoint_seconds) as states, _log(events) as log:
        report = _run(data, valid, out, options, files, states, start, stream, log)
    if json:
        print_json(report)
    else:
        teller(stream)(f"saved {out}: {report['parameters']} parameters, {report['model_bytes']} bytes")


def _checkpoint(folder: str | None, seconds: float) -> Any:
    from ..train.checkpoint import Checkpoint, NoCheckpoint

    return NoCheckpoint() if folder is None else Checkpoint(folder, seconds, lambda text: print(text, file=sys.stderr))


def _log(events: str | None) -> Any:
    from contextlib import nullcontext

    from ..train.event_log import EventFile

    return nullcontext({None: None, "-": sys.stdout}[events]) if events in (None, "-") else EventFile(events)


def _given(context: typer.Context) -> set[str]:
    """Return the names of the options that stand in the command."""
    return {name for name in context.params if context.get_parameter_source(name).name == "COMMANDLINE"}  # type: ignore[union-attr]


def _read_start(context: typer.Context, path: str, index_base: int) -> Saved:
    """Read the model to go on from; what it knows of its input cannot be said differently."""
    from ..errors import ConfigError
    from ..model.file import load

    saved, given = load(path), _given(context)
    for name in TABLE_OPTIONS:
        if name in given:
            flag = name.replace("_", "-")
            raise ConfigError(f"--{flag} cannot be given with --resume-from: {path} knows its columns", key=name)
    if "index_base" in given and index_base != saved.index_base:
        raise ConfigError(
            f"{path} was trained on ids that count from {saved.index_base}, not from {index_base}", key="index_base"
        )
    return saved


def _choices_to_go_on(context: typer.Context, model: Model, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the choices of the model, but what the command says; and one epoch unless it says more."""
    from ..options import from_summary

    names = {"epochs": "n_epochs", "thresholds": "levels"}
    given = {names.get(name, name) for name in _given(context)}
    known = {**from_summary(model.options), "task": model.loss.task, "model": model.plan.family, "n_epochs": 1}
    known["ranks"] = model.plan.ranks or None
    if "task" in given and chosen["task"] != known["task"]:
        known.pop("metric", None)
        known.pop("negative_rate", None)
    if "rank_scale" in given:
        known.pop("levels", None)
    if "optimizer" in given and chosen["optimizer"] != model.options.get("optimizer"):
        known.pop("learning_rate", None)
    return {**chosen, **{name: value for name, value in known.items() if name not in given}}


def _open_rows(data: str, files: Any, start: Saved | None, stream: Any) -> tuple[Any, Any]:
    """Return the training rows and their encoder."""
    from ..errors import FeatureRangeError
    from ..read.open import further_rows, training_rows

    if start is None:
        return training_rows(data, files, teller(stream))
    rows, encoder = further_rows(data, files, start.encoder)
    n_inputs = start.model.numbering.n_inputs
    if start.columns is not None and rows.n_features > n_inputs:
        raise FeatureRangeError(f"has feature id {rows.n_features - 1}, the model {n_inputs} named columns", path=data)
    return rows, encoder


def _check_size(encoder: Any) -> None:
    """Refuse columns that the model file could not describe, before training."""
    if encoder is not None:
        from ..encode.serialize import check_size

        check_size(encoder)


def _renumbered(start: Saved | None, encoder: Any) -> Model | None:
    """Return the model to go on from, with ids as the grown encoder has them."""
    if start is None or start.encoder is None:
        return None if start is None else start.model
    return start.model.with_ids(start.encoder.ids_in(encoder), encoder.n_features)


def _run(
    data: str,
    valid: str | None,
    out: str,
    options: Any,
    files: Any,
    states: Any,
    start: Saved | None,
    stream: Any,
    log: Any,
) -> dict[str, Any]:
    import time

    from ..model.file import Saved, save
    from ..read.open import labelled_rows
    from ..train.event_log import log_events
    from ..train.progress import show_events
    from ..train.trainer import Continued, Finished
    from ..train.trainer import train as train_events

    begun = time.perf_counter()
    rows, encoder = _open_rows(data, files, start, stream)
    _check_size(encoder)
    before = _renumbered(start, encoder)
    held_out = None if valid is None else labelled_rows(valid, files, encoder)
    events = log_events(train_events(rows, options, held_out, states, before), log)
    promotion = {}
    for event in show_events(events, options, stream=stream):
        last = event
        if isinstance(event, Continued) and options.replan:
            promotion = {"promoted": event.promoted, "pair_error": event.pair_error}
        _warn_of_one_class(event, data)
    assert isinstance(last, Finished)
    fitted = last.model
    described = (None, None) if start is None else (start.classes, start.columns)
    size = save(out, Saved(fitted, encoder, files.index_base, *described))
    done = 0 if before is None else len(before.history)
    progressive = {} if before is None else {"progressive_loss": fitted.history[done]["train_loss"]}
    return {
        "model": fitted.plan.family,
        "task": fitted.loss.task,
        "parameters": fitted.n_parameters,
        "model_bytes": size,
        "epochs": len(fitted.history),
        "best_epoch": fitted.best_epoch,
        "stopped_by": last.reason,
        "history": fitted.history,
        **progressive,
        **promotion,
        "seconds": round(time.perf_counter() - begun, 3),
    }


def _warn_of_one_class(event: Any, path: str) -> None:
    from ..train.trainer import Planned

    if isinstance(event, Planned) and event.one_class:
        print(f"warning: {path}: all labels are the same", file=sys.stderr)
