"""Run one recipe once: by gradient steps or by sampling, from the start or from a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..checks import USUAL_OPTIMIZER
from ..errors import ConfigError, DataValueError
from ..flag_values import AUTO
from ..losses.loss import Loss
from ..metrics.evaluation import Metrics
from ..model.model import Model
from ..optimizers import SAMPLERS
from ..options import Options
from ..rows.checked import CheckedRows
from ..rows.source import RowSource
from ..rows.stats import RowStats, count_rows
from .calibration import with_calibration
from .checkpoint import RowsFingerprint, identity
from .constant import with_constant
from .events import Continued, Event, Finished, Planned
from .policy import NEUTRAL, Freedom, adapted
from .recipe import Recipe
from .resources import Resources
from .schedule import Schedule
from .steps.field_choice import with_field_parameters
from .steps.job import Job, finished, train_plain
from .steps.loader import as_source, labelled_blocks
from .steps.measured import train_measured
from .steps.run import choose_label_scale
from .steps.search import search_settings
from .steps.warm_start import check_start, warm_start


def run_recipe(
    data: CheckedRows | RowSource,
    options: Options,
    valid: CheckedRows | RowSource | None = None,
    resources: Resources | None = None,
    start: Model | None = None,
    schedule: Schedule | None = None,
    found: RowStats | None = None,
) -> Iterator[Event]:
    """Train a model as a recipe says, yielding events; the last event holds the model.

    With validation rows, the best epoch by the metric is kept, and training stops after `patience` epochs without
    improvement. Epoch 0, the model that predicts a constant, is kept if no epoch is better. When time is over training
    stops with the best epoch so far or, without validation rows, the current parameters.

    Parameters
    ----------
    data : CheckedRows or RowSource
        Training rows. A source may be larger than memory: blocks, and the rows of each, are visited in random order.
    options : Options
        The recipe, or options to follow to the letter.
    valid : CheckedRows or RowSource, default=None
        Validation rows.
    resources : Resources, default=None
        What training may take; time is that of the options by default.
    start : Model, default=None
        A model to continue from, with its optimiser state if it has one. With `options.replan` its features are
        promoted to the levels that their total counts allow.
    schedule : Schedule, default=None
        Without validation rows: what others chose, instead of `options.n_epochs` epochs.
    found : RowStats, default=None
        Statistics of the rows, if they are known already.
    """
    source, recipe = as_source(data), Recipe.of(options)
    resources = (resources or Resources()).within(recipe.max_seconds)
    if start is not None:
        recipe = like_model(start, recipe)
        check_start(start, recipe)
    if not recipe.optimizer.has_steps and (not recipe.shuffle if start is None else not recipe.optimizer.is_sampler):
        raise ConfigError(f"optimizer={recipe.optimizer.name!r} needs all rows at once: use fit", "optimizer")
    if valid is not None and recipe.metric != recipe.loss.metrics[0]:
        _check_metric_is_defined(as_source(valid), recipe)
    checkpoint, fingerprint = resources.checkpoint, RowsFingerprint()
    if found is None or (checkpoint.wanted and checkpoint.expected is None):
        found = count_rows(fingerprint.watch(labelled_blocks(source, recipe.family)))
        check_labels(found, recipe.loss)
    recipe, state = adapted(recipe, found), None
    if checkpoint.wanted:
        checked = None if valid is None else RowsFingerprint.of(as_source(valid))
        state = checkpoint.find(
            checkpoint.expected or identity(recipe, resources, fingerprint, checked, start, source.fields)
        )
    job = Job(
        source=source,
        valid=None if valid is None else as_source(valid),
        found=found,
        label_scale=choose_label_scale(found.label_spread, recipe.loss) if recipe.family.is_homogeneous else 1.0,
        resources=resources,
        state=state,
        weight_scale=found.weight_scale if start is None else _weight_scale(start),
        schedule=schedule,
    )
    events = _events(job, recipe, start)
    if start is None:
        events = with_constant(events, job, recipe)
    yield from with_calibration(events, job.valid, recipe)


def _events(job: Job, recipe: Recipe, start: Model | None) -> Iterator[Event]:
    """Train in the way that the recipe asks for."""
    if recipe.optimizer.is_sampler:  # imported here: its kernels are compiled only if they are used
        from .gibbs.measured import train_sampled_measured
        from .gibbs.run import train_sampled

        yield from train_sampled_measured(job, recipe) if recipe.measured else train_sampled(job, recipe, start)
    elif not recipe.optimizer.has_steps:
        from .whole_data.run import train_whole_data

        yield from train_whole_data(job, recipe)
    elif start is not None:
        yield from _continue(job, recipe, start)
    elif recipe.measured:
        yield from train_measured(job, recipe)
    else:
        recipe, job = yield from search_settings(job, recipe)
        yield from train_plain(job, recipe)


def _continue(job: Job, recipe: Recipe, start: Model) -> Iterator[Event]:
    """Continue from a model."""
    begun = warm_start(start, job.found, job.source, job.label_scale, recipe)
    features, n_rows = with_field_parameters(begun.features, recipe, start), start.n_rows + job.found.rows
    yield Planned(features.plan, features.counts, n_rows)
    run = job._replace(label_scale=begun.label_scale).run(features, recipe, begun.parameters, n_rows)
    new, with_states = features.plan.n_features - start.plan.n_features, start.parameters.states is not None
    promoted, error = (begun.promoted, begun.pair_error) if recipe.replan else (None, None)
    yield Continued(start.plan.n_features, new, with_states, promoted, error, _was_sampled(start))
    yield from job.train(run)
    yield finished(job, run, features, n_rows, start)


def _weight_scale(start: Model) -> float:
    """Return the weight that counted as 1 in earlier training, so that those of later rows compare with it."""
    scale = start.options.get("weight_scale", 1.0)
    return scale if isinstance(scale, float) and scale > 0 else 1.0


def train_model(data: CheckedRows | RowSource, options: Options, valid: CheckedRows | RowSource | None = None) -> Model:
    """Run a recipe once and discard the events."""
    *_, last = run_recipe(data, options, valid)
    assert isinstance(last, Finished)
    return last.model


def _was_sampled(start: Model) -> bool:
    return start.options.get("optimizer") in SAMPLERS


def like_model(start: Model, recipe: Recipe) -> Recipe:
    """Return the recipe with what was found when the model was trained: its ranks, learning rate and L2.

    A sampled model goes on by steps, unless sampling is to begin from it.
    """
    freedom = Freedom.of(replace(recipe, shuffle=True))
    if _was_sampled(start) and not recipe.shuffle and (freedom.may_sample or recipe.optimizer.is_sampler):
        shape = {"model": start.plan.family, "ranks": start.plan.ranks or None}
        stepped = Recipe.like(recipe, (*NEUTRAL, "n_epochs"), **shape, optimizer=USUAL_OPTIMIZER)
        recipe = replace(stepped, shuffle=False, replan=recipe.replan)
    if recipe.searched:
        rate, l2 = start.options.get("learning_rate") or recipe.learning_rate, start.options.get("l2")
        recipe = recipe.with_settings(rate, l2 if isinstance(l2, float) else recipe.l2[0])
    was_other = freedom.may_compare and recipe.model != start.plan.family
    if recipe.measured or was_other or (freedom.may_measure and start.options.get("ranks") == AUTO):
        family, ranks = start.plan.family, start.plan.ranks
        recipe = replace(recipe, model=family, ranks=ranks, l2=recipe.l2[:1] * len(ranks), measured=False)
    return _adapted_like(start, recipe)


def _adapted_like(start: Model, recipe: Recipe) -> Recipe:
    """Return the recipe with defaults that suit the rows that the model was trained on first, not the next few."""
    known = start.options if start.options.get("optimizer") == recipe.optimizer.name else {}
    kept = {name: known[name] for name in recipe.adaptable if known.get(name) is not None}
    if "l2" in kept:
        penalties = kept["l2"] if isinstance(kept["l2"], list) else [kept["l2"]] * len(recipe.ranks)
        kept["l2"] = tuple(penalties) if len(penalties) == len(recipe.ranks) else recipe.l2
    return replace(recipe, adaptable=recipe.adaptable - kept.keys(), **kept)


def _check_metric_is_defined(valid: RowSource, recipe: Recipe) -> None:
    """Reject a metric that is undefined for the validation labels: no epoch could be the best."""
    metrics = Metrics(recipe.loss, [recipe.metric])
    for rows in labelled_blocks(valid, recipe.family):
        weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
        metrics.add(np.asarray(rows.labels), np.zeros(rows.n_rows), weights)  # any scores will do
    if metrics.weight > 0 and metrics.values()[recipe.metric] is None:
        raise DataValueError(
            f"metric {recipe.metric!r} is undefined for the validation rows: their labels are all of one class. "
            f"Use metric {recipe.loss.metrics[0]!r}, or validation rows of both classes."
        )


def check_labels(found: RowStats, loss: Loss) -> None:
    """Reject data without rows, and labels that the loss has no use for."""
    low, high = found.label_range
    if not found.rows:
        raise DataValueError("no rows to train on")
    if wrong := loss.wrong_labels(low, high):
        raise DataValueError(wrong)
    if loss.is_ranking and not low > 0:
        raise DataValueError(f"all rows of a ranking are positive, so labels must be above 0, found {low:g}")
