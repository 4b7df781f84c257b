"""Log loss: the mean of -log(probability of the label)."""

from __future__ import annotations

import numpy as np

from .metric import Mean, ScoredRows


def log_losses(labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the log loss of each score (log odds); accurate for scores of any magnitude."""
    scores = scores.astype(float)
    return np.maximum(scores, 0) - scores * labels + np.log1p(np.exp(-np.abs(scores)))


class LogLoss(Mean):
    """Mean log loss, computed from scores because probabilities may round to 0 or 1."""

    heading = "loss"

    def of_rows(self, rows: ScoredRows) -> np.ndarray:
        return log_losses(rows.labels, rows.scores)
