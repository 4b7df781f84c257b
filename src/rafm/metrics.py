"""How good predictions are: log loss, AUC, RMSE, MAE, and whether they mean what they say."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import ConfigError
from .kernels import records as kernels
from .losses import Loss

METRICS = {"binary": ("log_loss", "auc", "normalized_entropy"), "regression": ("rmse", "mae")}
SHOWN = 2  # of these, in training
RISING = ("auc",)  # the more, the better
BINS = 10  # of a reliability table


def log_losses(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the log loss of each score before the link; exact for scores of any size."""
    scores = scores.astype(float)
    return np.maximum(scores, 0) - scores * labels + np.log1p(np.exp(-np.abs(scores)))


def log_loss(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean log loss of scores before the link.

    >>> round(log_loss(np.array([1.0, 0.0]), np.array([0.0, -1000.0]), np.ones(2)), 6)
    0.346574
    """
    return float(np.average(log_losses(labels, scores), weights=weights))


def auc(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float | None:
    """Return the weighted share of (positive, negative) pairs in the right order, ties half; None with a single class.

    >>> auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]), np.ones(4))
    0.75
    """
    if not scores.size:
        return None
    order = np.argsort(scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]), 1))  # the last row of each group of equal scores
    positive = np.cumsum((weights * (labels > 0))[order], dtype=float)[ends]
    negative = np.cumsum((weights * (labels <= 0))[order], dtype=float)[ends]
    return _area(positive, negative)


def _area(positive: np.ndarray, negative: np.ndarray) -> float | None:
    """Return the AUC of weights summed up to each distinct score, rising."""
    if positive[-1] == 0 or negative[-1] == 0:
        return None
    below = np.concatenate([[0.0], negative[:-1]])
    wins = np.diff(positive, prepend=0) * (below + negative) / 2
    return float(wins.sum() / (positive[-1] * negative[-1]))


def normalized_entropy(loss: float, mean_label: float) -> float | None:
    """Return a log loss as a share of that of the mean label, the best constant; None if all labels are the same.

    >>> normalized_entropy(0.6, 0.5)
    0.8656170245333781
    """
    if not 0 < mean_label < 1:
        return None
    return float(loss / -(mean_label * np.log(mean_label) + (1 - mean_label) * np.log(1 - mean_label)))


def check_metric(metric: str | None, loss: Loss) -> str:
    """Return the metric to choose epochs by: that of the loss unless given.

    >>> from rafm.losses import LOG_LOSS
    >>> check_metric("rmse", LOG_LOSS)
    Traceback (most recent call last):
    rafm.errors.ConfigError: metric must be log_loss, auc or normalized_entropy for binary labels, found 'rmse'
    """
    *others, last = METRICS[loss.task]
    if metric is None:
        return loss.metric
    if metric not in METRICS[loss.task]:
        kind = "binary labels" if loss.task == "binary" else "regression"
        raise ConfigError(f"metric must be {', '.join(others)} or {last} for {kind}, found {metric!r}", key="metric")
    return metric


def is_better(metric: str, value: float | None, best: float | None) -> bool:
    """Tell whether a value is better than the best so far; an undefined one never is."""
    if value is None or best is None:
        return value is not None
    return value > best if metric in RISING else value < best


def evaluate(
    loss: Loss, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray, metric: str | None = None
) -> dict[str, float | None]:
    """Return the usual metrics of a task, and another one if asked for."""
    if loss.code == kernels.LOGISTIC:
        mean = log_loss(labels, scores, weights)
        found = {"log_loss": mean, "auc": auc(labels, scores, weights)}
        if metric == "normalized_entropy":
            found[metric] = normalized_entropy(mean, float(np.average(labels, weights=weights)))
        return found
    errors = scores.astype(float) - labels
    return {
        "rmse": float(np.sqrt(np.average(errors**2, weights=weights))),
        "mae": float(np.average(np.abs(errors), weights=weights)),
    }


class Ranking:
    """Rows by score, in bounded memory: per distinct score the weight of each label and the sum of predictions.

    Once there are more than `limit` (at least 2) distinct scores, neighbours that differ in their last bits are merged.
    Columns are positive weight, negative weight, label and prediction, the last two times their weight.
    """

    def __init__(self, limit: int = 1 << 20):
        self.limit, self.merged_bits = limit, 0
        self.keys, self.columns = np.zeros(0, np.int64), np.zeros((0, 4))
        self.waiting: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray, predictions: np.ndarray) -> None:
        """Take rows in."""
        columns = (labels > 0, labels <= 0, labels, predictions)
        self.waiting.append((_sortable(scores) >> self.merged_bits, np.stack(columns, axis=1) * weights[:, None]))
        if sum(keys.size for keys, _ in self.waiting) > self.limit:
            self._merge()

    def _merge(self) -> None:
        keys, columns = zip((self.keys, self.columns), *self.waiting)
        self._group(np.concatenate(keys), np.concatenate(columns))
        self.waiting = []
        while self.keys.size > self.limit:
            self.merged_bits += 1
            self._group(self.keys >> 1, self.columns)

    def _group(self, keys: np.ndarray, columns: np.ndarray) -> None:
        self.keys, places = np.unique(keys, return_inverse=True)
        sums = [np.bincount(places, column, self.keys.size) for column in columns.T]
        self.columns = np.stack(sums, axis=1)

    def auc(self) -> float | None:
        """Return the share of pairs in the right order; merged scores count as ties."""
        self._merge()
        positive, negative = np.cumsum(self.columns[:, :2], axis=0).T
        return _area(positive, negative)

    def reliability(self) -> list[dict[str, float]]:
        """Return the mean prediction and the mean label of up to 10 bins of equal weight, by rising prediction."""
        self._merge()
        weights = self.columns[:, 0] + self.columns[:, 1]
        middles = np.cumsum(weights) - weights / 2
        bins = np.minimum((BINS * middles / weights.sum()).astype(int), BINS - 1)
        masses, labels, predictions = (
            np.bincount(bins, column, BINS) for column in (weights, self.columns[:, 2], self.columns[:, 3])
        )
        return [
            {"weight": float(mass), "mean_prediction": float(p / mass), "mean_label": float(y / mass)}
            for mass, y, p in zip(masses, labels, predictions)
            if mass > 0
        ]


def _sortable(scores: np.ndarray) -> np.ndarray:
    """Return whole numbers in the order of float32 scores, equal for equal ones.

    >>> np.argsort(_sortable(np.array([0.5, -2, -0.0, 3, -1], np.float32)))
    array([1, 4, 2, 0, 3])
    """
    bits = (scores.astype(np.float32) + np.float32(0)).view(np.int32).astype(np.int64)  # -0 becomes 0
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


class Tally:
    """Adds rows up, batch by batch in bounded memory, to all that `rafm evaluate` tells of them."""

    def __init__(self, loss: Loss):
        self.loss, self.rows, self.ranking = loss, 0, Ranking()
        self.sums = np.zeros(5)  # weight, label, prediction, loss, absolute error

    def add(self, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> None:
        """Take rows in."""
        labels, weights = labels.astype(float), weights.astype(float)
        predictions = self.loss.predict(scores.astype(float))
        if self.loss.code == kernels.LOGISTIC:
            losses = log_losses(labels, scores)
            self.ranking.add(labels, scores, weights, predictions)
        else:
            losses = (predictions - labels) ** 2
        columns = (np.ones(labels.size), labels, predictions, losses, np.abs(predictions - labels))
        self.rows += labels.size
        self.sums += [weights @ column for column in columns]

    def report(self) -> dict[str, Any]:
        """Return the figures by name; with no rows of any weight there are none."""
        if not self.sums[0] > 0:
            return {"rows": self.rows}
        label, prediction, loss, error = (self.sums[1:] / self.sums[0]).tolist()
        means = {"mean_label": label, "mean_prediction": prediction}
        if self.loss.code != kernels.LOGISTIC:
            return {"rows": self.rows, "rmse": float(np.sqrt(loss)), "mae": error, **means}
        table = self.ranking.reliability()
        gaps = sum(line["weight"] * abs(line["mean_prediction"] - line["mean_label"]) for line in table)
        return {
            "rows": self.rows,
            "log_loss": loss,
            "auc": self.ranking.auc(),
            "normalized_entropy": normalized_entropy(loss, label),
            **means,
            "calibration_error": float(gaps / self.sums[0]),
            "reliability": table,
        }
