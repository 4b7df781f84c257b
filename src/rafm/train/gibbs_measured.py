"""Measured ranks by sampling: sample a large FM, cut its vectors to lengths, and distil the samples into these.

The small model is fitted to the mean of the samples of the large one, which is better than sampling with short vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
from .sampler_choice import NUMBER_BYTES

LARGE_RANK, LEAST_RANK, ROWS_PER_RANK = 32, 8, 1000  # of the model to be cut
PULL = 50.0  # towards the vectors that were cut, which know more of the samples than the training rows alone


def train_sampled_measured(job: Job, options: TrainingOptions) -> Iterator[Event]:
    """Sample a large model and distil it into one whose vectors have the lengths they need."""
    if job.valid is None:
        raise ConfigError("ranks='auto' needs validation rows to choose the ranks by", key="ranks")
    rank = LARGE_RANK
    while rank > LEAST_RANK and rank * ROWS_PER_RANK > job.found.rows:
        rank //= 2
    large = replace(options, model="fm", ranks=(rank,), l2=options.l2[:1], measured=False)
    features = job.features(large)
    size = features.plan.n_parameters
    yield Measuring(rank, size, NUMBER_BYTES * size / 1e6, float(rank + 1) / (sum(options.ranks[:1]) + 1))
    yield Planned(features.plan, features.counts, job.found.rows)
    run = make_run(job, features, large)
    yield from job.train(run)
    # Before the distillation, which overwrites the chain.
    reason, target = run.why_over(), run.engine.mean_scores()
    first = run.distil()
    yield first
    model = model_of(run, features, job.found.rows)
    yield from _cut_and_distil(job, options, run, (model, features, target), first, reason)


def _cut_and_distil(
    job: Job,
    options: TrainingOptions,
    run: GibbsRun,
    large: tuple[Model, PlannedFeatures, np.ndarray],
    first: Distilled,
    reason: str,
) -> Iterator[Event]:
    """Cut the large model and distil the samples into what is left of it."""
    (model, features, target), at = large, run.at
    assert job.valid is not None
    cutter = Cutter(model, job.found.squares[np.searchsorted(job.found.ids, model.numbering.ids)])
    budget = Budget(options.max_parameters, options.max_bytes, reserved_bytes(options))
    cut = cut_within(cutter, budget) if budget else smallest_good(cutter, job.valid)
    small = features.arranged(order_of(cut, features))._replace(plan=cut.plan)
    yield Planned(small.plan, small.counts, job.found.rows)
    sizes = model.n_parameters, first.metrics.get(options.metric), cut.n_parameters
    yield Cut(options.metric, *sizes, validation_loss(cut, job.valid))
    plan, l2 = cut.plan, options.l2[:1] * len(cut.plan.ranks)
    chosen = replace(options, model=plan.family, ranks=plan.ranks, l2=l2, measured=False, keep_samples=0)
    last = make_run(job, small, chosen)
    last.at, last.begun = at, run.begun  # history and time are those of the large model
    yield last.distil_into(_scaled(cut, last), target, first.samples, PULL)
    yield Finished(model_of(last, small, job.found.rows), reason)


def _scaled(cut: Model, run: GibbsRun) -> Parameters:
    """Return the parameters of a cut model on the scale of training."""
    scale, found = run.label_scale, cut.parameters
    bias = found.bias / np.float32(scale)
    return replace(found.undo_scaling(1 / scale, 1 / run.features.value_scales), bias=bias)
