"""NDCG@20 of recommendations: rows are contexts, scores their values."""

from __future__ import annotations

import numpy as np

from .metric import Mean, ScoredRows


class Ndcg(Mean):
    """Mean over contexts of the NDCG of the 20 best items, see top_items.py."""

    heading = "ndcg@20"
    is_rising = True

    def of_rows(self, rows: ScoredRows) -> np.ndarray:
        return rows.scores.astype(float)
