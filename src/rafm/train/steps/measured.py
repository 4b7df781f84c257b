"""Measured ranks: train a large model, cut every vector to the length it needs, and fine-tune the small model.

The first stage is an FM. Its average over epochs is rotated to principal axes and cut under the budget; without a
budget, to the smallest size whose validation loss is within TOLERANCE of the best. The second stage trains what is left
for a few epochs, with the optimiser state of the first; the best of them, or the cut itself, is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...compress.budget import Budget, cut_within
from ...compress.cut import LINEAR, Cutter, plan_lengths
from ...errors import ConfigError
from ...flag_values import AUTO
from ...metrics.evaluation import Metrics
from ...model.model import Model
from ...model.parameters import Parameters
from ...options import Options
from ...plan.features import PlannedFeatures, plan_features
from ...plan.ranks import describe_plan
from ...rows.source import RowSource
from ...rows.stats import RowStats
from ..events import Cut, Event, Finished, Measuring, Planned, Resumed
from ..policy import SEARCH_ROWS, large_megabytes, large_rank
from ..recipe import Recipe
from ..resources import Resources
from ..schedule import Schedule
from .job import Job, finished, model_of, train_plain
from .ranks_by_count import ranks_within
from .run import Position, Run, State, epochs_of
from .search import search_settings

FINE_EPOCHS, FINE_PATIENCE = 10, 2
TOLERANCE = 0.005  # of the validation loss, without a budget
SIZES = tuple(2 ** (-k / 2) for k in range(15))  # shares of the large model to try, without a budget
NONZERO_COST, FACTOR_COST = 20.0, 0.19  # relative cost of training: of a nonzero, and of each of its factors
HISTORY_ENTRY_BYTES = 256  # of an epoch in the history of a model file, at most
SEARCH_TIMES = 3.0  # cost of finding learning rate and L2, relative to a plain training on the same rows
STAGE, CUT_EPOCH, EPOCHS, LENGTHS = "stage", "cut_epoch", "epochs", "cut.lengths"  # of the second stage


def train_measured(job: Job, recipe: Recipe) -> Iterator[Event]:
    """Train a model whose ranks are measured, or choose them by counts where that is not possible."""
    plan = plan_large(job, recipe)
    if job.schedule is None:
        yield plan
    if plan.fallback is not None:
        n_weights = job.features(recipe).plan.n_field_weights
        within = ranks_within(job.found, recipe, n_weights, job.resources.reserved_bytes)
        yield from train_plain(job, replace(within, searched=()))
        return
    recipe, job, large = yield from _prepared(job, recipe, plan.rank)
    if large.ranks[0] < plan.rank and job.state is None:
        yield describe_large(job, recipe, large.ranks[0])
    features = job.features(large)
    if job.state is None or STAGE not in job.state[0]:
        first = yield from _first_stage(job, large, features)
        run, small = yield from _second_stage(job, recipe, features, first)
        cut_epoch, epochs = first.at.epoch - 1, epochs_of(first.at)
    else:
        cut_epoch, epochs = job.state[0][CUT_EPOCH], tuple(job.state[0][EPOCHS])
        run, small = _resumed_stage(job, features, recipe)
        yield Resumed(job.checkpoint.name, run.at.epoch, run.at.rows, run.is_over(), run.at.best_value)
    kept = {STAGE: 2, CUT_EPOCH: cut_epoch, EPOCHS: [*epochs]}, {LENGTHS: lengths_of(small, features)}
    job.checkpoint.capture = lambda: _joined(job.capture(run.state()), kept)
    yield from job.epochs(run)
    size, fine = small.plan.n_parameters, run.at.best_epoch - cut_epoch
    schedule = Schedule(large.learning_rate, large.l2[0], epochs, large.ranks[0], size, fine, run.at.drops)
    yield replace(_last(job, run, small, recipe), schedule=schedule)


def train_sizes(job: Job, recipe: Recipe, sizes: Sequence[int]) -> Iterator[Event]:
    """Train one large model and cut it to several numbers of parameters; yield a `Finished` for each, in order.

    Each is the model that `train_measured` gives under this budget. There are no checkpoints.
    """
    recipe, job, large = yield from _prepared(job, recipe, plan_large(job, recipe).rank)
    features = job.features(large)
    first = yield from _first_stage(job, large, features)
    for size in sizes:
        run, small = yield from _second_stage(job, replace(recipe, max_parameters=size), features, first, False)
        yield from job.epochs(run)
        yield _last(job, run, small, recipe)


def _prepared(job: Job, recipe: Recipe, rank: int) -> Generator[Event, None, tuple[Recipe, Job, Recipe]]:
    """Find the settings; return the recipe, the job that knows them, and the recipe of the large model."""
    if job.valid is None and job.schedule is None:
        raise ConfigError("ranks='auto' needs validation rows to choose the ranks by", key="ranks")
    recipe, job = yield from search_settings(job, recipe)
    if job.settings is not None:
        rank = min(rank, job.settings[2] or rank)
    large = replace(recipe, model="fm", ranks=(rank,), l2=recipe.l2[:1], measured=False, keep_state=True)
    return recipe, job, large


def _last(job: Job, run: Run, small: PlannedFeatures, recipe: Recipe) -> Finished:
    """Return the last event of the second stage, with the model."""
    last = finished(job, run, small, job.found.rows)
    given = replace(recipe, l2=run.recipe.l2).summary() | {"ranks": AUTO}  # so that it goes on as it is
    return replace(last, model=replace(last.model, options=given))


# What to start from


def plan_large(job: Job, recipe: Recipe) -> Measuring:
    """Return the size and cost of the large model, or why there is none."""
    known, memory = job.schedule, job.resources.memory
    rank = large_rank(job.found, recipe.loss.is_classification, memory)
    if known is not None and known.rank is not None:
        rank = known.rank
    plan, fallback = describe_large(job, recipe, rank), None
    if memory is not None and plan.megabytes > memory:
        fallback = f"a model of rank {rank} would need {plan.megabytes:.0f} MB in training, more than {memory:g}"
    elif not recipe.shuffle:
        fallback = "the rows are visited only once"
    elif known is not None and known.rank is None:
        fallback = "as was chosen before"
    return replace(plan, fallback=fallback)


def describe_large(job: Job, recipe: Recipe, rank: int) -> Measuring:
    """Return the size and cost of a large model of this rank."""
    found, n, plain = job.found, job.found.ids.size, job.features(recipe)
    factors = sum(level["factors_per_row"] for level in describe_plan(plain.plan, plain.counts, found.rows)[:-1])
    usual = factors * found.rows / max(found.counts.sum(), 1)
    times = (NONZERO_COST + FACTOR_COST * rank) / (NONZERO_COST + FACTOR_COST * usual)
    if recipe.searched:
        times += SEARCH_TIMES * min(1.0, SEARCH_ROWS / found.rows)
    return Measuring(rank, 1 + n * (1 + rank), large_megabytes(n, rank), float(times))


# The two stages


@dataclass
class Large:
    """The large model after its training: where that ended, when it began, and what cuts it."""

    at: Position
    begun: float
    n_parameters: int
    cutter: Cutter

    def cut(self, job: Job, recipe: Recipe) -> Model:
        """Return the model that is left."""
        budget = Budget(recipe.max_parameters, recipe.max_bytes, reserved_bytes(job.resources))
        if job.schedule is not None:
            budget = known_budget(budget, job.schedule, self.cutter)
        if job.valid is None:
            return cut_within(self.cutter, budget)
        return best_within(self.cutter, budget, job.valid) if budget else smallest_good(self.cutter, job.valid)


def _first_stage(job: Job, large: Recipe, features: PlannedFeatures) -> Generator[Event, None, Large]:
    """Train the large model."""
    one_class = large.loss.is_classification and job.found.label_range[0] == job.found.label_range[1]
    yield Planned(features.plan, features.counts, job.found.rows, one_class)
    run = job.run(features, large)
    yield from job.train(run)
    at, begun, model = run.at, run.begun, model_of(run, features, job.found.rows)
    del run  # and its memory
    cutter = Cutter(model, job.found.squares_of(model.numbering.ids))
    return Large(at, begun, features.plan.n_parameters, cutter)


def _second_stage(
    job: Job, recipe: Recipe, features: PlannedFeatures, first: Large, is_last: bool = True
) -> Generator[Event, None, tuple[Run, PlannedFeatures]]:
    """Cut the large model, for the last time or not; return the run that fine-tunes what is left, and its features."""
    cut = first.cut(job, recipe)
    if is_last:
        del first.cutter  # and its memory
    small = features.arranged(order_of(cut, features))._replace(plan=cut.plan)
    yield Planned(small.plan, small.counts, job.found.rows)
    fine = fine_options(recipe, small, first.at.epoch - 1, job.schedule)
    run = job.run(small, fine, first_parameters(cut, recipe))
    del cut
    run.begun = first.begun
    value = run.begin_after(first.at if job.schedule is None else replace(first.at, drops=job.schedule.fine_drops))
    yield Cut(recipe.metric, first.n_parameters, first.at.best_value, small.plan.n_parameters, value)
    return run, small


def _resumed_stage(job: Job, features: PlannedFeatures, recipe: Recipe) -> tuple[Run, PlannedFeatures]:
    """Return the run of the second stage as its checkpoint describes it, and its features."""
    assert job.state is not None
    values, arrays = job.state
    plan, order = plan_lengths(arrays[LENGTHS].astype(np.int64), features.counts, features.plan)
    small = features.arranged(order)._replace(plan=plan)
    run = job.run(small, fine_options(recipe, small, values[CUT_EPOCH], job.schedule))
    run.restore(job.state)
    return run, small


def fine_options(recipe: Recipe, small: PlannedFeatures, n_epochs: int, known: Schedule | None = None) -> Recipe:
    """Return the recipe of the second stage, which follows this many epochs."""
    ranks = small.plan.ranks
    return replace(
        recipe,
        model=small.plan.family,
        ranks=ranks,
        l2=recipe.l2[:1] * len(ranks),
        n_epochs=n_epochs + (FINE_EPOCHS if known is None else known.fine_epochs),
        patience=FINE_PATIENCE,
        averaging=recipe.averaging and not recipe.loss.is_classification,
        rate_drops=0,
        measured=False,
    )


def _joined(state: State | None, more: State) -> State | None:
    """Add to the state of the second stage what it needs to begin again."""
    return None if state is None else ({**state[0], **more[0]}, {**state[1], **more[1]})


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


def first_parameters(cut: Model, recipe: Recipe) -> Parameters:
    """Return the parameters of a model on the scale of training; its states say which scale that is."""
    found, states = cut.parameters, cut.parameters.states
    assert states is not None
    scale = float(states.label_scale[0])
    bias = (found.bias - np.float32(recipe.score_shift)) / np.float32(scale)
    return replace(found.undo_scaling(1 / scale, 1 / states.value_scales), bias=bias)


def reserved_bytes(resources: Resources) -> int:
    """Return the bytes to leave free in the file: for what else it holds, and for the epochs to come."""
    return resources.reserved_bytes + FINE_EPOCHS * HISTORY_ENTRY_BYTES


def check_limits(source: RowSource, found: RowStats, options: Options, resources: Resources) -> None:
    """Reject a limit that even a model of these rows without vectors would exceed, before anything is trained."""
    reserved = resources.reserved_bytes if options.optimizer.is_sampler else reserved_bytes(resources)
    budget = Budget(options.max_parameters, options.max_bytes, reserved)
    if not budget:
        return
    plan, numbering, counts, _, fields = plan_features(
        found, source.n_features, LINEAR, (), options.rule, source.fields
    )
    parameters = Parameters(np.zeros(1, np.float32), np.zeros(found.ids.size, np.float32), [])
    given = options.summary() | {"ranks": AUTO}
    budget.check(Model(plan, numbering, counts, options.loss, parameters, found.rows, options=given, fields=fields))


def known_budget(budget: Budget, known: Schedule, cutter: Cutter) -> Budget:
    """Return a budget that also holds for the size that validation rows have chosen."""
    chosen = max(known.parameters, cutter.smallest().n_parameters)
    return replace(budget, max_parameters=min(chosen, budget.max_parameters or chosen))


def best_within(cutter: Cutter, budget: Budget, valid: RowSource) -> Model:
    """Return the cut of the lowest validation loss within a budget: as large as it allows, or smaller."""
    largest = cut_within(cutter, budget)
    most = sum(block.size for block in largest.parameters.factors)
    losses = {most: validation_loss(largest, valid)}
    del largest  # and its memory
    for size in (int(share * cutter.n_factors) for share in SIZES):
        if size < most:
            losses[size] = validation_loss(cutter.cut(cutter.choose(size)), valid)
            if losses[size] > (1 + 10 * TOLERANCE) * min(losses.values()):
                break
    best = min(losses, key=losses.__getitem__)
    return cut_within(cutter, budget) if best == most else cutter.cut(cutter.choose(best))


def smallest_good(cutter: Cutter, valid: RowSource) -> Model:
    """Return the smallest cut whose validation loss is within TOLERANCE of the best."""
    losses: list[float] = []  # the models are not kept, they would take several times the memory of the large one
    for share in SIZES:
        losses.append(validation_loss(cutter.cut(cutter.choose(share * cutter.n_factors)), valid))
        if losses[-1] > (1 + 10 * TOLERANCE) * min(losses):
            break
    share = [share for share, loss in zip(SIZES, losses) if loss <= (1 + TOLERANCE) * min(losses)][-1]
    return cutter.cut(cutter.choose(share * cutter.n_factors))


def validation_loss(model: Model, valid: RowSource) -> float:
    """Return the loss of a model on validation rows."""
    found = validation_metric(model, valid, model.loss.metrics[0])
    return float("inf") if found is None else found


def validation_metric(model: Model, valid: RowSource, name: str) -> float | None:
    """Return a metric of a model on validation rows, None if it is undefined."""
    metrics = Metrics(model.loss, [name])
    for number in range(valid.n_blocks):
        rows = valid.block(number)
        weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
        metrics.add(np.asarray(rows.labels), model.scores(rows), weights)
    return metrics.values()[name]
