"""Keep the constant instead of a model that is worse on the validation rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from ..metrics import is_better
from ..metrics.evaluation import Metrics
from ..options import TrainingOptions
from .events import Distilled, Event, Finished, StartEvaluated
from .schedule import Schedule
from .steps.job import Job
from .steps.loader import labelled_blocks


def with_constant(events: Iterable[Event], job: Job, options: TrainingOptions) -> Iterator[Event]:
    """Pass events through; replace the model of the last one if a constant is better.

    Runs that judge their own start need no help. Those that sample, or measure ranks, end with a model that was made
    from others, whose metric is known only at the end.
    """
    is_judged, value = job.valid is None or options.loss.is_pairwise, None
    is_judged |= options.keep_samples > 0  # they were asked for as they are drawn
    for event in events:
        is_judged |= isinstance(event, StartEvaluated)
        if isinstance(event, Distilled):
            value = event.metrics.get(options.metric)
        if isinstance(event, Finished) and not is_judged:
            event = _better(event, value if event.best_value is None else event.best_value, job, options)
        yield event


def _better(event: Finished, value: float | None, job: Job, options: TrainingOptions) -> Finished:
    bias = first_score(job, options)
    limit = constant_value(bias, job, options)
    if value is None or limit is None or not is_better(options.metric, limit, value):
        return event
    found = replace(event.model.parameters.constant(), bias=np.array([bias], np.float32))
    model = replace(event.model, parameters=found, best_epoch=0, samples=None)
    return replace(event, model=model, best_value=limit, schedule=Schedule(options.learning_rate or 0.0, None, ()))


def first_score(job: Job, options: TrainingOptions) -> float:
    """Return the score at which training begins: that of the best constant for the training rows."""
    found, scale = job.found, job.label_scale
    prior = options.loss.prior(found.label_mean / scale, found.weight / job.weight_scale)
    return prior * scale + options.score_shift


def constant_value(score: float, job: Job, options: TrainingOptions) -> float | None:
    """Return the metric of a constant score on the validation rows."""
    assert job.valid is not None
    metrics = Metrics(options.loss, [options.metric])
    for rows in labelled_blocks(job.valid, options.family):
        weights = np.ones(rows.n_rows, np.float32) if rows.weights is None else rows.weights
        metrics.add(np.asarray(rows.labels), np.full(rows.n_rows, score, np.float32), weights)
    return metrics.values()[options.metric] if metrics.weight > 0 else None
