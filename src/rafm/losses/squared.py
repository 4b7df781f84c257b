"""Squared loss for regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .loss import Loss

HALF = np.float32(0.5)


@dataclass(frozen=True)
class Squared(Loss):
    """(score - label)^2 / 2; the score is the prediction. Reported as RMSE."""

    name = "squared"
    task = "regression"
    labels = "regression"
    metrics = ("rmse", "mae")
    learning_rate = 0.1
    l2 = 0.1
    dependent_weight = 3.0
    default_ranks = (8, 32)
    scales_labels = True

    @staticmethod
    def link(score: Any, exp_neg_abs: Any) -> Any:
        """Return the score."""
        return score

    @staticmethod
    def slope(score: Any, prediction: Any, label: Any, shape: Any) -> Any:
        """Return the error."""
        return prediction - label

    @staticmethod
    def value(score: Any, label: Any, exp_neg_abs: Any, log_1p: Any, shape: Any) -> Any:
        """Return half the squared error."""
        return HALF * (score - label) * (score - label)

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores."""
        return scores

    def prior(self, mean: float, total: float) -> float:
        """Return the mean."""
        return mean

    def baseline(self, mean: float, spread: float) -> float:
        """Return the RMSE of the mean."""
        return spread

    def report(self, mean_loss: float, label_scale: float = 1.0) -> float:
        """Return the RMSE."""
        return float(np.sqrt(2 * mean_loss)) * label_scale  # the loss is half the squared error


LOSS = Squared()
