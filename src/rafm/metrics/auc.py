"""Area under the ROC curve."""

from __future__ import annotations

import numpy as np

from ..losses.loss import Loss
from .metric import Metric, ScoredRows
from .ranking import Ranking, area


def auc(labels: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float | None:
    """Return the weighted share of (positive, negative) pairs in the right order; ties count half.

    None if there is a single class.

    >>> auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8]), np.ones(4))
    0.75
    """
    if not scores.size:
        return None
    order = np.argsort(scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]), 1))  # the last row of each run of equal scores
    positive = np.cumsum((weights * (labels > 0))[order], dtype=float)[ends]
    negative = np.cumsum((weights * (labels <= 0))[order], dtype=float)[ends]
    return area(positive, negative)


class Auc(Metric):
    """AUC: exact for a single batch; further batches are ranked in bounded memory."""

    heading = "auc"
    is_rising = True

    def __init__(self, loss: Loss):
        super().__init__(loss)
        self.first: ScoredRows | None = None
        self._ranking: Ranking | None = None

    def add(self, rows: ScoredRows) -> None:
        if self.first is None and self._ranking is None:  # a single batch needs no ranking, and stays exact
            self.first = rows
        else:
            self.ranking.add(rows)

    @property
    def ranking(self) -> Ranking:
        """The ranking of all rows; accessing it switches to bounded memory."""
        self._ranking = self._ranking or Ranking()
        if self.first is not None:
            first, self.first = self.first, None
            self._ranking.add(first)
        return self._ranking

    def value(self) -> float | None:
        if self.first is not None:
            return auc(self.first.labels, self.first.scores, self.first.weights)
        return self._ranking.auc() if self._ranking else None
