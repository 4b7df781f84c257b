"""Mean Huber loss."""

from __future__ import annotations

import numpy as np

from .metric import Mean, ScoredRows


class HuberLoss(Mean):
    """Mean Huber loss: e^2 / 2 for errors up to the loss's delta, delta (|e| - delta / 2) above."""

    heading = "huber"

    def of_rows(self, rows: ScoredRows) -> np.ndarray:
        errors, delta = rows.predictions - rows.labels, self.loss.shape()
        cut = np.clip(errors, -delta, delta)
        return cut * (errors - cut / 2)
