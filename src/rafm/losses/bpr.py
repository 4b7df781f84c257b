"""Pairwise loss for implicit data (Bayesian personalised ranking): rows are what people chose, predictions are scores.

Each row trains together with one whose item was drawn at random, see train/steps/negatives.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from .log import Log
from .loss import Loss


@dataclass(frozen=True)
class Bpr(Loss):
    """-log sigma(score of the row - score of the same row with another item).

    Parameters
    ----------
    negative_power : float, default=0.5
        The other item is drawn with a probability proportional to its count to this power: 0 draws items uniformly,
        1 by popularity.
    """

    negative_power: float = 0.5

    name = "bpr"
    task = "ranking"
    labels = "ranking"
    metrics = ("pair_loss", "pair_auc")
    learning_rate = 0.2
    l2 = 5e-3
    dependent_weight = 0.5
    uses_exp = True
    is_pairwise = True
    link, slope, value = staticmethod(Log.link), staticmethod(Log.slope), staticmethod(Log.value)

    def __post_init__(self) -> None:
        power = self.negative_power
        if not (isinstance(power, int | float) and math.isfinite(power) and power >= 0):
            raise ConfigError(f"negative_power must be a number of at least 0, found {power!r}", key="loss")

    def negative_chances(self, counts: np.ndarray) -> np.ndarray | None:
        """Return counts to the power."""
        return None if self.negative_power == 0 else counts.astype(float) ** self.negative_power

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores."""
        return scores

    def prior(self, mean: float, total: float) -> float:
        """Return 0: a constant ranks nothing."""
        return 0.0

    def baseline(self, mean: float, spread: float) -> float:
        """Return the loss of equal scores."""
        return float(np.log(2))


LOSS = Bpr()
