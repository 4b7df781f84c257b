"""Root mean squared error."""

from __future__ import annotations

import numpy as np

from .metric import Mean, ScoredRows


class Rmse(Mean):
    """Root of the mean squared error of predictions."""

    heading = "rmse"

    def of_rows(self, rows: ScoredRows) -> np.ndarray:
        return (rows.predictions - rows.labels) ** 2

    def finish(self, mean: float) -> float:
        return float(np.sqrt(mean))
