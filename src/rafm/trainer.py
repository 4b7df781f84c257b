"""Epochs -> events. Early stopping, progress display and history are small consumers of events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .batch import Batch, InMemory, Numbering, Source, check_batch, number_rows
from .engine import Engine, RowShape, arrange, make_engine
from .errors import DataValueError, DivergenceError
from .kernels import LOGISTIC, Rows
from .losses import Loss
from .metrics import Tally
from .model import Model
from .options import TrainingOptions
from .parameters import Parameters
from .ranks import RankPlan, plan_ranks
from .survey import Survey, survey

LARGE_VALUE = 2.0  # features whose values are larger than this on average are scaled down in training
SMALL_VALUE = 0.5  # and all are scaled up if values are smaller than this on average
GROUP = 16  # rows that are visited one after the other in every epoch
ABSURD = 100.0  # an epoch's loss above this many times that of the best constant counts as diverged


@dataclass(frozen=True)
class Planned:
    """Ranks are decided; nothing is trained yet."""

    plan: RankPlan
    counts: np.ndarray
    n_rows: int
    one_class: bool = False


@dataclass(frozen=True)
class EpochFinished:
    """One pass over the data is done. metrics are those of the validation rows, if there are any."""

    epoch: int
    train_loss: float
    metrics: dict[str, float | None]
    seconds: float
    best: bool

    def entry(self) -> dict[str, Any]:
        """Return what the history keeps: no times, so that equal runs have equal histories."""
        kept = {f"valid_{name}": value for name, value in self.metrics.items()}
        return {"epoch": self.epoch, "train_loss": self.train_loss, **kept}


@dataclass(frozen=True)
class Finished:
    """Training is over; the model is that of the best epoch."""

    model: Model


Event = Planned | EpochFinished | Finished


def train(data: Batch | Source, options: TrainingOptions, valid: Batch | Source | None = None) -> Iterator[Event]:
    """Train a model, yielding events; the last one holds the model.

    With validation rows, the epoch of least validation loss is kept, and training ends after `patience` epochs
    without a better one. Rows may be a source of many blocks, larger than memory: blocks are visited in random order,
    and the rows of each in random order.
    """
    source = as_source(data)
    found = survey(checked_blocks(source, options.family))
    _check_labels(found, options.loss)
    features = plan_features(found, source.n_features, options)
    one_class = options.loss.code == LOGISTIC and found.label_range[0] == found.label_range[1]
    yield Planned(features.plan, features.counts, found.rows, one_class)
    run = _Run(source, found, features, options)
    held_out = None if valid is None else run.held_out(as_source(valid))
    history = []
    for epoch in range(1, options.n_epochs + 1):
        event = run.epoch(epoch, held_out)
        history.append(event.entry())
        yield event
        if options.patience is not None and epoch - run.best_epoch >= options.patience:
            break
    yield Finished(
        Model(
            plan=features.plan,
            numbering=features.numbering,
            counts=features.counts,
            loss=options.loss,
            parameters=run.best_parameters(),
            n_rows=found.rows,
            history=history,
            best_epoch=run.best_epoch,
            options=options.summary(),
        )
    )


def train_model(data: Batch | Source, options: TrainingOptions, valid: Batch | Source | None = None) -> Model:
    """Train without looking at the events."""
    *_, last = train(data, options, valid)
    assert isinstance(last, Finished)
    return last.model


class Features(NamedTuple):
    """The features of a model: their plan, their ids, and in the order of their numbers how often each occurs.

    In training their values are divided by value_scales.
    """

    plan: RankPlan
    numbering: Numbering
    counts: np.ndarray
    value_scales: np.ndarray

    def arranged(self, order: np.ndarray) -> Features:
        """Return the features of every level in another order."""
        numbering = Numbering(self.numbering.ids[order], self.numbering.n_inputs)
        return Features(self.plan, numbering, self.counts[order], self.value_scales[order])


def plan_features(found: Survey, n_features: int, options: TrainingOptions) -> Features:
    """Give every feature that occurs its level and its number."""
    rule = options.rule
    if not callable(rule) and np.shape(rule) == (n_features,):
        rule = np.asarray(rule)[found.ids]
    plan, order = plan_ranks(options.family, options.ranks, found.counts, rule)
    scales = value_scales(found.counts[order], found.squares[order])
    return Features(plan, Numbering(found.ids[order], n_features), found.counts[order], scales)


def label_scale(spread: float, loss: Loss) -> float:
    """Return the power of 4 that brings the spread of the labels near 1, so that learning rates mean the same.

    Ratings from 1 to 5 keep their scale. With a power of 4, dividing labels and undoing it in the model are exact.
    """
    if loss.code == LOGISTIC or spread == 0:
        return 1.0
    return float(4.0 ** np.round(np.log2(spread) / 2))


def value_scales(counts: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return per feature the power of 2 to divide its values by.

    It is 1, the size of the feature's values if they are large, or the usual size of all values if that is small: one
    number for all, so that the values of a row keep their proportions.

    >>> value_scales(np.array([3, 1]), np.array([3.0, 10_000.0]))
    array([  1., 128.], dtype=float32)
    >>> value_scales(np.array([2, 2]), np.array([0.02, 0.04]))
    array([0.125, 0.125], dtype=float32)
    """
    size = np.sqrt(squares / np.maximum(counts, 1))
    large = size > LARGE_VALUE
    usual = np.sqrt(squares[~large].sum() / max(counts[~large].sum(), 1))
    common = 2.0 ** np.round(np.log2(usual)) if 0 < usual < SMALL_VALUE else 1.0
    return np.where(large, 2.0 ** np.round(np.log2(np.maximum(size, 1))), common).astype(np.float32)


def _check_labels(found: Survey, loss: Loss) -> None:
    low, high = found.label_range
    if not found.rows:
        raise DataValueError("no rows to train on")
    if loss.code == LOGISTIC and not 0 <= low <= high <= 1:
        raise DataValueError(f"binary labels must lie between 0 and 1, found {low:g} to {high:g}")


def as_source(data: Batch | Source) -> Source:
    """Return a batch as a source of one block, a source as it is."""
    return InMemory(data) if isinstance(data, Batch) else data


def checked_blocks(source: Source, family: str) -> Iterator[Batch]:
    """Yield the blocks of labelled rows in order; MRMA takes rows of two features alone."""
    done = 0
    for number in range(source.n_blocks):
        batch = check_batch(source.block(number))
        if batch.labels is None:
            raise DataValueError("the rows have no labels")
        if family == "mrma":
            _check_pairs(batch, done)
        done += batch.n_rows
        yield batch


def _check_pairs(batch: Batch, done: int) -> None:
    lengths = np.diff(np.concatenate([[0], np.cumsum(batch.values != 0)])[batch.indptr])
    if (lengths != 2).any():
        row = int(np.flatnonzero(lengths != 2)[0])
        raise DataValueError(
            f"model 'mrma' needs exactly two features in every row, such as user and item; "
            f"row {done + row} has {lengths[row]}. Keep two columns, or use model='rafm'."
        )


class _Blocks:
    """The rows of a source as kernels want them: numbered, scaled, block by block; kept if the source is in memory.

    With a seed, the rows of each block are shuffled once and for all.
    """

    def __init__(
        self,
        source: Source,
        numbering: Numbering,
        scales: np.ndarray,
        label_scale: float = 1.0,
        seed: int | None = None,
    ):
        self.source, self.numbering, self.label_scale, self.seed = source, numbering, np.float32(label_scale), seed
        self.scales = None if (scales == 1).all() else scales
        self.kept: dict[int, Rows] = {}

    def __iter__(self) -> Iterator[Rows]:
        return (self.rows(number) for number in range(self.source.n_blocks))

    def rows(self, number: int) -> Rows:
        """Return one block."""
        if number in self.kept:
            return self.kept[number]
        batch = check_batch(self.source.block(number))
        if batch.labels is None:
            raise DataValueError("the rows have no labels")
        order = None if self.seed is None else np.random.default_rng([self.seed, 0, number]).permutation(batch.n_rows)
        rows = number_rows(batch, self.numbering, order)
        rows = rows._replace(labels=rows.labels / self.label_scale)
        if self.scales is not None:
            rows = rows._replace(values=rows.values / self.scales[rows.indices])
        if self.source.in_memory or self.source.n_blocks == 1:
            self.kept[number] = rows
        return rows


def visiting_order(n_rows: int, draw: np.random.Generator) -> np.ndarray:
    """Return all rows, GROUP neighbours at a time, in random order; where groups begin is drawn too.

    Rows are shuffled when they are loaded, so neighbours are strangers; visiting them together saves most cache misses.

    >>> sorted(visiting_order(100, np.random.default_rng(0)).tolist()) == list(range(100))
    True
    """
    starts = np.arange(-int(draw.integers(GROUP)), n_rows, GROUP)
    order = (draw.permutation(starts)[:, None] + np.arange(GROUP)).ravel()
    return order[(order >= 0) & (order < n_rows)]


class _Run:
    """The state of one training run: the engine, and the best parameters so far."""

    def __init__(self, source: Source, found: Survey, features: Features, options: TrainingOptions):
        self.options, self.total_weight = options, found.weight
        shape = RowShape(found.rows, max(found.longest, 1))
        self.grouping = arrange(features.plan, features.counts, shape, options)
        self.features = features = features.arranged(self.grouping.order)
        self.label_scale = label_scale(found.label_spread, options.loss)
        self.blocks = _Blocks(source, features.numbering, features.value_scales, self.label_scale, options.seed)
        mean, spread = found.label_mean / self.label_scale, found.label_spread / self.label_scale
        self.baseline = options.loss.baseline(mean, spread)
        bias = options.loss.prior(mean, found.weight)
        self.engine: Engine = make_engine(features.plan, self.grouping, shape, options, bias)
        self.best_loss, self.best_epoch = np.inf, 0
        self.kept: Parameters | None = None

    def held_out(self, source: Source) -> _Blocks:
        """Return validation rows, numbered and scaled as the training rows are."""
        return _Blocks(source, self.features.numbering, self.features.value_scales)

    def epoch(self, epoch: int, held_out: _Blocks | None) -> EpochFinished:
        """Train one epoch and judge it."""
        start = time.perf_counter()
        mean = self._train_blocks(epoch) / max(self.total_weight, 1e-30)
        metrics = {} if held_out is None else self._judge(held_out)
        self._check_sense(mean, metrics, epoch)
        best = self._keep_best(epoch, metrics)
        shown = self.options.loss.report(mean) * self.label_scale
        return EpochFinished(epoch, shown, metrics, time.perf_counter() - start, best)

    def _train_blocks(self, epoch: int) -> float:
        """Visit all blocks, and the rows of each, in random order; return the summed loss."""
        draw = np.random.default_rng([self.options.seed, epoch])
        total, done = 0.0, 0
        for number in draw.permutation(self.blocks.source.n_blocks):
            rows = self.blocks.rows(int(number))
            loss, diverged = self.engine.train(rows, visiting_order(rows.labels.size, draw))
            if diverged >= 0:
                what = f"the loss stopped being finite after {done + diverged} rows of epoch {epoch}"
                raise self._divergence(what, epoch, done + diverged)
            total, done = total + loss, done + rows.labels.size
        return total

    def _judge(self, held_out: _Blocks) -> dict[str, float | None]:
        """Return the metrics of the validation rows; none if there are no rows."""
        tally = Tally(self.options.loss)
        for rows in held_out:
            tally.add(rows.labels, self.engine.scores(rows) * np.float32(self.label_scale), rows.weights)
        if not tally.rows:
            return {}
        if not tally.weight:
            raise DataValueError("the validation rows have no weight; at least one must be above 0")
        return tally.metrics()

    def _keep_best(self, epoch: int, metrics: dict[str, float | None]) -> bool:
        """Keep the parameters if they are the best so far; without validation rows the last epoch counts as best."""
        if not metrics:
            self.best_epoch = epoch
            return False
        loss = next(iter(metrics.values()))
        if loss is None or not loss < self.best_loss:
            return False
        self.best_loss, self.best_epoch, self.kept = loss, epoch, self.engine.parameters()
        return True

    def best_parameters(self) -> Parameters:
        """Return the parameters to keep, for labels and values as they came; they must be finite."""
        found = self.kept or self.engine.parameters()
        with np.errstate(over="ignore", invalid="ignore"):
            found = found.undo_scaling(self.label_scale, self.features.value_scales).rearranged(self.grouping)
        arrays = [found.bias, found.weights, *found.factors, *([] if found.mixture is None else [found.mixture])]
        if not all(np.isfinite(array).all() for array in arrays):
            raise self._divergence("some parameters are not finite", self.best_epoch, None)
        return found

    def _check_sense(self, mean: float, metrics: dict[str, float | None], epoch: int) -> None:
        shown = self.options.loss.report(mean)
        if shown > ABSURD * max(self.baseline, 0.1):
            what = f"the training loss of epoch {epoch} is {shown:.4g}, a constant would have {self.baseline:.4g}"
            raise self._divergence(what, epoch, None)
        if any(value is not None and not np.isfinite(value) for value in metrics.values()):
            raise self._divergence(f"the validation loss of epoch {epoch} is not finite", epoch, None)

    def _divergence(self, what: str, epoch: int, row: int | None) -> DivergenceError:
        largest = max((float(np.abs(rows.values).max(initial=0)) for rows in self.blocks), default=0.0)
        advice = f"Lower learning_rate (now {self.options.learning_rate:g})"
        if largest > 10:
            advice += f" or look for outliers (some values are {largest:.3g} times the usual size of their feature)"
        return DivergenceError(f"training diverged: {what}. {advice}.", epoch=epoch, row=row)
