"""Epochs -> events. Early stopping, progress display and history are small consumers of events."""

from __future__ import annotations

from collections.abc import Iterator

from .batch import Batch, Source
from .checkpoint import Checkpoint, Content, NoCheckpoint, identity
from .engine import arrange
from .errors import DataValueError
from .events import CheckpointWritten, EpochFinished, Event, Finished, PieceFinished, Planned, Resumed
from .features import Features, plan_features
from .kernels import LOGISTIC
from .losses import Loss
from .model import Model
from .optimizers import Ftrl
from .options import TrainingOptions
from .run import Run, label_scale, shape_of
from .survey import Survey, survey
from .visits import Blocks, as_source, checked_blocks

__all__ = ["CheckpointWritten", "EpochFinished", "Event", "Finished", "PieceFinished", "Planned", "Resumed", "train"]


def train(
    data: Batch | Source,
    options: TrainingOptions,
    valid: Batch | Source | None = None,
    checkpoint: Checkpoint | NoCheckpoint | None = None,
) -> Iterator[Event]:
    """Train a model, yielding events; the last one holds the model.

    With validation rows, the epoch that is best by the metric is kept, and training ends after `patience` epochs
    without a better one. After max_seconds it ends with the best epoch so far, or with what was last trained if none
    is judged. Rows may be a source of many blocks, larger than memory: blocks are visited in random order,
    and the rows of each in random order. With a checkpoint, which must be open, training goes on where it stopped.
    """
    checkpoint, source, content = checkpoint or NoCheckpoint(), as_source(data), Content()
    blocks = checked_blocks(source, options.family)
    found = survey(content.passing(blocks) if checkpoint.wanted else blocks)
    _check_labels(found, options.loss)
    options = options.for_rows_of(found.counts.sum() / found.rows)
    features = plan_features(found, source.n_features, options)
    judged = Content.of(as_source(valid)) if valid is not None and checkpoint.wanted else None
    state = checkpoint.find(identity(options, content, judged)) if checkpoint.wanted else None
    one_class = options.loss.code == LOGISTIC and found.label_range[0] == found.label_range[1]
    yield Planned(features.plan, features.counts, found.rows, one_class)
    scale = label_scale(found.label_spread, options.loss)
    grouping = arrange(features.plan, features.counts, shape_of(found), options)
    arranged = features.arranged(grouping.order)
    rows = Blocks(source, arranged.numbering, arranged.value_scales, scale, options.seed)
    held_out = None if valid is None else Blocks(as_source(valid), arranged.numbering, arranged.value_scales)
    run = Run(rows, found, arranged, grouping, options, held_out, checkpoint.whole)
    if state is not None:
        run.restore(state)
        yield Resumed(checkpoint.name, run.at.epoch, run.at.rows, run.is_over())
    checkpoint.capture = run.state
    yield from _epochs(run, checkpoint)
    yield Finished(_model(run, features, found, options), run.why_over())


def _epochs(run: Run, checkpoint: Checkpoint | NoCheckpoint) -> Iterator[Event]:
    """Train until the run is over, saving its state at the end of each epoch and when it is time."""
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
        yield from _written(run, checkpoint)


def _written(run: Run, checkpoint: Checkpoint | NoCheckpoint) -> Iterator[Event]:
    path = checkpoint.write(finished=run.is_over())
    if path is not None:
        yield CheckpointWritten(path, run.at.epoch, run.at.rows)


def _model(run: Run, features: Features, found: Survey, options: TrainingOptions) -> Model:
    model = Model(
        plan=features.plan,
        numbering=features.numbering,
        counts=features.counts,
        loss=options.loss,
        parameters=run.best_parameters(),
        n_rows=found.rows,
        history=run.at.history,
        best_epoch=run.at.best_epoch,
        options=options.summary(),
    )
    return model.without_zeros() if isinstance(options.optimizer, Ftrl) else model


def train_model(data: Batch | Source, options: TrainingOptions, valid: Batch | Source | None = None) -> Model:
    """Train without looking at the events."""
    *_, last = train(data, options, valid)
    assert isinstance(last, Finished)
    return last.model


def _check_labels(found: Survey, loss: Loss) -> None:
    low, high = found.label_range
    if not found.rows:
        raise DataValueError("no rows to train on")
    if loss.code == LOGISTIC and not 0 <= low <= high <= 1:
        raise DataValueError(f"binary labels must lie between 0 and 1, found {low:g} to {high:g}")
