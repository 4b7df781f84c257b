"""Mean absolute error."""

from __future__ import annotations

import numpy as np

from .metric import Mean, ScoredRows


class Mae(Mean):
    """Mean absolute error of predictions."""

    heading = "mae"

    def of_rows(self, rows: ScoredRows) -> np.ndarray:
        return np.abs(rows.predictions - rows.labels)
