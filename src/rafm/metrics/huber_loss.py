"""Mean of Huber's loss."""

from __future__ import annotations

import numpy as np

from .metric import Judged, Mean


class HuberLoss(Mean):
    """Mean of e^2 / 2 for errors up to delta, of delta (|e| - delta / 2) beyond; delta is that of the loss."""

    heading = "huber"

    def of_rows(self, rows: Judged) -> np.ndarray:
        errors, delta = rows.predictions - rows.labels, self.loss.shape()
        cut = np.clip(errors, -delta, delta)
        return cut * (errors - cut / 2)
