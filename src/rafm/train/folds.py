"""Train on every fold's complement at once, epoch by epoch, and average the metrics of the folds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..metrics import is_better, metric_class
from ..model.model import Model
from ..options import TrainingOptions
from ..rows.source import RowSource
from .events import EpochFinished, Event, StartEvaluated
from .schedule import Schedule
from .steps.job import Stop
from .trainer import train

FEW_ROWS = 60.0  # so few rows need twice the standard errors of many; see decision 0016
Metrics = dict[str, float | None]


@dataclass
class Course:
    """What the epochs of all folds have shown so far, on average."""

    history: list[dict[str, Any]] = field(default_factory=list)
    best_epoch: int = 0
    best_value: float | None = None
    reason: str = "epochs"
    seconds: float = 0.0
    calibration: list[float] | None = None  # scale and offset of scores, of folds none
    noise: float | None = None  # variance of labels, found by a sampler
    schedule: Schedule | None = None  # what was searched besides
    pull: float | None = None  # of its distillation
    last_value: float | None = None  # metric after distillation or calibration
    heat: float | None = None  # of its first sweeps

    def note(self, event: EpochFinished, metric: str) -> EpochFinished:
        """Add an epoch; return it with the mark of the best one so far."""
        value = event.metrics[metric]
        event = replace(event, best=is_better(metric, value, self.best_value))
        if event.best:
            self.best_epoch, self.best_value = event.epoch, value
        self.history.append(event.entry())
        return event


def train_on_folds(
    pairs: Sequence[tuple[RowSource, RowSource]],
    options: TrainingOptions,
    start: Model | None,
    stop: Stop,
    course: Course,
) -> Iterator[Event]:
    """Train on the first rows of each pair and evaluate on the second; yield epochs, and write them to the course."""
    begun, pairs = time.perf_counter(), [pair for pair in pairs if all(_weight(side) > 0 for side in pair)]
    weights = [_weight(valid) for _, valid in pairs]
    single = replace(options, patience=None, threads=1, keep_state=False, calibrate="off")
    runs = [train(rest, single, valid, start=start, stop=stop) for rest, valid in pairs]
    first, best = [], []  # type: list[Metrics], list[Metrics]
    if start is None:
        first = [_next(events, StartEvaluated).metrics for events in runs]
        yield StartEvaluated(_mean_metrics(first, weights))
    while len(course.history) < options.n_epochs:
        done = [_next(events, EpochFinished) for events in runs]
        if None in done:
            course.reason = "callback" if stop.requested else "time"
            break
        event = course.note(_mean_epoch(done, weights), options.metric)
        best = [own.metrics for own in done] if event.best else best
        yield event
        if options.patience is not None and len(course.history) - course.best_epoch >= options.patience:
            course.reason = "patience"
            break
    if first and best and not is_clearly_better(options.metric, best, first, weights):
        course.best_epoch, course.best_value = 0, _mean_metrics(first, weights)[options.metric]
    course.seconds = time.perf_counter() - begun


def is_clearly_better(
    metric: str, found: Sequence[Metrics], start: Sequence[Metrics], weights: Sequence[float]
) -> bool:
    """Return whether a metric is better than at the start by more than luck, in standard errors over the folds.

    One standard error is enough for many rows. The error itself is uncertain, and more epochs than one had a chance, so
    few rows need more of them: 2 for 60 rows, 3 for 30.

    >>> start = [{"log_loss": 0.7}] * 4
    >>> is_clearly_better("log_loss", [{"log_loss": 0.7 - gain} for gain in (0.1, 0.2, 0.1, 0.2)], start, [8] * 4)
    True
    >>> is_clearly_better("log_loss", [{"log_loss": 0.7 - gain} for gain in (0.9, -0.2, -0.2, -0.2)], start, [8] * 4)
    False
    """
    pairs = [(a[metric], b[metric], w) for a, b, w in zip(found, start, weights)]
    known = np.array([pair for pair in pairs if None not in pair], float).reshape(-1, 3)
    if not known.size:
        return True
    gains = (known[:, 0] - known[:, 1]) * (1 if metric_class(metric).is_rising else -1)
    n_rows = max(float(np.sum(weights)), 1.0)
    error = gains.std(ddof=1) / np.sqrt(gains.size) if gains.size > 1 else 0.0
    return bool(np.average(gains, weights=known[:, 2]) > (1 + FEW_ROWS / n_rows) * error)


def _next(events: Iterator[Event], kind: type) -> Any:
    return next((event for event in events if isinstance(event, kind)), None)


def _weight(source: RowSource) -> float:
    blocks = (source.block(number) for number in range(source.n_blocks))
    return float(sum(block.n_rows if block.weights is None else block.weights.sum() for block in blocks))


def _mean_metrics(found: Sequence[Metrics], weights: Sequence[float]) -> Metrics:
    """Return the weighted mean of each metric over the folds where it is defined.

    >>> _mean_metrics([{"auc": 0.5}, {"auc": None}, {"auc": 0.8}], [2, 1, 1])
    {'auc': 0.6}
    """
    means: Metrics = {}
    for name in found[0]:
        known = [(one[name], weight) for one, weight in zip(found, weights) if one[name] is not None]
        values, own = np.array(known, float).reshape(-1, 2).T
        means[name] = float(np.average(values, weights=own)) if known else None
    return means


def _mean_epoch(done: Sequence[EpochFinished], weights: Sequence[float]) -> EpochFinished:
    loss = float(np.mean([event.train_loss for event in done]))
    seconds = sum(event.seconds for event in done)
    metrics = _mean_metrics([event.metrics for event in done], weights)
    return EpochFinished(done[0].epoch, loss, metrics, seconds, best=False)
