"""Measured ranks: train a large model, cut every vector to the length it needs, and fine-tune the small model.

The first stage is an FM. Its average over epochs is rotated to principal axes and cut under the budget; without a
budget, to the smallest size whose validation loss is within TOLERANCE of the best. The second stage trains what is left
for a few epochs, with the optimiser state of the first; the best of them, or the cut itself, is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..compress.budget import Budget, cut_within
from ..compress.cut import Cutter, plan_lengths
from ..errors import ConfigError
from ..metrics.evaluation import Metrics
from ..model.model import Model
from ..model.parameters import Parameters
from ..options import TrainingOptions
from ..plan.features import PlannedFeatures
from ..plan.ranks import describe_plan
from ..rows.source import RowSource
from .events import Cut, Event, Finished, Measuring, Planned, Resumed
from .job import Job, finished, model_of, train_plain
from .ranks_by_count import ranks_within
from .run import Position, Run, State
from .search import TRAIN_ROWS, search_settings

CLICK_RANK, RATING_RANK, LEAST_RANK = 256, 64, 16  # of the large model
ROWS_PER_RANK = 100  # a large model is not worth more
COPIES = 4  # of the parameters of the large model: in training, their average, the best ones, and those to be cut
FINE_EPOCHS, FINE_PATIENCE = 10, 2
TOLERANCE = 0.005  # of the validation loss, without a budget
SIZES = tuple(2 ** (-k / 2) for k in range(15))  # shares of the large model to try, without a budget
NONZERO_SECONDS, FACTOR_SECONDS = 20.0, 0.19  # relative cost of training: of a nonzero, and of each of its factors
ENTRY_BYTES = 256  # of an epoch in the history of a model file, at most
SEARCH_TIMES = 3.0  # cost of finding learning rate and L2, relative to a plain training on the same rows
STAGE, CUT_EPOCH, LENGTHS = "stage", "cut_epoch", "cut.lengths"  # in a checkpoint of the second stage


def train_measured(job: Job, options: TrainingOptions) -> Iterator[Event]:
    """Train a model whose ranks are measured, or choose them by counts where that is not possible."""
    plan = plan_large(job, options)
    yield plan
    if plan.fallback is not None:
        within = ranks_within(job.found, options, job.features(options).plan.n_field_weights)
        yield from train_plain(job, replace(within, searched=()))
        return
    options, job, large = yield from _prepared(job, options, plan.rank)
    features = job.features(large)
    if job.state is None or STAGE not in job.state[0]:
        first = yield from _first_stage(job, large, features)
        run, small = yield from _second_stage(job, options, features, first)
        cut_epoch = first.at.epoch - 1
        del first  # and its memory
    else:
        cut_epoch = job.state[0][CUT_EPOCH]
        run, small = _resumed_stage(job, features, options)
        yield Resumed(job.checkpoint.name, run.at.epoch, run.at.rows, run.is_over())
    lengths = lengths_of(small, features)
    job.checkpoint.capture = lambda: _with_lengths(job.capture(run.state()), lengths, cut_epoch)
    yield from job.epochs(run)
    yield _last(job, run, small, options)


def train_sizes(job: Job, options: TrainingOptions, sizes: Sequence[int]) -> Iterator[Event]:
    """Train one large model and cut it to several numbers of parameters; yield a `Finished` for each, in order.

    Each is the model that `train_measured` gives under this budget. There are no checkpoints.
    """
    options, job, large = yield from _prepared(job, options, plan_large(job, options).rank)
    features = job.features(large)
    first = yield from _first_stage(job, large, features)
    for size in sizes:
        run, small = yield from _second_stage(job, replace(options, max_parameters=size), features, first)
        yield from job.epochs(run)
        yield _last(job, run, small, options)


def _prepared(
    job: Job, options: TrainingOptions, rank: int
) -> Generator[Event, None, tuple[TrainingOptions, Job, TrainingOptions]]:
    """Find the settings; return the options, the job that knows them, and the options of the large model."""
    if job.valid is None:
        raise ConfigError("ranks='auto' needs validation rows to choose the ranks by", key="ranks")
    options, job = yield from search_settings(job, options)
    large = replace(options, model="fm", ranks=(rank,), l2=options.l2[:1], measured=False, keep_state=True)
    return options, job, large


def _last(job: Job, run: Run, small: PlannedFeatures, options: TrainingOptions) -> Finished:
    """Return the last event of the second stage, with the model."""
    last = finished(job, run, small, job.found.rows)
    return replace(last, model=replace(last.model, options=replace(options, l2=run.options.l2).summary()))


# What to start from


def plan_large(job: Job, options: TrainingOptions) -> Measuring:
    """Return the size and cost of the large model, or why there is none."""
    found, n = job.found, job.found.ids.size
    rank = CLICK_RANK if options.loss.is_classification else RATING_RANK
    while rank > LEAST_RANK and rank * ROWS_PER_RANK > found.rows:
        rank //= 2
    while rank > LEAST_RANK and options.memory is not None and _megabytes(n, rank) > options.memory:
        rank //= 2
    megabytes, parameters = _megabytes(n, rank), 1 + n * (1 + rank)
    plain = job.features(options)
    factors = sum(level["factors_per_row"] for level in describe_plan(plain.plan, plain.counts, found.rows)[:-1])
    usual = factors * found.rows / max(found.counts.sum(), 1)
    times = (NONZERO_SECONDS + FACTOR_SECONDS * rank) / (NONZERO_SECONDS + FACTOR_SECONDS * usual)
    if options.searched:
        times += SEARCH_TIMES * min(1.0, TRAIN_ROWS / found.rows)
    fallback = None
    if options.memory is not None and megabytes > options.memory:
        fallback = f"a model of rank {rank} would need {megabytes:.0f} MB in training, more than {options.memory:g}"
    elif not options.shuffle:
        fallback = "the rows are visited only once"
    return Measuring(rank, parameters, megabytes, float(times), fallback)


def _megabytes(n_features: int, rank: int) -> float:
    return COPIES * 4 * n_features * (rank + 4) / 1e6


# The two stages


class Large(NamedTuple):
    """The large model after its training: where that ended, when it began, and what a cut needs."""

    at: Position
    begun: float
    n_parameters: int
    cutter: Cutter


def _first_stage(job: Job, large: TrainingOptions, features: PlannedFeatures) -> Generator[Event, None, Large]:
    """Train the large model."""
    one_class = large.loss.is_classification and job.found.label_range[0] == job.found.label_range[1]
    yield Planned(features.plan, features.counts, job.found.rows, one_class)
    run = job.run(features, large)
    yield from job.train(run)
    at, begun, model = run.at, run.begun, model_of(run, features, job.found.rows)
    del run  # and its memory
    cutter = Cutter(model, job.found.squares[np.searchsorted(job.found.ids, model.numbering.ids)])
    return Large(at, begun, features.plan.n_parameters, cutter)


def _second_stage(
    job: Job, options: TrainingOptions, features: PlannedFeatures, first: Large
) -> Generator[Event, None, tuple[Run, PlannedFeatures]]:
    """Cut the large model; return the run that fine-tunes what is left, and its features."""
    assert job.valid is not None
    budget = Budget(options.max_parameters, options.max_bytes, reserved_bytes(options))
    cut = cut_within(first.cutter, budget) if budget else smallest_good(first.cutter, job.valid)
    small = features.arranged(order_of(cut, features))._replace(plan=cut.plan)
    yield Planned(small.plan, small.counts, job.found.rows)
    run = job.run(small, fine_options(options, small, first.at.epoch - 1), first_parameters(cut, options))
    run.begun = first.begun
    value = run.begin_after(first.at)
    yield Cut(options.metric, first.n_parameters, first.at.best_value, small.plan.n_parameters, value)
    return run, small


def _resumed_stage(job: Job, features: PlannedFeatures, options: TrainingOptions) -> tuple[Run, PlannedFeatures]:
    """Return the run of the second stage as its checkpoint describes it, and its features."""
    assert job.state is not None
    values, arrays = job.state
    plan, order = plan_lengths(arrays[LENGTHS].astype(np.int64), features.counts, features.plan)
    small = features.arranged(order)._replace(plan=plan)
    run = job.run(small, fine_options(options, small, values[CUT_EPOCH]))
    run.restore(job.state)
    return run, small


def fine_options(options: TrainingOptions, small: PlannedFeatures, n_epochs: int) -> TrainingOptions:
    """Return the options of the second stage, which follows this many epochs."""
    ranks = small.plan.ranks
    return replace(
        options,
        model=small.plan.family,
        ranks=ranks,
        l2=options.l2[:1] * len(ranks),
        n_epochs=n_epochs + FINE_EPOCHS,
        patience=FINE_PATIENCE,
        averaging=options.averaging and not options.loss.is_classification,
        rate_drops=0,
        measured=False,
    )


def _with_lengths(state: State | None, lengths: np.ndarray, cut_epoch: int) -> State | None:
    """Add to the state of the second stage what it needs to begin again."""
    if state is None:
        return None
    return {**state[0], STAGE: 2, CUT_EPOCH: cut_epoch}, {**state[1], LENGTHS: lengths}


# From one stage to the other


def order_of(cut: Model, features: PlannedFeatures) -> np.ndarray:
    """Return the numbers that the features of a cut model have in the large one."""
    by_id = np.argsort(features.numbering.ids)
    return by_id[np.searchsorted(features.numbering.ids[by_id], cut.numbering.ids)]


def lengths_of(small: PlannedFeatures, features: PlannedFeatures) -> np.ndarray:
    """Return the length of each vector of a cut model, by its feature's number in the large one."""
    ids, lengths = features.numbering.ids, np.zeros(features.counts.size, np.int32)
    by_id = np.argsort(ids)
    places = by_id[np.searchsorted(ids[by_id], small.numbering.ids)]
    lengths[places] = np.array([0, *small.plan.ranks], np.int32)[small.plan.levels()]
    return lengths


def first_parameters(cut: Model, options: TrainingOptions) -> Parameters:
    """Return the parameters of a model on the scale of training; its states say which scale that is."""
    found, states = cut.parameters, cut.parameters.states
    assert states is not None
    scale = float(states.label_scale[0])
    bias = (found.bias - np.float32(options.score_shift)) / np.float32(scale)
    return replace(found.undo_scaling(1 / scale, 1 / states.value_scales), bias=bias)


def reserved_bytes(options: TrainingOptions) -> int:
    """Return the bytes to leave free in the file: for what else it holds, and for the epochs to come."""
    return options.reserved_bytes + FINE_EPOCHS * ENTRY_BYTES


def smallest_good(cutter: Cutter, valid: RowSource) -> Model:
    """Return the smallest cut whose validation loss is within TOLERANCE of the best."""
    tried = []
    for share in SIZES:
        model = cutter.cut(cutter.choose(share * cutter.n_factors))
        tried.append((validation_loss(model, valid), model))
        if tried[-1][0] > (1 + 10 * TOLERANCE) * min(loss for loss, _ in tried):
            break
    best = min(loss for loss, _ in tried)
    return [model for loss, model in tried if loss <= (1 + TOLERANCE) * best][-1]


def validation_loss(model: Model, valid: RowSource) -> float:
    """Return the loss of a model on validation rows."""
    name = model.loss.metrics[0]
    metrics = Metrics(model.loss, [name])
    for number in range(valid.n_blocks):
        rows = valid.block(number)
        weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
        metrics.add(np.asarray(rows.labels), model.scores(rows), weights)
    found = metrics.values()[name]
    return float("inf") if found is None else found
