"""Train a model, yielding events that progress display, event log and history consume."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..checks import NEUTRAL, USUAL_OPTIMIZER
from ..errors import ConfigError, DataValueError
from ..flag_values import AUTO
from ..losses.loss import Loss
from ..metrics.evaluation import Metrics
from ..model.model import Model
from ..optimizers import SAMPLERS
from ..options import TrainingOptions, resolve
from ..rows.checked import CheckedRows
from ..rows.source import RowSource
from ..rows.stats import count_rows
from .calibration import with_calibration
from .checkpoint import Checkpoint, NoCheckpoint, RowsFingerprint, identity
from .constant import with_constant
from .events import (
    Calibrated,
    CheckpointWritten,
    Continued,
    Cut,
    Distilled,
    EpochFinished,
    Event,
    Finished,
    Measuring,
    PieceFinished,
    Planned,
    Resumed,
    Searched,
    StartEvaluated,
)
from .field_choice import with_field_parameters
from .job import Job, Stop, finished, train_plain
from .loader import as_source, labelled_blocks
from .measured import train_measured
from .phases import Phase
from .run import choose_label_scale
from .schedule import Schedule
from .search import search_settings, with_settings
from .warm_start import check_start, warm_start

__all__ = [
    "Calibrated",
    "CheckpointWritten",
    "Continued",
    "Cut",
    "Distilled",
    "EpochFinished",
    "Event",
    "Finished",
    "Measuring",
    "PieceFinished",
    "Planned",
    "Resumed",
    "Searched",
    "StartEvaluated",
    "Stop",
    "train",
]


def train(
    data: CheckedRows | RowSource,
    options: TrainingOptions,
    valid: CheckedRows | RowSource | None = None,
    checkpoint: Checkpoint | NoCheckpoint | Phase | None = None,
    start: Model | None = None,
    stop: Stop | None = None,
    schedule: Schedule | None = None,
) -> Iterator[Event]:
    """Train a model, yielding events; the last event holds the model.

    With validation rows, the best epoch by the metric is kept, and training stops after `patience` epochs without
    improvement. Epoch 0, the model that predicts a constant, is kept if no epoch is better. After max_seconds training
    stops with the best epoch so far or, without validation rows, the current parameters.

    Parameters
    ----------
    data : CheckedRows or RowSource
        Training rows. A source may be larger than memory: blocks, and the rows of each, are visited in random order.
    options : TrainingOptions
        All settings.
    valid : CheckedRows or RowSource, default=None
        Validation rows.
    checkpoint : Checkpoint, default=None
        An open checkpoint to resume from and to write to.
    start : Model, default=None
        A model to continue from, with its optimiser state if it has one. With `options.replan` its features are
        promoted to the levels that their total counts allow.
    stop : Stop, default=None
        A request to stop, which consumers of the events can make.
    schedule : Schedule, default=None
        Without validation rows: what others chose, instead of `options.n_epochs` epochs.
    """
    if start is not None:
        options = _like(start, options)
        check_start(start, options)
    elif options.optimizer.is_sampler and not options.shuffle:
        raise ConfigError(f"optimizer={options.optimizer.name!r} needs all rows at once: use fit", "optimizer")
    if valid is not None and options.metric != options.loss.metrics[0]:
        _check_metric_is_defined(as_source(valid), options)
    checkpoint, source, fingerprint = checkpoint or NoCheckpoint(), as_source(data), RowsFingerprint()
    blocks = labelled_blocks(source, options.family)
    found = count_rows(fingerprint.watch(blocks) if checkpoint.wanted else blocks)
    check_labels(found.rows, found.label_range, options.loss)
    options = options.for_rows(found.rows, found.counts.sum() / found.rows, found.ids.size, found.label_spread)
    checked = RowsFingerprint.of(as_source(valid)) if valid is not None and checkpoint.wanted else None
    state = (
        checkpoint.find(identity(options, fingerprint, checked, start, source.fields)) if checkpoint.wanted else None
    )
    scale = choose_label_scale(found.label_spread, options.loss)
    job = Job(source, None if valid is None else as_source(valid), found, scale, checkpoint, state, stop or Stop())
    job = job._replace(weight_scale=found.weight_scale if start is None else _weight_scale(start), schedule=schedule)
    events = _events(job, options, start)
    if start is None:
        events = with_constant(events, job, options)
    yield from with_calibration(events, job.valid, options)


def _events(job: Job, options: TrainingOptions, start: Model | None) -> Iterator[Event]:
    """Train in the way that the options ask for."""
    if options.optimizer.is_sampler:  # imported here: its kernels are compiled only if they are used
        from .gibbs_measured import train_sampled_measured
        from .gibbs_run import train_sampled

        yield from train_sampled_measured(job, options) if options.measured else train_sampled(job, options, start)
    elif start is not None:
        yield from _continue(job, options, start)
    elif options.measured:
        yield from train_measured(job, options)
    else:
        options, job = yield from search_settings(job, options)
        yield from train_plain(job, options)


def _continue(job: Job, options: TrainingOptions, start: Model) -> Iterator[Event]:
    """Continue from a model."""
    begun = warm_start(start, job.found, job.source, job.label_scale, options)
    features, n_rows = with_field_parameters(begun.features, options, start), start.n_rows + job.found.rows
    yield Planned(features.plan, features.counts, n_rows)
    run = job._replace(label_scale=begun.label_scale).run(features, options, begun.parameters, n_rows)
    new, with_states = features.plan.n_features - start.plan.n_features, start.parameters.states is not None
    promotion = (begun.promoted, begun.pair_error) if options.replan else (None, None)
    yield replace(Continued(start.plan.n_features, new, with_states, *promotion), was_sampled=_was_sampled(start))
    yield from job.train(run)
    yield finished(job, run, features, n_rows, start)


def _weight_scale(start: Model) -> float:
    """Return the weight that counted as 1 in earlier training, so that those of later rows compare with it."""
    scale = start.options.get("weight_scale", 1.0)
    return scale if isinstance(scale, float) and scale > 0 else 1.0


def train_model(
    data: CheckedRows | RowSource, options: TrainingOptions, valid: CheckedRows | RowSource | None = None
) -> Model:
    """Train a model and discard the events."""
    *_, last = train(data, options, valid)
    assert isinstance(last, Finished)
    return last.model


def _was_sampled(start: Model) -> bool:
    return start.options.get("optimizer") in SAMPLERS


def _like(start: Model, options: TrainingOptions) -> TrainingOptions:
    """Return options with what was measured when the model was trained: its ranks, learning rate and L2.

    A sampled model goes on by steps, unless sampling is to begin from it.
    """
    if _was_sampled(start) and not options.shuffle and (options.may_sample or options.optimizer.is_sampler):
        given = {name: getattr(options, name) for name in (*NEUTRAL, "n_epochs")}
        shape = {"model": start.plan.family, "ranks": start.plan.ranks or None}
        stepped = resolve(task=options.loss.task, **given, **shape, optimizer=USUAL_OPTIMIZER)
        options = replace(stepped, shuffle=False, keep_state=options.keep_state, replan=options.replan)
    if options.searched:
        rate, l2 = start.options.get("learning_rate") or options.learning_rate, start.options.get("l2")
        options = with_settings(options, rate, l2 if isinstance(l2, float) else options.l2[0])
    was_rival = bool(options.rivals) and options.model != start.plan.family
    if options.measured or was_rival or (options.may_measure and start.options.get("ranks") == AUTO):
        family, ranks = start.plan.family, start.plan.ranks
        options = replace(options, model=family, ranks=ranks, l2=options.l2[:1] * len(ranks), measured=False)
    return _adapted_like(start, options)


def _adapted_like(start: Model, options: TrainingOptions) -> TrainingOptions:
    """Return options whose defaults suit the rows that the model was trained on first, not the next few."""
    known = start.options if start.options.get("optimizer") == options.optimizer.name else {}
    kept = {name: known[name] for name in options.adaptable if known.get(name) is not None}
    if "l2" in kept:
        penalties = kept["l2"] if isinstance(kept["l2"], list) else [kept["l2"]] * len(options.ranks)
        kept["l2"] = tuple(penalties) if len(penalties) == len(options.ranks) else options.l2
    return replace(options, adaptable=options.adaptable - kept.keys(), **kept)


def _check_metric_is_defined(valid: RowSource, options: TrainingOptions) -> None:
    """Reject a metric that is undefined for the validation labels: no epoch could be the best."""
    metrics = Metrics(options.loss, [options.metric])
    for rows in labelled_blocks(valid, options.family):
        weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
        metrics.add(np.asarray(rows.labels), np.zeros(rows.n_rows), weights)  # any scores will do
    if metrics.weight > 0 and metrics.values()[options.metric] is None:
        raise DataValueError(
            f"metric {options.metric!r} is undefined for the validation rows: their labels are all of one class. "
            f"Use metric {options.loss.metrics[0]!r}, or validation rows of both classes."
        )


def check_labels(n_rows: int, label_range: tuple[float, float], loss: Loss) -> None:
    """Reject data without rows, and labels that the loss has no use for."""
    low, high = label_range
    if not n_rows:
        raise DataValueError("no rows to train on")
    if wrong := loss.wrong_labels(low, high):
        raise DataValueError(wrong)
    if loss.is_pairwise and not low > 0:
        raise DataValueError(f"all rows of a ranking are positive, so labels must be above 0, found {low:g}")
