"""Choose ranks by counts under a budget, where measuring them is not possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...errors import ConfigError
from ...plan.ranks import NearestRank, plan_ranks
from ...rows.stats import RowStats
from ..recipe import Recipe

SCALES = tuple(2.0 ** (k / 4) for k in range(32, -60, -1))  # of the rank rule, the most generous first
SHRINKS = (1, 2, 4, 8)  # divisors of the ranks
HEADER_BYTES, FEATURE_BYTES, PARAMETER_BYTES = 1 << 15, 16, 4  # of a model file: at most, per feature, per parameter


def ranks_within(found: RowStats, recipe: Recipe, n_field_weights: int = 0, reserved_bytes: int = 0) -> Recipe:
    """Return the recipe with the most generous rank rule that stays within the budget.

    The ranks are those of the recipe, or half, a quarter or an eighth of them if the lowest is too large.
    """
    recipe = replace(recipe, measured=False)
    limits = [] if recipe.max_parameters is None else [recipe.max_parameters]
    if recipe.max_bytes is not None:
        other = reserved_bytes + HEADER_BYTES + FEATURE_BYTES * found.ids.size
        limits.append((recipe.max_bytes - other) // PARAMETER_BYTES)
    if not limits:
        return recipe
    for shrink in SHRINKS:
        ranks = tuple(max(rank // shrink, 1) for rank in recipe.ranks)
        for scale in SCALES:
            plan, _ = plan_ranks(recipe.model, ranks, found.counts, NearestRank(scale))
            if plan.n_parameters + n_field_weights <= min(limits):
                return replace(recipe, ranks=ranks, rank_scale=scale)
    name = "max_bytes" if recipe.max_parameters is None else "max_parameters"
    raise ConfigError(f"{name} is too small for {np.size(found.ids)} features with vectors of rank 1", key=name)
