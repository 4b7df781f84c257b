"""Train a model, yielding events that progress display, event log and history consume."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..errors import DataValueError
from ..losses.loss import Loss
from ..metrics.evaluation import Metrics
from ..model.model import Model
from ..options import TrainingOptions
from ..plan.features import PlannedFeatures, plan_features
from ..rows.checked import CheckedRows
from ..rows.source import RowSource
from ..rows.stats import count_rows
from .checkpoint import Checkpoint, NoCheckpoint, RowsFingerprint, identity
from .engine import arrange
from .events import (
    CheckpointWritten,
    Continued,
    EpochFinished,
    Event,
    Finished,
    PieceFinished,
    Planned,
    Resumed,
    StartJudged,
)
from .loader import Blocks, as_source, labelled_blocks
from .phases import Phase
from .run import Run, choose_label_scale, shape_of
from .warm_start import check_start, warm_start

__all__ = [
    "CheckpointWritten",
    "Continued",
    "EpochFinished",
    "Event",
    "Finished",
    "PieceFinished",
    "Planned",
    "Resumed",
    "StartJudged",
    "Stop",
    "train",
]


@dataclass
class Stop:
    """A request to stop: training ends after the event during which it was made, as if time had run out."""

    requested: bool = False


def train(
    data: CheckedRows | RowSource,
    options: TrainingOptions,
    valid: CheckedRows | RowSource | None = None,
    checkpoint: Checkpoint | NoCheckpoint | Phase | None = None,
    start: Model | None = None,
    stop: Stop | None = None,
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
    """
    if start is not None:
        check_start(start, options)
    if valid is not None and options.metric != options.loss.metrics[0]:
        _check_metric_is_defined(as_source(valid), options)
    checkpoint, source, fingerprint = checkpoint or NoCheckpoint(), as_source(data), RowsFingerprint()
    blocks = labelled_blocks(source, options.family)
    found = count_rows(fingerprint.watch(blocks) if checkpoint.wanted else blocks)
    check_labels(found.rows, found.label_range, options.loss)
    options = options.for_rows_of(found.counts.sum() / found.rows)
    scale, begun = choose_label_scale(found.label_spread, options.loss), None
    if start is None:
        features = plan_features(found, source.n_features, options.model, options.ranks, options.rule)
        n_rows = found.rows
    else:
        begun = warm_start(start, found, source, scale, options)
        features, scale, n_rows = begun.features, begun.label_scale, start.n_rows + found.rows
    judged = RowsFingerprint.of(as_source(valid)) if valid is not None and checkpoint.wanted else None
    state = checkpoint.find(identity(options, fingerprint, judged, start)) if checkpoint.wanted else None
    one_class = options.loss.is_classification and found.label_range[0] == found.label_range[1]
    yield Planned(features.plan, features.counts, n_rows, one_class and start is None)
    grouping = arrange(features.plan, features.counts, shape_of(found)._replace(rows=n_rows), options)
    arranged = features.arranged(grouping.order)
    seed = options.seed if options.shuffle else None
    rows = Blocks(source, arranged.numbering, arranged.value_scales, scale, seed, grouping)
    held_out = None if valid is None else Blocks(as_source(valid), arranged.numbering, arranged.value_scales)
    first = None if begun is None else begun.parameters.arranged(grouping)
    run = Run(rows, found, arranged, grouping, options, held_out, checkpoint.uninterrupted, first)
    if start is not None and begun is not None:
        new, with_states = features.plan.n_features - start.plan.n_features, start.parameters.states is not None
        promotion = (begun.promoted, begun.pair_error) if options.replan else ()
        yield Continued(start.plan.n_features, new, with_states, *promotion)
    if state is None and start is None and (metrics := run.judge_start()):
        yield StartJudged(metrics)
    if state is not None:
        run.restore(state)
        yield Resumed(checkpoint.name, run.at.epoch, run.at.rows, run.is_over())
    checkpoint.capture = run.state
    yield from _epochs(run, checkpoint, stop or Stop())
    reason = "callback" if stop is not None and stop.requested and not run.is_over() else run.why_over()
    best_value = run.at.best_value if run.best_epoch() else run.at.start_value
    seconds = run.seconds()
    yield Finished(_model(run, features, n_rows, start), reason, best_value, seconds)


def _epochs(run: Run, checkpoint: Checkpoint | NoCheckpoint | Phase, stop: Stop) -> Iterator[Event]:
    """Train until the run is over; write checkpoints at the end of each epoch, when due and when out of time."""
    while not (run.is_over() or stop.requested or run.is_out_of_time()):
        for event in run.pieces():
            is_inside, out_of_time = event.rows < event.n_rows, stop.requested or run.is_out_of_time()
            if checkpoint.is_due() or (is_inside and out_of_time):
                yield from _written(run, checkpoint)
            if is_inside:
                yield event
            if is_inside and out_of_time:
                return
        yield run.finish_epoch()
        yield from _written(run, checkpoint)


def _written(run: Run, checkpoint: Checkpoint | NoCheckpoint | Phase) -> Iterator[Event]:
    path = checkpoint.write(finished=run.is_over())
    if path is not None:
        yield CheckpointWritten(path, run.at.epoch, run.at.rows)


def _model(run: Run, features: PlannedFeatures, n_rows: int, start: Model | None) -> Model:
    """Return the model of the best epoch; its history continues that of the start model."""
    past, options = [] if start is None else start.history, run.options
    model = Model(
        plan=features.plan,
        numbering=features.numbering,
        counts=features.counts,
        loss=options.loss,
        parameters=run.best_parameters(),
        n_rows=n_rows,
        history=[*past, *({**entry, "epoch": entry["epoch"] + len(past)} for entry in run.at.history)],
        best_epoch=len(past) + run.best_epoch(),
        options=options.summary(),
    )
    return model if options.keep_state else model.for_scoring()


def train_model(
    data: CheckedRows | RowSource, options: TrainingOptions, valid: CheckedRows | RowSource | None = None
) -> Model:
    """Train a model and discard the events."""
    *_, last = train(data, options, valid)
    assert isinstance(last, Finished)
    return last.model


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
