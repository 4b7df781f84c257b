"""What a user may choose about training, checked in one place; estimators and commands build it alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .errors import ConfigError
from .losses import Loss, loss_for
from .metrics import check_metric
from .optimizers import OPTIMIZERS, AdaGrad, Ftrl, Optimizer, optimizer_for
from .plan.ranks import LevelRule, NearestRank, Thresholds, check_ranks

UPDATES = ("joint", "algorithm1")
USUAL_ROW = 10.0  # nonzeros of a row up to which learning rates are as they are


@dataclass(frozen=True)
class TrainingOptions:
    """All choices of one training run, with every default filled in by `resolve`."""

    family: str
    loss: Loss
    ranks: tuple[int, ...]
    rule: LevelRule | np.ndarray
    joint: bool
    dependent_weight: float
    optimizer: Optimizer
    learning_rate: float
    rate_is_given: bool
    l2: tuple[float, ...]  # per rank
    l2_weights: float
    l1: float
    l1_weights: float
    n_epochs: int
    patience: int | None
    metric: str
    max_seconds: float | None
    negative_rate: float
    seed: int
    threads: int
    shuffle: bool = True  # else rows are visited as they come
    keep_state: bool = False  # of the optimiser, in the model
    replan: bool = False  # ranks of the features of a model that training goes on from

    # These do not change what a run computes, at most how far it gets.
    WITHOUT_EFFECT: ClassVar[tuple[str, ...]] = ("max_seconds", "threads", "rate_is_given")

    def for_rows_of(self, nonzeros: float) -> TrainingOptions:
        """Return the options with a lower learning rate for rows of many nonzeros, unless it was given.

        A step moves all features of a row at once, and with them the row's score.

        >>> round(resolve(task="binary").for_rows_of(40).learning_rate, 3)
        0.025
        """
        share = min(1.0, (USUAL_ROW / max(nonzeros, 1.0)) ** 1.5)
        return self if self.rate_is_given else replace(self, learning_rate=self.learning_rate * share)

    @property
    def score_shift(self) -> float:
        """What to add to a score so that probabilities are those of rows of which no negatives were left out."""
        return float(np.log(self.negative_rate))

    def summary(self) -> dict[str, Any]:
        """Return the choices as plain values, for the model file; levels given one by one are in the plan."""
        rule = self.rule
        return {
            "rank_scale": rule.scale if isinstance(rule, NearestRank) else None,
            "thresholds": ",".join(f"{t:g}" for t in rule.minimum) if isinstance(rule, Thresholds) else None,
            "optimizer": type(self.optimizer).__name__.lower(),
            "batch_size": self.optimizer.batch_size,
            "update": UPDATES[0] if self.joint else UPDATES[1],
            "learning_rate": self.learning_rate,
            "l2": _one_or_all(self.l2),
            "dependent_weight": self.dependent_weight,
            "l2_weights": self.l2_weights,
            "l1": self.l1,
            "l1_weights": self.l1_weights,
            "n_epochs": self.n_epochs,
            "patience": self.patience,
            "metric": self.metric,
            "negative_rate": self.negative_rate,
            "seed": self.seed,
        }


def resolve(
    *,
    task: str,
    model: str = "rafm",
    ranks: Any = None,
    rank_scale: float = 1.0,
    levels: LevelRule | np.ndarray | None = None,
    update: str = "joint",
    dependent_weight: float | None = None,
    optimizer: str | Optimizer = "adagrad",
    learning_rate: float | None = None,
    l2: float | Sequence[float] | None = None,
    l2_weights: float = 0.0,
    l1: float = 0.0,
    l1_weights: float = 0.0,
    n_epochs: int = 30,
    patience: int | None = 3,
    metric: str | None = None,
    max_seconds: float | None = None,
    negative_rate: float = 1.0,
    seed: int = 0,
    threads: int = 1,
) -> TrainingOptions:
    """Check every choice and fill in what was left open.

    >>> resolve(task="binary", l2=-1)
    Traceback (most recent call last):
    rafm.errors.ConfigError: l2 must be a number of at least 0, found -1
    """
    loss, ranks = loss_for(task), check_ranks(model, ranks)
    if update not in UPDATES:
        raise ConfigError(f"update must be {' or '.join(UPDATES)}, found {update!r}", key="update")
    optimizer = optimizer_for(optimizer)
    if model == "mrma" and not isinstance(optimizer, AdaGrad):
        raise ConfigError("model 'mrma' is trained by optimizer='adagrad' alone", key="optimizer")
    joint_weight = loss.dependent_weight if update == "joint" else 1.0
    return TrainingOptions(
        family=model,
        loss=loss,
        ranks=ranks,
        rule=NearestRank(_number("rank_scale", rank_scale, positive=True)) if levels is None else levels,
        joint=update == "joint",
        dependent_weight=_number("dependent_weight", joint_weight if dependent_weight is None else dependent_weight),
        optimizer=optimizer,
        learning_rate=_number(
            "learning_rate",
            loss.learning_rate * optimizer.slower if learning_rate is None else learning_rate,
            positive=True,
        ),
        rate_is_given=learning_rate is not None,
        l2=_per_rank("l2", loss.l2 if l2 is None else l2, ranks),
        l2_weights=_number("l2_weights", l2_weights),
        l1=_only_for_ftrl("l1", l1, optimizer),
        l1_weights=_only_for_ftrl("l1_weights", l1_weights, optimizer),
        n_epochs=_whole("n_epochs", n_epochs),
        patience=None if patience is None else _whole("patience", patience),
        metric=check_metric(metric, loss),
        max_seconds=None if max_seconds is None else _number("max_seconds", max_seconds, positive=True),
        negative_rate=_negative_rate(negative_rate, loss),
        seed=_whole("seed", seed, least=0),
        threads=_whole("threads", threads),
    )


SUMMARISED = (
    "rank_scale",
    "update",
    "dependent_weight",
    "learning_rate",
    "l2",
    "l2_weights",
    "l1",
    "l1_weights",
    "n_epochs",
    "patience",
    "metric",
    "negative_rate",
    "seed",
)


def from_summary(summary: dict[str, Any]) -> dict[str, Any]:
    """Return what `resolve` takes, from what `summary` wrote; what is unknown is left open.

    >>> from_summary({"rank_scale": None, "thresholds": "10,100", "optimizer": "sgd", "l2": 0.1})
    {'l2': 0.1, 'levels': Thresholds(minimum=(10.0, 100.0)), 'optimizer': 'sgd'}
    """
    chosen = {name: summary[name] for name in SUMMARISED if name in summary}
    if chosen.get("rank_scale") is None:
        chosen.pop("rank_scale", None)
    if summary.get("thresholds"):
        chosen["levels"] = Thresholds(tuple(float(part) for part in summary["thresholds"].split(",")))
    if name := summary.get("optimizer"):
        size = summary.get("batch_size", optimizer_for(name).batch_size)
        chosen["optimizer"] = name if size == optimizer_for(name).batch_size else OPTIMIZERS[name](batch_size=size)
    return chosen


def _number(key: str, value: float, positive: bool = False) -> float:
    rule = "a positive number" if positive else "a number of at least 0"
    good = isinstance(value, int | float | np.number) and np.isfinite(value) and value >= 0
    if not good or (positive and value == 0):
        raise ConfigError(f"{key} must be {rule}, found {value!r}", key=key)
    return float(value)


def _only_for_ftrl(key: str, value: float, optimizer: Optimizer) -> float:
    if value and not isinstance(optimizer, Ftrl):
        raise ConfigError(f"{key} needs optimizer='ftrl': the others would reach no zeros", key=key)
    return _number(key, value)


def _negative_rate(value: float, loss: Loss) -> float:
    rate = _number("negative_rate", value, positive=True)
    if rate > 1:
        raise ConfigError(f"negative_rate must be a share of at most 1, found {value!r}", key="negative_rate")
    if rate < 1 and loss.task != "binary":
        raise ConfigError("negative_rate needs task='binary': ratings have no negatives", key="negative_rate")
    return rate


def _per_rank(key: str, value: float | Sequence[float], ranks: tuple[int, ...]) -> tuple[float, ...]:
    """Return a number for each rank, given one for all or one for each."""
    values: list[Any] = list(value) if isinstance(value, list | tuple | np.ndarray) else [value] * len(ranks)
    if len(values) != len(ranks):
        raise ConfigError(f"{key} must be one number, or {len(ranks)}: one per rank, found {len(values)}", key=key)
    return tuple(_number(key, one) for one in values)


def _one_or_all(values: tuple[float, ...]) -> float | list[float] | None:
    """Say a number once if it is the same for all ranks."""
    return list(values) if len(set(values)) > 1 else next(iter(values), None)


def _whole(key: str, value: int, least: int = 1) -> int:
    if not isinstance(value, int | np.integer) or value < least:
        raise ConfigError(f"{key} must be a whole number of at least {least}, found {value!r}", key=key)
    return int(value)
