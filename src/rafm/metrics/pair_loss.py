"""Mean pairwise loss: scores are differences between a row and the same row with another item."""

from __future__ import annotations

import numpy as np

from .log_loss import log_losses
from .metric import Mean, ScoredRows


class PairLoss(Mean):
    """Mean of -log sigma(difference)."""

    heading = "pair loss"

    def of_rows(self, rows: ScoredRows) -> np.ndarray:
        return log_losses(np.ones(rows.scores.size), rows.scores)
