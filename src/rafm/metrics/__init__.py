"""Metrics, one file each. To add one, add its file to this folder, its name here and to the losses that it suits."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..losses import LOSSES, loss_named, one_of

if TYPE_CHECKING:
    from ..losses.loss import Loss
    from .metric import Metric

METRICS = {  # file and class
    "log_loss": "LogLoss",
    "auc": "Auc",
    "normalized_entropy": "NormalizedEntropy",
    "rmse": "Rmse",
    "mae": "Mae",
    "poisson_deviance": "PoissonDeviance",
    "huber_loss": "HuberLoss",
    "pair_loss": "PairLoss",
    "pair_auc": "PairAuc",
    "ndcg": "Ndcg",
    "recall": "Recall",
}
N_SHOWN = 2  # number of a loss's metrics that training shows


def metric_class(name: str) -> type[Metric]:
    """Return the class of a metric by name; only names in the registry are imported."""
    if name not in METRICS:
        raise ConfigError(f"metric must be {one_of([*METRICS])}, found {name!r}", key="metric")
    return getattr(import_module(f".{name}", __name__), METRICS[name])


def loss_heading(metric: str) -> str:
    """Return the heading of the training loss, given the first metric of the loss.

    >>> loss_heading("log_loss"), loss_heading("ndcg")
    ('loss', 'loss')
    """
    first = metric_class(metric)
    return "loss" if first.is_rising else first.heading


def check_metric(metric: str | None, loss: Loss) -> str:
    """Return the metric that selects the best epoch, by default the first one of the loss.

    >>> from rafm.losses import loss_for
    >>> check_metric("rmse", loss_for("binary"))
    Traceback (most recent call last):
    rafm.errors.ConfigError: metric must be log_loss, auc or normalized_entropy for binary labels, found 'rmse'
    """
    if metric is None:
        return loss.metrics[0]
    needed = [other for other in LOSSES if metric in loss_named(other).metrics]
    if metric not in loss.metrics and len(needed) == 1 and LOSSES[needed[0]] == loss.task:
        raise ConfigError(f"metric {metric!r} needs loss={needed[0]!r}, not {loss.name!r}", key="metric")
    if metric not in loss.metrics:
        raise ConfigError(f"metric must be {one_of(loss.metrics)} for {loss.labels}, found {metric!r}", key="metric")
    return metric


def shown_metrics(loss: Loss, metric: str) -> list[str]:
    """Return the metrics that training shows: the loss's first ones, and the one that selects the best epoch."""
    return [*dict.fromkeys([*loss.metrics[:N_SHOWN], metric])]  # without duplicates, in this order


def is_better(metric: str, value: float | None, best: float | None) -> bool:
    """Return whether a value is better than the best so far; an undefined value never is."""
    if value is None or best is None:
        return value is not None
    return value > best if metric_class(metric).is_rising else value < best
