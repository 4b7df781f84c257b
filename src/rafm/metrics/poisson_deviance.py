"""Poisson deviance of expected counts."""

from __future__ import annotations

import numpy as np

from .metric import Judged, Mean


class PoissonDeviance(Mean):
    """Mean of 2 (prediction - label + label log(label / prediction)), from scores log(prediction)."""

    heading = "deviance"

    def of_rows(self, rows: Judged) -> np.ndarray:
        labels = rows.labels.astype(float)
        logs = np.log(np.where(labels > 0, labels, 1.0)) - rows.scores
        return 2 * (rows.predictions - labels + labels * logs)
