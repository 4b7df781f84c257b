"""Evaluate predictions: metrics and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..losses.loss import Loss
from . import N_SHOWN, metric_class
from .auc import Auc
from .metric import Metric, ScoredRows


def with_predictions(loss: Loss, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> ScoredRows:
    """Add the predictions to labels and scores, as metrics need them."""
    return ScoredRows(labels, scores, loss.predict(scores.astype(float)), weights.astype(float))


class Metrics:
    """Several metrics of the same rows, which are added batch by batch."""

    def __init__(self, loss: Loss, names: Sequence[str]):
        self.loss = loss
        self.metrics: dict[str, Metric] = {name: metric_class(name)(loss) for name in names}
        self.rows, self.weight = 0, 0.0

    def add(self, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> ScoredRows:
        """Add rows; return them with their predictions."""
        rows = with_predictions(self.loss, labels, scores, weights)
        for metric in self.metrics.values():
            metric.add(rows)
        self.rows, self.weight = self.rows + labels.size, self.weight + float(rows.weights.sum())
        return rows

    def values(self) -> dict[str, float | None]:
        """Return the metrics by name."""
        return {name: metric.value() for name, metric in self.metrics.items()}


def evaluate(
    loss: Loss, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray, names: Sequence[str] | None = None
) -> dict[str, float | None]:
    """Return metrics of rows, by default those that training shows.

    >>> from rafm.losses import loss_for
    >>> evaluate(loss_for("regression"), np.array([1.0, 3.0]), np.array([2.0, 2.0]), np.ones(2))
    {'rmse': 1.0, 'mae': 1.0}
    """
    metrics = Metrics(loss, loss.metrics[:N_SHOWN] if names is None else names)
    metrics.add(labels, scores, weights)
    return metrics.values()


def check_rows_alone(loss: Loss) -> None:
    """Reject a loss of pairs, whose metrics compare items."""
    if loss.is_ranking:
        raise ConfigError(
            f"a model of task {loss.task!r} is evaluated on a catalogue: use rafm evaluate --ranking --items FILE",
            key="task",
        )


class Evaluation:
    """Computes everything that `rafm evaluate` reports, batch by batch in bounded memory."""

    def __init__(self, loss: Loss):
        check_rows_alone(loss)
        self.metrics = Metrics(loss, loss.metrics)
        self.label_total = self.prediction_total = 0.0

    def add(self, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> None:
        """Add rows."""
        rows = self.metrics.add(labels, scores, weights)
        self.label_total += float((rows.labels * rows.weights).sum())
        self.prediction_total += float((rows.predictions * rows.weights).sum())

    def report(self) -> dict[str, Any]:
        """Return the results by name; without any row of positive weight, only the number of rows."""
        counted, weight = {"rows": self.metrics.rows}, self.metrics.weight
        if not weight > 0:  # means are undefined
            return counted
        means = {"mean_label": self.label_total / weight, "mean_prediction": self.prediction_total / weight}
        auc = self.metrics.metrics.get("auc")
        calibration = _calibration(auc, weight) if isinstance(auc, Auc) else {}
        return {**counted, **self.metrics.values(), **means, **calibration}


def _calibration(auc: Auc, weight: float) -> dict[str, Any]:
    """Return the calibration error and the reliability table, from the lowest predictions to the highest."""
    table = auc.ranking.reliability()
    gaps = sum(line["weight"] * abs(line["mean_prediction"] - line["mean_label"]) for line in table)
    return {"calibration_error": float(gaps / weight), "reliability": table}
