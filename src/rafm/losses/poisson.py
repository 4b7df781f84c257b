"""Poisson loss for counts: labels of at least 0, predictions are expected counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .loss import Loss

ZERO, ONE = np.float32(0), np.float32(1)


@dataclass(frozen=True)
class Poisson(Loss):
    """prediction - label + label log(label / prediction), with prediction exp(score): half the Poisson deviance."""

    name = "poisson"
    task = "count"
    labels = "counts"
    metrics = ("poisson_deviance", "mae", "rmse")
    learning_rate = 0.1
    l2 = 5e-3
    dependent_weight = 0.5
    link_name = "exp"
    uses_exp = True

    @staticmethod
    def link(score: Any, exp_neg_abs: Any) -> Any:
        """Return exp(score)."""
        return exp_neg_abs if score < 0 else ONE / exp_neg_abs  # kernels provide exp(-|score|) only

    @staticmethod
    def slope(score: Any, prediction: Any, label: Any, shape: Any) -> Any:
        """Return the error of the expected count."""
        return prediction - label

    @staticmethod
    def value(score: Any, label: Any, exp_neg_abs: Any, log_1p: Any, shape: Any) -> Any:
        """Return half the deviance."""
        prediction = exp_neg_abs if score < 0 else ONE / exp_neg_abs
        excess = label * (np.log(label) - score) if label > 0 else ZERO  # the limit of label log(label) at 0
        return prediction - label + excess

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Return expected counts."""
        return np.exp(scores)

    def prior(self, mean: float, total: float) -> float:
        """Return the logarithm of the mean; if all labels are 0, assume half an event in total.

        >>> round(LOSS.prior(mean=2.0, total=1000), 3)
        0.693
        """
        return float(np.log(max(mean, 0.5 / max(total, 1.0))))

    def baseline(self, mean: float, spread: float) -> float:
        """Return Pearson's statistic, which approximates the deviance of the mean."""
        return spread**2 / max(mean, 1e-12)

    def report(self, mean_loss: float, label_scale: float = 1.0) -> float:
        """Return the deviance."""
        return 2 * float(mean_loss)

    def wrong_labels(self, low: float, high: float) -> str | None:
        """Reject negative labels."""
        return None if low >= 0 else f"counts must be at least 0, found {low:g}"


LOSS = Poisson()
