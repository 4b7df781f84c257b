"""`rafm train`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files.terminal import counted
from ..flag_values import flag_name
from ..losses import TASKS
from ..optimizers import SAMPLERS
from .arguments import (
    TABLE_OPTIONS,
    DataPath,
    Json,
    Task,
    check_positive,
    check_valid_flags,
    given_options,
    print_json,
    print_safely,
)
from .clusters import (
    RayFlags,
    check_cluster_flags,
    check_model_output,
    check_ray_flags,
    is_folder,
    train_on_cluster,
)
from .groups import TrainingFlags, in_flags, with_groups
from .reading import ReadingFlags, check_flags

if TYPE_CHECKING:
    from ..model.file import Saved
    from ..model.model import Model
    from ..options import Options


@dataclass(frozen=True)
class RunFlags:
    """Checkpoints, the model to continue from, and the event log of a run."""

    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory for checkpoints; the same command resumes from it.")
    ] = None
    checkpoint_seconds: Annotated[
        float, typer.Option(help="Seconds between checkpoints, besides the one at the end of each epoch.")
    ] = 60.0
    resume_from: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Continue from this model (default: one more epoch).")
    ] = None
    replan: Annotated[
        bool, typer.Option(help="With --resume-from: promote features to the ranks that their new counts allow.")
    ] = False
    keep_state: Annotated[
        bool, typer.Option(help="Save the optimiser state in MODEL, so that --resume-from continues exactly.")
    ] = False
    events: Annotated[
        str | None, typer.Option(metavar="FILE", help='Append one JSON line per event; "-" writes to stdout.')
    ] = None


@with_groups
def train(
    context: typer.Context,
    data: DataPath,
    out: Annotated[
        str, typer.Option(metavar="MODEL", help="Model file to write; with --ray, FOLDER/ writes a folder of parts.")
    ],
    training: TrainingFlags,
    reading: ReadingFlags,
    running: RunFlags,
    cluster: RayFlags,
    valid: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Validation rows, used to choose the best epoch and, by default, the model."),
    ] = None,
    task: Task = TASKS[0],
    json: Json = False,
) -> None:
    """Train a model and save it.

    Prints the rank plan, then one line per epoch.
    """
    from ..errors import ConfigError
    from ..read.open import converted_task_and_base
    from ..rows.classes import BinaryLabels

    base = reading.index_base
    if running.resume_from is None:
        task, base = converted_task_and_base(data, reading.format, task, base, given_options(context))
    if running.replan and running.resume_from is None:
        raise ConfigError("--replan raises features of an existing model: add --resume-from MODEL", key="replan")
    check_valid_flags(valid, given_options(context))
    start = None if running.resume_from is None else _read_start(context, running.resume_from, reading.index_base)
    options = _options(context, task, training, running, start)
    check_model_output(out, cluster.ray)
    stream = sys.stderr if json or running.events == "-" else sys.stdout  # stdout must stay valid JSON
    base = base if start is None else start.index_base
    check_positive(reading.positive, options.loss)
    files = reading.read_options(options.loss.task, base, print_safely(stream))
    if start is not None and options.loss.is_classification:
        files = replace(files, labels=BinaryLabels.known(start.classes))
    check_ray_flags(cluster.ray, given_options(context))
    if cluster.ray is not None:
        check_cluster_flags(cluster.ray, data, files, given_options(context))
        with _log(running.events) as log:
            report = _run_on_cluster(data, valid, out, options, files, cluster, running, stream, log)
    else:
        check_flags(data, files, reading, given_options(context))
        with _checkpoint(running.checkpoint, running.checkpoint_seconds) as states, _log(running.events) as log:
            report = _run(data, valid, out, options, files, states, start, stream, log)
    if json:
        print_json(report)
    else:
        size = f"{counted(report['parameters'], 'parameter')}, {report['model_bytes']} bytes"
        print_safely(stream)(f"{report['trained']}\nsaved {out}: {size}")


def _options(
    context: typer.Context, task: str, training: TrainingFlags, running: RunFlags, start: Saved | None
) -> Options:
    """Return the checked options, with those not given taken from the model to resume from."""
    from ..errors import ConfigError
    from ..optimizers import SAMPLERS
    from ..options import resolve

    chosen = {"task": task, **training}
    given = chosen if start is None else _options_to_resume(context, start.model, chosen)
    # A model that was saved with its optimiser state keeps it, or the next --resume-from would lose it.
    needs_state = running.keep_state or (start is not None and start.model.parameters.states is not None)
    samples_anew = chosen["optimizer"] in SAMPLERS and "optimizer" in given_options(context)  # from these parameters
    shuffle = start is None or samples_anew
    options = resolve(**given, shuffle=shuffle, needs_state=needs_state, replan=running.replan)
    if running.keep_state and options.optimizer.is_sampler:
        raise ConfigError(
            f"--keep-state is for optimizers that can continue; {options.optimizer.name!r} cannot: drop --keep-state",
            key="keep_state",
        )
    return options


def _checkpoint(folder: str | None, seconds: float) -> Any:
    from ..train.checkpoint import Checkpoint, NoCheckpoint

    return NoCheckpoint() if folder is None else Checkpoint(folder, seconds, lambda text: print(text, file=sys.stderr))


def _log(events: str | None) -> Any:
    from contextlib import nullcontext

    from ..train.event_log import EventFile

    return nullcontext({None: None, "-": sys.stdout}[events]) if events in (None, "-") else EventFile(events)


def _read_start(context: typer.Context, path: str, index_base: int) -> Saved:
    """Read the model to resume from; reject options that contradict what it knows of its input."""
    from ..errors import ConfigError
    from ..model.file import load

    saved, given = load(path), given_options(context)
    for name in (*TABLE_OPTIONS, "positive"):
        if name in given:
            raise ConfigError(f"{flag_name(name)} cannot be combined with --resume-from: {path} defines it", key=name)
    if "index_base" in given and index_base != saved.index_base:
        raise ConfigError(
            f"{path} was trained with --index-base {saved.index_base}, not {index_base}", key="index_base"
        )
    return saved


def _options_to_resume(context: typer.Context, model: Model, chosen: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the model, overridden by those of the command; the default is one epoch."""
    from ..options import declared_options, from_summary

    names = {declared.flag or name: name for name, declared in declared_options()}
    given = {names.get(name, name) for name in given_options(context)}
    family = chosen["model"] if "model" in given else model.plan.family
    known = {**from_summary(model.options, family), "task": model.loss.task, "n_epochs": 1}
    known["validation_fraction"] = 0.0  # the train loss of one pass over new rows is progressive
    known["loss"] = model.loss  # with its settings, which the summary lacks
    known["ranks"] = model.plan.ranks or None
    if "optimizer" in given and chosen["optimizer"] in SAMPLERS:
        return {**chosen, **{name: known[name] for name in ("task", "loss", "model", "ranks") if name not in given}}
    if known.get("optimizer") in SAMPLERS and "optimizer" not in given:  # it goes on by steps
        for name in ("optimizer", "learning_rate", "l2", "init_scale"):
            known.pop(name, None)
    # Options that depend on one the user changed fall back to its defaults.
    if "task" in given and chosen["task"] != known["task"]:
        for name in ("metric", "negative_rate", "loss"):
            known.pop(name, None)
    if "loss" in given:
        known.pop("metric", None)
    if "rank_scale" in given:
        known.pop("levels", None)
    if "optimizer" in given and chosen["optimizer"] != model.options.get("optimizer"):
        known.pop("learning_rate", None)
    return {**chosen, **{name: value for name, value in known.items() if name not in given}}


def open_rows(data: str, files: Any, start: Saved | None, stream: Any) -> tuple[Any, Any]:
    """Return the training rows and their encoder."""
    from ..errors import FeatureRangeError
    from ..read.open import further_rows, training_rows

    if start is None:
        found = training_rows(data, files, print_safely(stream))
        if files.task == TASKS[0] and (line := files.labels.describe()):
            print_safely(stream)(line)
        return found
    rows, encoder = further_rows(data, files, start.encoder)
    n_inputs = start.model.numbering.n_inputs
    # A matrix with named columns has a name for every id, and none for new ones.
    if start.columns is not None and encoder is None and rows.n_features > n_inputs:
        raise FeatureRangeError(
            f"has feature id {rows.n_features - 1}, but the model has {counted(n_inputs, 'named column')}", path=data
        )
    return rows, encoder


def check_size(encoder: Any) -> None:
    """Reject columns that would not fit into the header of a model file, before training."""
    if encoder is not None:
        from ..encode.serialize import check_size

        check_size(encoder)


def _renumbered(start: Saved | None, encoder: Any) -> Model | None:
    """Return the model to resume from, renumbered to the ids of the grown encoder."""
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
    from ..jit.compiling import compile_seconds, seconds_without_compiling
    from ..model.file import Saved, extra_bytes, save
    from ..read.open import validation_rows
    from ..train import train as train_rows
    from ..train.event_log import log_events
    from ..train.events import Chosen, Continued, Decided, Finished, Planned
    from ..train.progress import show_events
    from ..train.resources import Resources
    from ..train.steps.record_engine import threads_used

    begun = seconds_without_compiling()
    rows, encoder = open_rows(data, files, start, stream)
    check_size(encoder)
    before = _renumbered(start, encoder)
    resources = Resources(
        memory=files.room.megabytes,
        reserved_bytes=extra_bytes(encoder, files.labels.classes),
        checkpoint=states,
        room=files.room,
    )
    # Read only now: a table of validation rows needs the encoder of the training rows.
    known = rows if start is None else None
    held_out = None if valid is None else validation_rows(valid, files, encoder, known)
    events = log_events(train_rows(rows, options, held_out, resources, before), log)
    told, is_planned, is_warned, recipe = {}, False, False, options  # type: dict[str, Any], bool, bool, Options
    for event in show_events(
        events, options, stream=stream, spell=in_flags
    ):  # training runs as the events are consumed
        last = event
        if isinstance(event, Decided):
            recipe = event.decision.recipes[0]
        if isinstance(event, Continued) and options.replan:
            told |= {"promoted": event.promoted, "pair_error": event.pair_error}
        if isinstance(event, Chosen):
            told |= {"competition": event.metrics}
            recipe = event.recipe
        if not is_warned:
            is_warned = _warn_of_one_class(event, data)
        if isinstance(event, Planned) and not is_planned:  # once, if there are several runs
            note_threads(options.threads, threads_used(recipe, event.n_rows))
            is_planned = True
    assert isinstance(last, Finished)
    fitted = last.model
    classes = files.labels.classes if fitted.loss.is_classification else None
    columns = None if start is None else start.columns
    size = save(out, Saved(fitted, encoder, files.index_base, classes, columns))
    anew = before is None or options.optimizer.is_sampler  # a sampled model has a history of its own
    return {
        **_summary(fitted, classes, None if anew else before),
        "model_bytes": size,
        "stopped_by": last.reason,
        **told,
        "threads": threads_used(recipe, fitted.n_rows - (0 if before is None else before.n_rows)),
        "seconds": round(seconds_without_compiling() - begun, 3),
        "compile_seconds": round(compile_seconds(), 3),
    }


def _run_on_cluster(
    data: str,
    valid: str | None,
    out: str,
    options: Any,
    files: Any,
    cluster: RayFlags,
    running: RunFlags,
    stream: Any,
    log: Any,
) -> dict[str, Any]:
    from ..jit.compiling import compile_seconds, seconds_without_compiling
    from ..model.file import Saved, save

    begun = seconds_without_compiling()
    folder = out if is_folder(out) else None
    last, given, written = train_on_cluster(data, valid, options, files, cluster, running, stream, log, folder)
    fitted = last.model
    classes = given.classes if fitted.loss.is_classification else None
    if written is None:
        check_size(given.encoder)
        size = save(out, Saved(fitted, given.encoder, files.index_base, classes))
    else:  # by the shards; here the plan is all that is known of the features
        fitted, size = replace(fitted, plan=replace(fitted.plan, sizes=(*written.sizes(), 0))), written.n_bytes
    return {
        **_summary(fitted, classes, None),
        "model_bytes": size,
        "stopped_by": last.reason,
        "workers": cluster.scaling().num_workers,
        "seconds": round(seconds_without_compiling() - begun, 3),
        "compile_seconds": round(compile_seconds(), 3),
    }


def _summary(fitted: Model, classes: Any, before: Model | None) -> dict[str, Any]:
    """Return the JSON summary of a model; `before` is the one whose history it continues."""
    from ..model.describe import model_line

    classes = {"classes": classes or [0, 1]} if fitted.loss.is_classification else {}
    # Each row of the first resumed epoch is scored before it is trained on: an estimate on unseen rows.
    progressive = {} if before is None else {"progressive_loss": fitted.history[len(before.history)]["train_loss"]}
    return {
        "model": fitted.plan.family,
        "trained": model_line(fitted),
        "task": fitted.loss.task,
        **classes,
        "parameters": fitted.n_parameters,
        "epochs": len(fitted.history),
        "best_epoch": fitted.best_epoch,
        "history": fitted.history,
        **progressive,
    }


def note_threads(asked: int, used: int) -> None:
    if asked > used:
        print(f"note: training uses {used} of {asked} threads; more do not help this model", file=sys.stderr)


def _warn_of_one_class(event: Any, path: str) -> bool:
    """Warn before training if all labels are the same; return whether they are."""
    from ..train.events import OneClass, Planned

    found = isinstance(event, OneClass) or (isinstance(event, Planned) and event.one_class)
    if found:
        print(f"warning: {path}: all labels are the same", file=sys.stderr)
    return found
