"""Normalised entropy: the log loss relative to that of predicting the mean label."""

from __future__ import annotations

import numpy as np

from ..losses.loss import Loss
from .log_loss import LogLoss
from .metric import ScoredRows


class NormalizedEntropy(LogLoss):
    """Log loss divided by the entropy of the mean label; undefined if all labels are equal."""

    heading = "ne"

    def __init__(self, loss: Loss):
        super().__init__(loss)
        self.label_total = 0.0

    def add(self, rows: ScoredRows) -> None:
        super().add(rows)
        self.label_total += float((rows.labels * rows.weights).sum())

    def value(self) -> float | None:
        loss = super().value()
        mean = self.label_total / self.weight if self.weight > 0 else 0.0
        if loss is None or not 0 < mean < 1:
            return None
        return float(loss / -(mean * np.log(mean) + (1 - mean) * np.log(1 - mean)))
