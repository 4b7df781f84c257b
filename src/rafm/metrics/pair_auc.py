"""Share of pairs in the right order: scores are differences between a row and the same row with another item."""

from __future__ import annotations

import numpy as np

from .metric import Mean, ScoredRows


class PairAuc(Mean):
    """Share of differences above 0; equal scores count half."""

    heading = "pair auc"
    is_rising = True

    def of_rows(self, rows: ScoredRows) -> np.ndarray:
        return (rows.scores > 0) + 0.5 * (rows.scores == 0)
