"""Keep the constant instead of a model that is worse on the validation rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from ..metrics import is_better
from ..metrics.evaluation import Metrics
from .events import Distilled, Event, Finished, StartEvaluated
from .recipe import Recipe
from .schedule import Schedule
from .steps.job import Job
from .steps.loader import labelled_blocks


def with_constant(events: Iterable[Event], job: Job, recipe: Recipe) -> Iterator[Event]:
    """Pass events through; replace the model of the last one if a constant is better.

    Runs that judge their own start need no help. Those that sample, or measure ranks, end with a model that was made
    from others, whose metric is known only at the end.
    """
    is_judged, value = job.valid is None or recipe.loss.is_ranking, None
    is_judged |= recipe.keep_samples > 0  # they were asked for as they are drawn
    for event in events:
        is_judged |= isinstance(event, StartEvaluated)
        if isinstance(event, Distilled):
            value = event.metrics.get(recipe.metric)
        if isinstance(event, Finished) and not is_judged:
            event = _better(event, value if event.best_value is None else event.best_value, job, recipe)
        yield event


def _better(event: Finished, value: float | None, job: Job, recipe: Recipe) -> Finished:
    bias = first_score(job, recipe)
    limit = constant_value(bias, job, recipe)
    if value is None or limit is None or not is_better(recipe.metric, limit, value):
        return event
    found = replace(event.model.parameters.constant(), bias=np.array([bias], np.float32))
    model = replace(event.model, parameters=found, best_epoch=0, samples=None)
    return replace(event, model=model, best_value=limit, schedule=Schedule(recipe.learning_rate or 0.0, None, ()))


def first_score(job: Job, recipe: Recipe) -> float:
    """Return the score at which training begins: that of the best constant for the training rows."""
    found, scale = job.found, job.label_scale
    prior = recipe.loss.prior(found.label_mean / scale, found.weight / job.weight_scale)
    return prior * scale + recipe.score_shift


def constant_value(score: float, job: Job, recipe: Recipe) -> float | None:
    """Return the metric of a constant score on the validation rows."""
    assert job.valid is not None
    metrics = Metrics(recipe.loss, [recipe.metric])
    for rows in labelled_blocks(job.valid, recipe.family):
        weights = np.ones(rows.n_rows, np.float32) if rows.weights is None else rows.weights
        metrics.add(np.asarray(rows.labels), np.full(rows.n_rows, score, np.float32), weights)
    return metrics.values()[recipe.metric] if metrics.weight > 0 else None
