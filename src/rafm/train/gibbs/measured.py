"""Measured ranks by sampling: sample a large FM, cut its vectors to lengths, and distil the samples into these.

The small model is fitted to the mean of the samples of the large one, which is better than sampling with short vectors.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...compress.budget import Budget
from ...compress.cut import Cutter
from ...errors import ConfigError
from ...model.model import Model
from ...plan.features import PlannedFeatures
from ..events import Cut, Distilled, Event, Finished, Measuring, Planned
from ..limits import MORE_BYTES
from ..policy import NUMBER_BYTES, ranks_to_cut
from ..recipe import Recipe
from ..schedule import CutSettings
from ..steps.job import Job, model_of
from ..steps.measured import best_within, known_budget, smallest_good, validation_loss
from ..steps.run import Position
from .cut import SampledCuts
from .run import make_run, schedule_of_sampler


def train_sampled_measured(job: Job, recipe: Recipe) -> Iterator[Event]:
    """Sample a large model and distil it into one whose vectors have the lengths they need."""
    large = yield from _sampled(job, recipe)
    yield from _cut_and_distil(job, recipe, large)


def train_sampled_sizes(job: Job, recipe: Recipe, sizes: Sequence[int]) -> Iterator[Event]:
    """Sample one large model and cut it to several numbers of parameters; yield a `Finished` for each, in order.

    Each is the model that `train_sampled_measured` gives under this budget. There are no checkpoints.
    """
    large = yield from _sampled(job, recipe)
    for size in sizes:
        yield from _cut_and_distil(job, replace(recipe, max_parameters=size), large)


@dataclass(frozen=True)
class SampledLarge:
    """A large model that was sampled, and the mean scores of the training rows.

    at, begun, reason: where its run ended, when it began, and why it ended.
    """

    at: Position
    begun: float
    reason: str
    model: Model
    features: PlannedFeatures
    target: np.ndarray
    distilled: Distilled

    @property
    def history_bytes(self) -> int:
        """How long the history is in a model file."""
        return len(json.dumps(self.model.history))


def _sampled(job: Job, recipe: Recipe) -> Generator[Event, None, SampledLarge]:
    """Sample the large model."""
    if job.valid is None and job.schedule is None:
        raise ConfigError("ranks='auto' needs validation rows to choose the ranks by", key="ranks")
    rank = recipe.large_rank or ranks_to_cut(job.found.rows)[0]
    if job.schedule is not None:
        rank = job.schedule.rank or rank
    large = replace(recipe, model="fm", ranks=(rank,), l2=recipe.l2[:1], measured=False)
    features = job.features(large)
    size = features.plan.n_parameters
    yield Measuring(rank, size, NUMBER_BYTES * size / 1e6, float(rank + 1) / (sum(recipe.ranks[:1]) + 1))
    yield Planned(features.plan, features.counts, job.found.rows)
    run = make_run(job, features, large)
    yield from job.train(run)
    # Before the distillation, which overwrites the chain.
    reason, target = run.why_over(), run.engine.mean_scores()
    distilled = run.distil()
    yield distilled
    job.checkpoint.capture = lambda: None  # the chain is over, and its memory is free
    model = model_of(run, features, job.found.rows)
    return SampledLarge(run.at, run.begun, reason, model, features, target, distilled)


def _cut_and_distil(job: Job, recipe: Recipe, large: SampledLarge) -> Iterator[Event]:
    """Cut the large model and distil the samples into what is left of it."""
    features, first, budget = large.features, large.distilled, _budget(job, recipe, large)
    if not budget.excess(large.model):
        size = features.plan.ranks[0], large.model.n_parameters
        schedule = replace(schedule_of_sampler(first), rank=size[0], parameters=size[1])
        yield Finished(large.model, large.reason, schedule=schedule)
        return
    cuts = SampledCuts(job, recipe, large.model, features, large.target, first.samples, budget)
    settings = CutSettings() if job.schedule is None else job.schedule.settings or CutSettings()
    if job.valid is not None and large.reason != "time":
        settings = cuts.best()
    found = cuts.candidate(settings)
    cut, small, last = found.cut, found.features, found.run
    yield Planned(small.plan, small.counts, job.found.rows)
    before = features.plan.n_parameters, first.metrics.get(recipe.metric)
    after = cut.n_parameters, None if job.valid is None else validation_loss(cut, job.valid)
    yield Cut(recipe.metric, *before, *after)
    last.at, last.begun = large.at, large.begun  # history and time are those of the large model
    distilled = found.distil(large.target, first.samples, settings.prior_precision)
    yield replace(
        distilled,
        noise=first.noise,
        prior_precision=first.prior_precision,
        inverse_temperature=first.inverse_temperature,
    )  # for a run without validation rows
    size = features.plan.ranks[0], cut.n_parameters
    schedule = replace(
        schedule_of_sampler(first),
        rank=size[0],
        parameters=size[1],
        settings=settings,
        history_bytes=large.history_bytes,
    )
    yield Finished(model_of(last, small, job.found.rows), large.reason, schedule=schedule)


def _budget(job: Job, recipe: Recipe, large: SampledLarge) -> Budget:
    """Return the budget or, without one, the size that validation rows choose or have chosen."""
    known, more = job.schedule, MORE_BYTES
    if known is not None:  # the model will have the history of the run that has chosen
        more += max(known.history_bytes - large.history_bytes, 0)
    budget = Budget(recipe.max_parameters, recipe.max_bytes, job.resources.reserved_bytes + more)
    cutter = Cutter(large.model, job.found.squares_of(large.model.numbering.ids))
    if known is not None:
        return known_budget(budget, known, cutter)
    assert job.valid is not None
    chosen = best_within(cutter, budget, job.valid) if budget else smallest_good(cutter, job.valid)
    return replace(budget, max_parameters=chosen.n_parameters)
