"""Train on every fold's complement at once, epoch by epoch, and average the metrics of the folds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..metrics import is_better, metric_class
from ..model.model import Model
from .checkpoint import NoCheckpoint
from .dispatch import run_recipe
from .events import EpochFinished, Event, StartEvaluated
from .outcome import Outcome
from .recipe import Recipe
from .resources import Resources
from .validation import Fold, weight_of

FEW_ROWS = 60.0  # so few rows need twice the standard errors of many; see decision 0016
Metrics = dict[str, float | None]


def run_on_folds(
    recipe: Recipe, parts: Sequence[Fold], resources: Resources, start: Model | None, outcome: Outcome
) -> Iterator[Event]:
    """Train on the rows of each part and judge by its validation rows; yield epochs, and write them to the outcome."""
    begun, weights = time.perf_counter(), [weight_of(part.valid) for part in parts]
    single = replace(recipe, patience=None, threads=1, keep_state=False, calibrate="off")
    unkept = replace(resources, checkpoint=NoCheckpoint())  # so few rows are trained again
    runs = [run_recipe(one.rows, single, one.valid, unkept, start, None, one.found) for one in parts]
    first, best = [], []  # type: list[Metrics], list[Metrics]
    if start is None:
        first = [_next(events, StartEvaluated).metrics for events in runs]
        yield StartEvaluated(_mean_metrics(first, weights))
    while len(outcome.history) < recipe.n_epochs:
        done = [_next(events, EpochFinished) for events in runs]
        if None in done:
            outcome.reason = "callback" if resources.stop.requested else "time"
            break
        event = _mean_epoch(done, weights)
        event = replace(event, best=is_better(recipe.metric, event.metrics[recipe.metric], outcome.best_value))
        best = [own.metrics for own in done] if event.best else best
        outcome.note(event)
        yield event
        if recipe.patience is not None and len(outcome.history) - outcome.best_epoch >= recipe.patience:
            outcome.reason = "patience"
            break
    if first and best and not is_clearly_better(recipe.metric, best, first, weights):
        outcome.best_epoch, outcome.best_value = 0, _mean_metrics(first, weights)[recipe.metric]
    outcome.seconds = time.perf_counter() - begun


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
