"""Measured ranks by sampling: sample a large FM, cut its vectors to lengths, and distil the samples into these.

The small model is fitted to the mean of the samples of the large one, which is better than sampling with short vectors.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..compress.budget import Budget, cut_within
from ..compress.cut import Cutter
from ..errors import ConfigError
from ..model.model import Model
from ..model.parameters import Parameters
from ..options import TrainingOptions
from ..plan.features import PlannedFeatures
from .events import Cut, Distilled, Event, Finished, Measuring, Planned
from .gibbs_run import GibbsRun, make_run
from .job import Job, model_of
from .measured import order_of, reserved_bytes, smallest_good, validation_loss
from .run import Position
from .sampler_choice import NUMBER_BYTES, ranks_to_cut
from .schedule import Schedule

PULL = 50.0  # towards the vectors that were cut, which know more of the samples than the training rows alone


def train_sampled_measured(job: Job, options: TrainingOptions) -> Iterator[Event]:
    """Sample a large model and distil it into one whose vectors have the lengths they need."""
    large = yield from _sampled(job, options)
    yield from _cut_and_distil(job, options, large)


def train_sampled_sizes(job: Job, options: TrainingOptions, sizes: Sequence[int]) -> Iterator[Event]:
    """Sample one large model and cut it to several numbers of parameters; yield a `Finished` for each, in order.

    Each is the model that `train_sampled_measured` gives under this budget. There are no checkpoints.
    """
    large = yield from _sampled(job, options)
    for size in sizes:
        yield from _cut_and_distil(job, replace(options, max_parameters=size), large)


@dataclass(frozen=True)
class Large:
    """A large model that was sampled, and the mean scores of the training rows.

    at, begun, reason: where its run ended, when it began, and why it ended.
    """

    at: Position
    begun: float
    reason: str
    features: PlannedFeatures
    target: np.ndarray
    distilled: Distilled
    cutter: Cutter


def _sampled(job: Job, options: TrainingOptions) -> Generator[Event, None, Large]:
    """Sample the large model."""
    if job.valid is None and job.schedule is None:
        raise ConfigError("ranks='auto' needs validation rows to choose the ranks by", key="ranks")
    rank = options.large_rank or ranks_to_cut(job.found.rows)[0]
    if job.schedule is not None:
        rank = job.schedule.rank or rank
    large = replace(options, model="fm", ranks=(rank,), l2=options.l2[:1], measured=False)
    features = job.features(large)
    size = features.plan.n_parameters
    yield Measuring(rank, size, NUMBER_BYTES * size / 1e6, float(rank + 1) / (sum(options.ranks[:1]) + 1))
    yield Planned(features.plan, features.counts, job.found.rows)
    run = make_run(job, features, large)
    yield from job.train(run)
    # Before the distillation, which overwrites the chain.
    reason, target = run.why_over(), run.engine.mean_scores()
    distilled = run.distil()
    yield distilled
    model = model_of(run, features, job.found.rows)
    cutter = Cutter(model, job.found.squares[np.searchsorted(job.found.ids, model.numbering.ids)])
    return Large(run.at, run.begun, reason, features, target, distilled, cutter)


def _cut_and_distil(job: Job, options: TrainingOptions, large: Large) -> Iterator[Event]:
    """Cut the large model and distil the samples into what is left of it."""
    features, first = large.features, large.distilled
    cut = _cut(job, options, large.cutter)
    small = features.arranged(order_of(cut, features))._replace(plan=cut.plan)
    yield Planned(small.plan, small.counts, job.found.rows)
    value = None if job.valid is None else validation_loss(cut, job.valid)
    before = features.plan.n_parameters, first.metrics.get(options.metric)
    yield Cut(options.metric, *before, cut.n_parameters, value)
    plan, l2 = cut.plan, options.l2[:1] * len(cut.plan.ranks)
    chosen = replace(options, model=plan.family, ranks=plan.ranks, l2=l2, measured=False, keep_samples=0)
    last = make_run(job, small, chosen)
    last.at, last.begun = large.at, large.begun  # history and time are those of the large model
    found = last.distil_into(_scaled(cut, last), large.target, first.samples, PULL)
    yield replace(found, noise=first.noise, pull=first.pull)  # for a run without validation rows
    schedule = Schedule(options.learning_rate, None, (), features.plan.ranks[0], cut.n_parameters)
    yield Finished(model_of(last, small, job.found.rows), large.reason, schedule=schedule)


def _cut(job: Job, options: TrainingOptions, cutter: Cutter) -> Model:
    """Return the model that is left: within the budget or, without one, as small as validation rows allow."""
    budget = Budget(options.max_parameters, options.max_bytes, reserved_bytes(options))
    if not budget and job.schedule is not None:
        budget = Budget(max(job.schedule.parameters, cutter.smallest().n_parameters))
    if budget or job.valid is None:
        return cut_within(cutter, budget)
    return smallest_good(cutter, job.valid)


def _scaled(cut: Model, run: GibbsRun) -> Parameters:
    """Return the parameters of a cut model on the scale of training."""
    scale, found = run.label_scale, cut.parameters
    bias = found.bias / np.float32(scale)
    return replace(found.undo_scaling(1 / scale, 1 / run.features.value_scales), bias=bias)
