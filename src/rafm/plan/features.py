"""Assign every feature its level, number and value scale."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..families import family_of
from ..rows.fields import Fields
from ..rows.numbering import Numbering
from ..rows.stats import RowStats
from .fields import FeatureFields, plan_fields
from .ranks import LevelRule, RankPlan, plan_ranks

LARGE_VALUE = 2.0  # a feature whose RMS value exceeds this is scaled down in training
SMALL_VALUE = 0.5  # all features are scaled up if the RMS of all values is below this


class PlannedFeatures(NamedTuple):
    """The features of a model: rank plan, ids, and counts in the order of their numbers.

    Training divides the values of feature i by value_scales[i]. fields: of the features, if they are known.
    """

    plan: RankPlan
    numbering: Numbering
    counts: np.ndarray
    value_scales: np.ndarray
    fields: FeatureFields | None = None

    def arranged(self, order: np.ndarray) -> PlannedFeatures:
        """Reorder the features; the order must keep every feature within its level."""
        numbering = Numbering(self.numbering.ids[order], self.numbering.n_inputs)
        fields = None if self.fields is None else self.fields.ordered(order)
        return PlannedFeatures(self.plan, numbering, self.counts[order], self.value_scales[order], fields)


def plan_features(
    found: RowStats,
    n_features: int,
    family: str,
    ranks: tuple[int, ...],
    rule: LevelRule | np.ndarray,
    fields: Fields | None = None,
) -> PlannedFeatures:
    """Assign a level and a number to every feature that occurs."""
    plan, order = plan_ranks(family, ranks, found.counts, rule_for(found.ids, n_features, rule))
    ids, counts = found.ids[order], found.counts[order]
    is_scaled = family_of(family).is_homogeneous
    scales = value_scales(counts, found.squares[order]) if is_scaled else np.ones(order.size, np.float32)
    return PlannedFeatures(plan, Numbering(ids, n_features), counts, scales, plan_fields(fields, ids))


def scaled_by_field(features: PlannedFeatures, found: RowStats) -> PlannedFeatures:
    """Return the features with one scale for all of a field, near the RMS of its values, which keep their proportions.

    If fields are not known, features with large values keep scales of their own.
    """
    if features.fields is None:
        return features
    numbers, own = features.fields.numbers, np.searchsorted(found.ids, features.numbering.ids)
    count, squares = (np.bincount(numbers, given[own]) for given in (found.counts, found.squares))
    return features._replace(value_scales=power_of_2(root_mean_squares(count, squares))[numbers])


def weigh_fields(features: PlannedFeatures, is_on: bool) -> PlannedFeatures:
    """Return the features with a plan that has a weight per field, or none."""
    if not is_on or features.fields is None:
        return features
    return features._replace(plan=replace(features.plan, n_field_weights=features.fields.n_fields))


def per_field(features: PlannedFeatures) -> PlannedFeatures:
    """Return the features with a plan that has a vector per field."""
    n_fields = 0 if features.fields is None else features.fields.n_fields
    return features._replace(plan=replace(features.plan, n_field_vectors=max(n_fields, 1)))


def rule_for(ids: np.ndarray, n_features: int, rule: LevelRule | np.ndarray) -> LevelRule | np.ndarray:
    """Return the level rule for these ids; an array of levels for all features is indexed by id."""
    return np.asarray(rule)[ids] if not callable(rule) and np.shape(rule) == (n_features,) else rule


def value_scales(counts: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the power of 2 by which to divide the values of each feature.

    Features with large values get a scale of their own, near their RMS. All others share one: 1, or about the RMS of
    all values if that is small, so that the values within a row keep their proportions.

    >>> value_scales(np.array([3, 1]), np.array([3.0, 10_000.0]))
    array([  1., 128.], dtype=float32)
    >>> value_scales(np.array([2, 2]), np.array([0.02, 0.04]))
    array([0.125, 0.125], dtype=float32)
    """
    size = root_mean_squares(counts, squares)
    small = size <= LARGE_VALUE
    return scales_of(size, common_scale(squares[small].sum(), counts[small].sum()))


def root_mean_squares(counts: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the RMS value of each feature."""
    return np.sqrt(squares / np.maximum(counts, 1))


def common_scale(squares: float, count: int) -> float:
    """Return the scale of all features without large values, from the sum of their squared values and their number."""
    usual = np.sqrt(squares / max(count, 1))
    return float(power_of_2(usual)) if usual < SMALL_VALUE else 1.0


def scales_of(size: np.ndarray, common: float) -> np.ndarray:
    """Return the scale of each feature, given their RMS values and the common scale."""
    large = size > LARGE_VALUE
    return np.where(large, power_of_2(size), common).astype(np.float32)


def power_of_2(size: np.ndarray) -> np.ndarray:
    """Return the nearest power of 2 of each size, by which values can be divided and multiplied exactly; 1 for 0."""
    return (2.0 ** np.round(np.log2(np.where(size > 0, size, 1.0)))).astype(np.float32)
