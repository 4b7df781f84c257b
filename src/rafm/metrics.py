"""How good predictions are: log loss, AUC, RMSE, MAE."""

from __future__ import annotations

import numpy as np

from . import kernels
from .losses import Loss

MANY = 1 << 20  # rows and distinct scores that are kept as they are
ALL_BITS = 23  # of a float32 after the leading one


def log_loss(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean log loss of scores before the link; exact for scores of any size.

    >>> round(log_loss(np.array([1.0, 0.0]), np.array([0.0, -1000.0]), np.ones(2)), 6)
    0.346574
    """
    return float(np.average(_log_losses(labels, scores), weights=weights))


def _log_losses(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    scores = scores.astype(float)
    return np.maximum(scores, 0) - scores * labels + np.log1p(np.exp(-np.abs(scores)))


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
    """Return the AUC from the weights of both classes up to each score, in rising order."""
    if positive[-1] == 0 or negative[-1] == 0:
        return None
    below = np.concatenate([[0.0], negative[:-1]])
    wins = np.diff(positive, prepend=0) * (below + negative) / 2
    return float(wins.sum() / (positive[-1] * negative[-1]))


def evaluate(loss: Loss, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> dict[str, float | None]:
    """Return the metrics of a task; the first one is what early stopping watches."""
    if loss.code == kernels.LOGISTIC:
        return {"log_loss": log_loss(labels, scores, weights), "auc": auc(labels, scores, weights)}
    errors = scores.astype(float) - labels
    return {
        "rmse": float(np.sqrt(np.average(errors**2, weights=weights))),
        "mae": float(np.average(np.abs(errors), weights=weights)),
    }


class Tally:
    """The metrics of rows that come in pieces, in memory that they do not grow.

    Up to MANY rows they are those of `evaluate`. Beyond, sums are kept, and for the AUC the weights of both classes at
    each distinct score; where there are too many, scores are cut to fewer leading bits, and those that become equal
    count as ties. Cutting twice is cutting once, so neither the order of rows nor the pieces matter.

    >>> from .losses import loss_for
    >>> tally = Tally(loss_for("binary"))
    >>> for label, score in ((0, 0.1), (0, 0.4), (1, 0.35), (1, 0.8)):
    ...     tally.add(np.array([label]), np.array([score]), np.ones(1))
    >>> tally.rows, tally.metrics()["auc"]
    (4, 0.75)
    """

    def __init__(self, loss: Loss):
        self._loss = loss
        self.rows, self.weight, self._sums = 0, 0.0, np.zeros(2)
        self._held: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._n_held, self._bits = 0, ALL_BITS
        self._scores = np.zeros(0, np.float32)
        self._weights = np.zeros((2, 0))  # of negative and positive rows

    def add(self, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> None:
        """Take in rows."""
        self.rows, self.weight = self.rows + labels.size, self.weight + float(weights.sum(dtype=float))
        self._held.append((labels, scores, weights))
        self._n_held += labels.size
        if self._n_held > MANY:
            self._merge()

    def metrics(self) -> dict[str, float | None]:
        """Return the metrics of the task; there must be some weight."""
        if self._n_held == self.rows:
            return evaluate(self._loss, *(np.concatenate(part) for part in zip(*self._held)))
        self._merge()
        means = self._sums / self.weight
        if self._loss.code == kernels.LOGISTIC:
            negative, positive = np.cumsum(self._weights, axis=1)
            return {"log_loss": float(means[0]), "auc": _area(positive, negative)}
        return {"rmse": float(np.sqrt(means[0])), "mae": float(means[1])}

    def _merge(self) -> None:
        """Add what is held to the sums, a piece at a time."""
        for labels, scores, weights in self._held:
            for first in range(0, labels.size, MANY):
                part = slice(first, first + MANY)
                self._sum(labels[part], scores[part], weights[part])
        self._held, self._n_held = [], 0

    def _sum(self, labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> None:
        if self._loss.code != kernels.LOGISTIC:
            errors = scores.astype(float) - labels
            self._sums += np.stack([errors**2, np.abs(errors)]) @ weights
        else:
            self._sums += _log_losses(labels, scores) @ weights
            new = weights * np.stack([labels <= 0, labels > 0])
            scores = np.concatenate([self._scores, scores.astype(np.float32) + 0])  # -0 becomes 0
            self._group(scores, np.concatenate([self._weights, new], axis=1))
            while self._scores.size > MANY:
                self._bits -= 1
                self._group(self._scores, self._weights)

    def _group(self, scores: np.ndarray, weights: np.ndarray) -> None:
        """Cut scores and join the equal ones."""
        mask = np.int32(-1) << np.int32(ALL_BITS - self._bits)
        self._scores, places = np.unique((scores.view(np.int32) & mask).view(np.float32), return_inverse=True)
        self._weights = np.stack([np.bincount(places, own, self._scores.size) for own in weights])
