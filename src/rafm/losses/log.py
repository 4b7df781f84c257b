"""Log loss for binary classification: labels between 0 and 1, predictions are probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .loss import Loss

ZERO, ONE = np.float32(0), np.float32(1)


@dataclass(frozen=True)
class Log(Loss):
    """max(score, 0) - score * label + log(1 + exp(-|score|)), with prediction 1 / (1 + exp(-score))."""

    name = "log"
    task = "binary"
    labels = "binary labels"
    metrics = ("log_loss", "auc", "normalized_entropy")
    learning_rate = 0.2
    l2 = 5e-3
    dependent_weight = 0.5
    link_name = "sigmoid"
    uses_exp = True
    is_classification = True

    @staticmethod
    def link(score: Any, exp_neg_abs: Any) -> Any:
        """Return the probability."""
        return (ONE if score >= 0 else exp_neg_abs) / (ONE + exp_neg_abs)  # exp of a negative number never overflows

    @staticmethod
    def slope(score: Any, prediction: Any, label: Any, shape: Any) -> Any:
        """Return the error of the probability."""
        return prediction - label

    @staticmethod
    def value(score: Any, label: Any, exp_neg_abs: Any, log_1p: Any, shape: Any) -> Any:
        """Return the log loss, accurate for scores of any magnitude."""
        return max(score, ZERO) - score * label + log_1p

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Return probabilities.

        >>> LOSS.predict(np.array([-1e4, 0.0, 1e4]))
        array([0. , 0.5, 1. ])
        """
        small = np.exp(-np.abs(scores))
        return np.where(scores >= 0, 1.0, small) / (1 + small)

    def prior(self, mean: float, total: float) -> float:
        """Return the log odds of the mean; with a single class, count half a row of the other one.

        >>> round(LOSS.prior(mean=0.2, total=1000), 3)
        -1.386
        """
        margin = 0.5 / max(total, 1.0)  # keeps the log odds finite
        mean = min(max(mean, margin), 1 - margin)
        return float(np.log(mean / (1 - mean)))

    def baseline(self, mean: float, spread: float) -> float:
        """Return the entropy of the mean."""
        kept = min(max(mean, 1e-12), 1 - 1e-12)  # 0 log 0 is 0
        return float(-mean * np.log(kept) - (1 - mean) * np.log(1 - kept))

    def wrong_labels(self, low: float, high: float) -> str | None:
        """Reject labels outside [0, 1]."""
        if 0 <= low <= high <= 1:
            return None
        return f"binary labels must be between 0 and 1, found {low:g} to {high:g}"


LOSS = Log()
