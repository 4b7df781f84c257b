"""Epochs -> events. Early stopping, progress display and history are small consumers of events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .batch import Batch, Numbering, count_features, number_rows
from .engine import Engine, make_engine
from .errors import DataValueError, DivergenceError
from .kernels import LOGISTIC, Rows
from .metrics import evaluate
from .model import Model
from .options import TrainingOptions
from .parameters import Parameters
from .ranks import RankPlan, plan_ranks

LARGE_VALUE = 2.0  # features whose values are larger than this on average are scaled down in training
ABSURD = 100.0  # an epoch's loss above this many times that of the best constant counts as diverged


@dataclass(frozen=True)
class Planned:
    """Ranks are decided; nothing is trained yet."""

    plan: RankPlan
    counts: np.ndarray
    n_rows: int


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


def train(data: Batch, options: TrainingOptions, valid: Batch | None = None) -> Iterator[Event]:
    """Train a model on checked rows, yielding events; the last one holds the model.

    With validation rows, the epoch of least validation loss is kept, and training ends after `patience` epochs
    without a better one.
    """
    if data.n_rows == 0 or data.labels is None:
        raise DataValueError("no rows to train on")
    plan, numbering, counts = plan_features(data, options)
    yield Planned(plan, counts, data.n_rows)
    run = _Run(plan, counts, number_rows(data, numbering), options)
    held_out = None if valid is None or valid.n_rows == 0 else number_rows(valid, numbering)
    history = []
    for epoch in range(1, options.n_epochs + 1):
        event = run.epoch(epoch, held_out)
        history.append(event.entry())
        yield event
        if options.patience is not None and epoch - run.best_epoch >= options.patience:
            break
    yield Finished(
        Model(
            plan=plan,
            numbering=numbering,
            counts=counts,
            loss=options.loss,
            parameters=run.best_parameters(),
            n_rows=data.n_rows,
            history=history,
            best_epoch=run.best_epoch,
            options=options.summary(),
        )
    )


def train_model(data: Batch, options: TrainingOptions, valid: Batch | None = None) -> Model:
    """Train without looking at the events."""
    *_, last = train(data, options, valid)
    assert isinstance(last, Finished)
    return last.model


def plan_features(data: Batch, options: TrainingOptions) -> tuple[RankPlan, Numbering, np.ndarray]:
    """Return the plan, the numbering, and the counts in its order."""
    ids, counts = count_features(data)
    rule = options.rule
    if not callable(rule) and np.shape(rule) == (data.n_features,):
        rule = np.asarray(rule)[ids]
    plan, order = plan_ranks(options.family, options.ranks, counts, rule)
    return plan, Numbering(ids[order], data.n_features), counts[order]


def label_scale(rows: Rows, options: TrainingOptions) -> float:
    """Return the power of 4 that brings the spread of the labels near 1, so that learning rates mean the same.

    Ratings from 1 to 5 keep their scale. With a power of 4, dividing labels and undoing it in the model are exact.
    """
    if options.loss.code == LOGISTIC:
        return 1.0
    spread = float(rows.labels[rows.weights > 0].astype(float).std()) if (rows.weights > 0).any() else 0.0
    return 1.0 if spread == 0 else float(4.0 ** np.round(np.log2(spread) / 2))


def value_scales(rows: Rows, n_features: int) -> np.ndarray:
    """Return per feature the power of 2 to divide its values by: 1, or the size of values that are large on average.

    >>> rows = Rows(np.array([0, 2]), np.array([0, 1]), np.array([1.0, 100.0]), np.zeros(1), np.ones(1))
    >>> value_scales(rows, n_features=2)
    array([  1., 128.], dtype=float32)
    """
    squares = np.bincount(rows.indices, rows.values.astype(float) ** 2, minlength=n_features)
    counts = np.bincount(rows.indices, minlength=n_features)
    size = np.sqrt(squares / np.maximum(counts, 1))
    return np.where(size > LARGE_VALUE, 2.0 ** np.round(np.log2(np.maximum(size, 1))), 1.0).astype(np.float32)


class _Run:
    """The state of one training run: the engine, and the best parameters so far."""

    def __init__(self, plan: RankPlan, counts: np.ndarray, rows: Rows, options: TrainingOptions):
        self.options, self.label_scale = options, label_scale(rows, options)
        self.value_scales = value_scales(rows, plan.n_features)
        self.rows = self._scaled(rows)._replace(labels=rows.labels / np.float32(self.label_scale))
        self.prior = options.loss.prior(self.rows.labels, self.rows.weights)
        self.engine: Engine = make_engine(plan, counts, self.rows, options, self.prior)
        self.total_weight = float(rows.weights.sum(dtype=float))
        self.best_loss, self.best_epoch = np.inf, 0
        self.kept: Parameters | None = None

    def epoch(self, epoch: int, held_out: Rows | None) -> EpochFinished:
        """Train one epoch and judge it."""
        start = time.perf_counter()
        order = np.random.default_rng([self.options.seed, epoch]).permutation(self.rows.labels.size)
        total, diverged = self.engine.train(self.rows, order)
        if diverged >= 0:
            raise self._divergence(
                f"the loss stopped being finite after {diverged} rows of epoch {epoch}", epoch, diverged
            )
        mean = total / max(self.total_weight, 1e-30)
        metrics = {} if held_out is None else self._judge(held_out)
        self._check_sense(mean, metrics, epoch)
        best = self._keep_best(epoch, metrics)
        shown = self.options.loss.report(mean) * self.label_scale
        return EpochFinished(epoch, shown, metrics, time.perf_counter() - start, best)

    def _scaled(self, rows: Rows) -> Rows:
        if (self.value_scales == 1).all():
            return rows
        return rows._replace(values=rows.values / self.value_scales[rows.indices])

    def _judge(self, held_out: Rows) -> dict[str, float | None]:
        scores = self.engine.scores(self._scaled(held_out)) * np.float32(self.label_scale)
        return evaluate(self.options.loss, held_out.labels, scores, held_out.weights)

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
            found = found.undo_scaling(self.label_scale, self.value_scales)
        arrays = [found.bias, found.weights, *found.factors, *([] if found.mixture is None else [found.mixture])]
        if not all(np.isfinite(array).all() for array in arrays):
            raise self._divergence("some parameters are not finite", self.best_epoch, None)
        return found

    def _check_sense(self, mean: float, metrics: dict[str, float | None], epoch: int) -> None:
        constant = np.full(self.rows.labels.size, self.prior, np.float32)
        known = evaluate(self.options.loss, self.rows.labels, constant, np.maximum(self.rows.weights, 1e-30))
        baseline = next(iter(known.values())) or 0.0
        shown = self.options.loss.report(mean)
        if shown > ABSURD * max(baseline, 0.1):
            raise self._divergence(
                f"the training loss of epoch {epoch} is {shown:.4g}, a constant would have {baseline:.4g}",
                epoch,
                None,
            )
        if any(value is not None and not np.isfinite(value) for value in metrics.values()):
            raise self._divergence(f"the validation loss of epoch {epoch} is not finite", epoch, None)

    def _divergence(self, what: str, epoch: int, row: int | None) -> DivergenceError:
        largest = float(np.abs(self.rows.values).max(initial=0))
        advice = f"Lower learning_rate (now {self.options.learning_rate:g})"
        if largest > 10:
            advice += f" or look for outliers (some values are {largest:.3g} times the usual size of their feature)"
        return DivergenceError(f"training diverged: {what}. {advice}.", epoch=epoch, row=row)
