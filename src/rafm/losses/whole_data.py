"""Squared loss over all pairs of a context and an item, for implicit data: rows are what people chose.

Pairs without a row count as 0 with a low weight; none of them is visited, see train/whole_data/engine.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from .loss import Loss
from .squared import Squared


@dataclass(frozen=True)
class WholeData(Loss):
    """(1 - score)^2 for each pair of a context and an item that rows show, and a score^2 for every pair.

    Parameters
    ----------
    unseen : float, default=20.0
        Weight of all pairs together, in relation to those that rows show; a is the same for all.
    penalty_power : float, default=1.0
        The L2 penalty of a feature is multiplied by the weight of all pairs that have it to this power.
    """

    unseen: float = 20.0
    penalty_power: float = 1.0

    name = "whole-data"
    task = "ranking"
    labels = "ranking by whole-data"
    metrics = ("ndcg", "recall")
    learning_rate = 1.0  # it has no steps
    l2 = 3e-3
    dependent_weight = 1.0
    default_ranks = (128,)
    link, slope, value = staticmethod(Squared.link), staticmethod(Squared.slope), staticmethod(Squared.value)

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (isinstance(value, int | float) and math.isfinite(value) and value >= 0):
                raise ConfigError(f"{name} must be a number of at least 0, found {value!r}", key="loss")
        if not self.unseen > 0:
            raise ConfigError("unseen must be above 0: without unseen pairs, a constant is best", key="loss")

    def weight_of_pair(self, weight: float, n_seen: int, n_pairs: float) -> float:
        """Return a: at most the mean weight of the pairs that rows show.

        >>> WholeData().weight_of_pair(2000.0, 1000, 1e6), WholeData().weight_of_pair(2000.0, 1000, 5000)
        (0.04, 2.0)
        """
        return weight / n_seen * min(self.unseen * n_seen / n_pairs, 1.0)

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Return the scores."""
        return scores

    def prior(self, mean: float, total: float) -> float:
        """Return 0: a constant ranks nothing."""
        return 0.0

    def baseline(self, mean: float, spread: float) -> float:
        """Return the loss of scores of 0."""
        return 1.0


LOSS = WholeData()
