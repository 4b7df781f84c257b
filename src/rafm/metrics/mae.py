"""Mean absolute error."""

from __future__ import annotations

import numpy as np

from .metric import Judged, Mean


class Mae(Mean):
    """Mean absolute error of predictions."""

    heading = "mae"

    def of_rows(self, rows: Judged) -> np.ndarray:
        return np.abs(rows.predictions - rows.labels)
