"""Log loss: the mean of -log(probability of the label)."""

from __future__ import annotations

import numpy as np

from .metric import Judged, Mean


def log_losses(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the log loss of each score before the link; exact for scores of any size."""
    scores = scores.astype(float)
    return np.maximum(scores, 0) - scores * labels + np.log1p(np.exp(-np.abs(scores)))


class LogLoss(Mean):
    """Mean log loss of scores before the link."""

    heading = "loss"

    def of_rows(self, rows: Judged) -> np.ndarray:
        return log_losses(rows.labels, rows.scores)
