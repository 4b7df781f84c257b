"""Huber's loss: squared for small errors, linear for large ones, so that outliers pull less."""

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
        The largest error, in the units of the labels, that counts by its square.
    """

    delta: float = 1.0

    name = "huber"
    task = "regression"
    labels = "regression"
    metrics = ("huber_loss", "mae", "rmse")
    learning_rate = 0.1
    l2 = 0.1
    dependent_weight = 3.0
    scales_labels = True

    def __post_init__(self) -> None:
        if not (isinstance(self.delta, int | float) and math.isfinite(self.delta) and self.delta > 0):
            raise ConfigError(f"delta must be a positive number, found {self.delta!r}", key="loss")

    def shape(self, label_scale: float = 1.0) -> float:
        """Return delta in the units of scaled labels."""
        return self.delta / label_scale

    @staticmethod
    def link(score: Any, exp_neg_abs: Any) -> Any:
        """Return the score."""
        return score

    @staticmethod
    def slope(score: Any, prediction: Any, label: Any, shape: Any) -> Any:
        """Return the error, cut to at most delta either way."""
        return max(min(prediction - label, shape), -shape)

    @staticmethod
    def value(score: Any, label: Any, exp_neg_abs: Any, log_1p: Any, shape: Any) -> Any:
        """Return the loss; with the error cut to c it is c (e - c / 2)."""
        error = score - label
        cut = max(min(error, shape), -shape)
        return cut * (error - HALF * cut)

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores."""
        return scores

    def prior(self, mean: float, total: float) -> float:
        """Return the mean, near which the best constant lies."""
        return mean

    def baseline(self, mean: float, spread: float) -> float:
        """Return half the variance, which is no less than the loss of the mean."""
        return spread**2 / 2

    def report(self, mean_loss: float, label_scale: float = 1.0) -> float:
        """Return the mean loss in the units of the labels."""
        return float(mean_loss) * label_scale**2


LOSS = Huber()
