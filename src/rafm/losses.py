"""Losses: their names, links and what to report. Slopes are in kernels.py, beside the loops that use them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import ConfigError
from .kernels import records as kernels


@dataclass(frozen=True)
class Loss:
    """What a task needs to know of its loss."""

    task: str
    code: int
    metric: str  # what `report` returns
    learning_rate: float  # this and the next two: used unless given
    l2: float
    dependent_weight: float  # by the joint rule

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Turn scores into predictions: probabilities for the log loss.

        >>> LOG_LOSS.predict(np.array([-1e4, 0.0, 1e4]))
        array([0. , 0.5, 1. ])
        """
        if self.code == kernels.SQUARED:
            return scores
        small = np.exp(-np.abs(scores))
        return np.where(scores >= 0, 1.0, small) / (1 + small)

    def prior(self, mean: float, total: float) -> float:
        """Return the best constant score for labels of this mean and total weight.

        For a single class it is that of half a row of the other one.

        >>> round(LOG_LOSS.prior(mean=0.2, total=1000), 3)
        -1.386
        """
        if self.code == kernels.SQUARED:
            return mean
        margin = 0.5 / max(total, 1.0)
        mean = min(max(mean, margin), 1 - margin)
        return float(np.log(mean / (1 - mean)))

    def baseline(self, mean: float, spread: float) -> float:
        """Return the metric that the best constant has on labels of this mean and spread."""
        if self.code == kernels.SQUARED:
            return spread
        kept = min(max(mean, 1e-12), 1 - 1e-12)
        return float(-mean * np.log(kept) - (1 - mean) * np.log(1 - kept))

    def report(self, mean_loss: float) -> float:
        """Turn the mean of the kernels' loss into the metric: log loss as it is, half squared error to RMSE."""
        return float(np.sqrt(2 * mean_loss)) if self.code == kernels.SQUARED else float(mean_loss)


LOG_LOSS = Loss("binary", kernels.LOGISTIC, "log_loss", learning_rate=0.2, l2=5e-3, dependent_weight=0.5)
SQUARED_LOSS = Loss("regression", kernels.SQUARED, "rmse", learning_rate=0.1, l2=0.1, dependent_weight=3.0)
LOSSES = {loss.task: loss for loss in (LOG_LOSS, SQUARED_LOSS)}


def loss_for(task: str) -> Loss:
    """Return the loss of a task.

    >>> loss_for("regresion")
    Traceback (most recent call last):
    rafm.errors.ConfigError: task must be binary or regression, found 'regresion'
    """
    if task not in LOSSES:
        raise ConfigError(f"task must be {' or '.join(LOSSES)}, found {task!r}", key="task")
    return LOSSES[task]
