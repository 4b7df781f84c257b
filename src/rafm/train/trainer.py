"""Train a model, yielding events that progress display, event log and history consume."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import ConfigError, DataValueError
from ..losses.loss import Loss
from ..metrics.evaluation import Metrics
from ..model.model import Model
from ..options import TrainingOptions
from ..plan.features import PlannedFeatures, plan_features
from ..plan.grouping import Grouping
from ..rows.checked import CheckedRows
from ..rows.source import RowSource
from ..rows.stats import RowStats, count_rows
from .checkpoint import Checkpoint, NoCheckpoint, RowsFingerprint, identity
from .engine import arrange
from .events import (
    CheckpointWritten,
    Continued,
    Distilled,
    EpochFinished,
    Event,
    Finished,
    PieceFinished,
    Planned,
    Resumed,
)
from .loader import Blocks, as_source, labelled_blocks
from .run import Run, choose_label_scale, shape_of
from .warm_start import check_start, warm_start

__all__ = [
    "CheckpointWritten",
    "Continued",
    "Distilled",
    "EpochFinished",
    "Event",
    "Finished",
    "PieceFinished",
    "Planned",
    "Resumed",
    "train",
]


def train(
    data: CheckedRows | RowSource,
    options: TrainingOptions,
    valid: CheckedRows | RowSource | None = None,
    checkpoint: Checkpoint | NoCheckpoint | None = None,
    start: Model | None = None,
) -> Iterator[Event]:
    """Train a model, yielding events; the last event holds the model.

    With validation rows, the best epoch by the metric is kept, and training stops after `patience` epochs without
    improvement. After max_seconds it stops with the best epoch so far or, without validation rows, the current
    parameters.

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
    """
    if start is not None:
        check_start(start, options)
    elif options.optimizer.is_sampler and not options.shuffle:
        raise ConfigError(f"optimizer={options.optimizer.name!r} samples given all rows at once: use fit", "optimizer")
    if valid is not None and options.metric != options.loss.metrics[0]:
        _check_metric_is_defined(as_source(valid), options)
    checkpoint, source, fingerprint = checkpoint or NoCheckpoint(), as_source(data), RowsFingerprint()
    blocks = labelled_blocks(source, options.family)
    found = count_rows(fingerprint.watch(blocks) if checkpoint.wanted else blocks)
    _check_labels(found, options.loss)
    options = options.for_rows_of(found.counts.sum() / found.rows)
    scale, begun = choose_label_scale(found.label_spread, options.loss), None
    if start is None:
        rule = options.rule
        features = plan_features(found, source.n_features, options.model, options.ranks, rule, source.fields)
        n_rows = found.rows
    else:
        begun = warm_start(start, found, source, scale, options)
        features, scale, n_rows = begun.features, begun.label_scale, start.n_rows + found.rows
    judged = RowsFingerprint.of(as_source(valid)) if valid is not None and checkpoint.wanted else None
    state = checkpoint.find(identity(options, fingerprint, judged, start, source.fields)) if checkpoint.wanted else None
    one_class = options.loss.is_classification and found.label_range[0] == found.label_range[1]
    yield Planned(features.plan, features.counts, n_rows, one_class and start is None)
    grouping = arrange(features.plan, features.counts, shape_of(found)._replace(rows=n_rows), options)
    arranged = features.arranged(grouping.order)
    rows = _blocks(source, arranged, scale, grouping, options)
    held_out = None if valid is None else Blocks(as_source(valid), arranged.numbering, arranged.value_scales)
    first = None if begun is None else begun.parameters.arranged(grouping)
    run = _run_class(options)(rows, found, arranged, grouping, options, held_out, checkpoint.uninterrupted, first)
    if start is not None and begun is not None:
        new, with_states = features.plan.n_features - start.plan.n_features, start.parameters.states is not None
        promotion = (begun.promoted, begun.pair_error) if options.replan else ()
        yield Continued(start.plan.n_features, new, with_states, *promotion)
    if state is not None:
        run.restore(state)
        yield Resumed(checkpoint.name, run.at.epoch, run.at.rows, run.is_over())
    checkpoint.capture = run.state
    yield from _epochs(run, checkpoint)
    yield from run.conclude()
    yield Finished(_model(run, features, n_rows, start), run.why_over())


def _run_class(options: TrainingOptions) -> type[Run]:
    """Return the kind of run; the kernels of the sampler are compiled only if they are used."""
    if not options.optimizer.is_sampler:
        return Run
    from .gibbs_run import GibbsRun

    return GibbsRun


def _blocks(
    source: RowSource, features: PlannedFeatures, scale: float, grouping: Grouping, options: TrainingOptions
) -> Blocks:
    """Return the training rows, shuffled and split into groups unless a sampler puts them in an order of its own."""
    known = (source, features.numbering, features.value_scales, scale)
    if options.optimizer.is_sampler:
        return Blocks(*known)
    return Blocks(*known, options.seed if options.shuffle else None, grouping)


def _epochs(run: Run, checkpoint: Checkpoint | NoCheckpoint) -> Iterator[Event]:
    """Train until the run is over; write checkpoints at the end of each epoch, when due and when out of time."""
    while not (run.is_over() or run.is_out_of_time()):
        for event in run.pieces():
            is_inside, out_of_time = event.rows < event.n_rows, run.is_out_of_time()
            if checkpoint.is_due() or (is_inside and out_of_time):
                yield from _written(run, checkpoint)
            if is_inside:
                yield event
            if is_inside and out_of_time:
                return
        yield run.finish_epoch()
        if run.is_over() or run.is_out_of_time() or checkpoint.is_due(run.wait_between_checkpoints):
            yield from _written(run, checkpoint)


def _written(run: Run, checkpoint: Checkpoint | NoCheckpoint) -> Iterator[Event]:
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
        fields=features.fields,
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


def _check_labels(found: RowStats, loss: Loss) -> None:
    low, high = found.label_range
    if not found.rows:
        raise DataValueError("no rows to train on")
    if wrong := loss.wrong_labels(low, high):
        raise DataValueError(wrong)
