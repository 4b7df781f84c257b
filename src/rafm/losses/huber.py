"""Huber loss for regression: squared for small errors, linear for large ones, so that outliers weigh less."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ConfigError
from .loss import Loss

HALF = np.float32(0.5)


@dataclass(frozen=True)
class Huber(Loss):
    """e^2 / 2 for errors e up to delta, delta (|e| - delta / 2) beyond; the score is the prediction.

    Parameters
    ----------
    delta : float, default=1.0
        The largest error, in units of the labels, that is squared.
    """

    delta: float = 1.0

    name = "huber"
    task = "regression"
    labels = "regression"
    metrics = ("huber_loss", "mae", "rmse")
    learning_rate = 0.1
    l2 = 0.1
    dependent_weight = 3.0
    default_ranks = (8, 32)
    scales_labels = True

    def __post_init__(self) -> None:
        if not (isinstance(self.delta, int | float) and math.isfinite(self.delta) and self.delta > 0):
            raise ConfigError(f"delta must be a positive number, found {self.delta!r}", key="loss")

    def shape(self, label_scale: float = 1.0) -> float:
        """Return delta in units of the scaled labels."""
        return self.delta / label_scale

    @staticmethod
    def link(score: Any, exp_neg_abs: Any) -> Any:
        """Return the score."""
        return score

    @staticmethod
    def slope(score: Any, prediction: Any, label: Any, shape: Any) -> Any:
        """Return the error, clipped to [-delta, delta]."""
        return max(min(prediction - label, shape), -shape)

    @staticmethod
    def value(score: Any, label: Any, exp_neg_abs: Any, log_1p: Any, shape: Any) -> Any:
        """Return the loss; with c the clipped error e, it is c (e - c / 2)."""
        error = score - label
        cut = max(min(error, shape), -shape)
        return cut * (error - HALF * cut)

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores."""
        return scores

    def slopes(self, scores: np.ndarray, labels: np.ndarray, label_scale: float = 1.0) -> np.ndarray:
        """Return the clipped errors."""
        shape = self.shape(label_scale)
        return np.clip(scores - labels, -shape, shape)

    def prior(self, mean: float, total: float) -> float:
        """Return the mean, which is close to the best constant."""
        return mean

    def baseline(self, mean: float, spread: float) -> float:
        """Return half the variance, an upper bound of the loss of the mean."""
        return spread**2 / 2

    def report(self, mean_loss: float, label_scale: float = 1.0) -> float:
        """Return the mean loss in units of the labels."""
        return float(mean_loss) * label_scale**2  # both branches of the loss are quadratic in the scale


LOSS = Huber()
