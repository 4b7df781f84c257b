"""How good predictions are: log loss, AUC, RMSE, MAE."""

from __future__ import annotations

import numpy as np

from . import kernels
from .losses import Loss


def log_loss(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean log loss of scores before the link; exact for scores of any size.

    >>> round(log_loss(np.array([1.0, 0.0]), np.array([0.0, -1000.0]), np.ones(2)), 6)
    0.346574
    """
    scores = scores.astype(float)
    losses = np.maximum(scores, 0) - scores * labels + np.log1p(np.exp(-np.abs(scores)))
    return float(np.average(losses, weights=weights))


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
