"""Features of a model: which level, number and scale each gets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..rows.numbering import Numbering
from ..rows.stats import Survey
from .ranks import LevelRule, RankPlan, plan_ranks

LARGE_VALUE = 2.0  # features whose values are larger than this on average are scaled down in training
SMALL_VALUE = 0.5  # and all are scaled up if values are smaller than this on average


class Features(NamedTuple):
    """The features of a model: their plan, their ids, and in the order of their numbers how often each occurs.

    In training their values are divided by value_scales.
    """

    plan: RankPlan
    numbering: Numbering
    counts: np.ndarray
    value_scales: np.ndarray

    def arranged(self, order: np.ndarray) -> Features:
        """Return the features of every level in another order."""
        numbering = Numbering(self.numbering.ids[order], self.numbering.n_inputs)
        return Features(self.plan, numbering, self.counts[order], self.value_scales[order])


def plan_features(
    found: Survey, n_features: int, family: str, ranks: tuple[int, ...], rule: LevelRule | np.ndarray
) -> Features:
    """Give every feature that occurs its level and its number."""
    plan, order = plan_ranks(family, ranks, found.counts, rule_for(found.ids, n_features, rule))
    scales = value_scales(found.counts[order], found.squares[order])
    return Features(plan, Numbering(found.ids[order], n_features), found.counts[order], scales)


def rule_for(ids: np.ndarray, n_features: int, rule: LevelRule | np.ndarray) -> LevelRule | np.ndarray:
    """Return the rule for these features; levels given for all features become those of theirs."""
    return np.asarray(rule)[ids] if not callable(rule) and np.shape(rule) == (n_features,) else rule


def value_scales(counts: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return per feature the power of 2 to divide its values by.

    It is 1, the size of the feature's values if they are large, or the usual size of all values if that is small: one
    number for all, so that the values of a row keep their proportions.

    >>> value_scales(np.array([3, 1]), np.array([3.0, 10_000.0]))
    array([  1., 128.], dtype=float32)
    >>> value_scales(np.array([2, 2]), np.array([0.02, 0.04]))
    array([0.125, 0.125], dtype=float32)
    """
    size = np.sqrt(squares / np.maximum(counts, 1))
    large = size > LARGE_VALUE
    usual = np.sqrt(squares[~large].sum() / max(counts[~large].sum(), 1))
    common = 2.0 ** np.round(np.log2(usual)) if 0 < usual < SMALL_VALUE else 1.0
    return np.where(large, 2.0 ** np.round(np.log2(np.maximum(size, 1))), common).astype(np.float32)
