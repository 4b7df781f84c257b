"""Poisson deviance of expected counts."""

from __future__ import annotations

import numpy as np

from .metric import Mean, ScoredRows


class PoissonDeviance(Mean):
    """Mean of 2 (prediction - label + label log(label / prediction)); scores are log(prediction)."""

    heading = "deviance"

    def of_rows(self, rows: ScoredRows) -> np.ndarray:
        labels = rows.labels.astype(float)
        logs = np.log(np.where(labels > 0, labels, 1.0)) - rows.scores  # label log(label) is 0 for label 0
        return 2 * (rows.predictions - labels + labels * logs)
