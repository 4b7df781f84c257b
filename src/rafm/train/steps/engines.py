"""Create the engine of a model family."""

from __future__ import annotations

from ...model.parameters import Parameters
from ...options import Options
from ...plan.fields import FeatureFields
from ...plan.grouping import Grouping
from ...plan.ranks import RankPlan
from ..recipe import Recipe
from .engine import Engine, RowShape, has_wide_steps
from .mixture_engine import MixtureEngine
from .record_engine import RecordEngine, n_team_threads


def make_engine(
    plan: RankPlan,
    grouping: Grouping,
    shape: RowShape,
    recipe: Recipe,
    bias: float,
    label_scale: float = 1.0,
    start: Parameters | None = None,
    fields: FeatureFields | None = None,
) -> Engine:
    """Return the engine of the plan's family, for features in the order of the grouping.

    Its parameters are random, or those of `start`, which must have optimiser states. fields: those of the features, in
    the same order, if they have weights.
    """
    if plan.traits.has_mixture:
        return MixtureEngine(plan, grouping, recipe, bias, label_scale, start)
    if plan.n_field_vectors:
        from .field_aware_engine import FieldAwareEngine  # its kernels are prepared only if they are used

        return FieldAwareEngine(plan, grouping, shape, recipe, bias, label_scale, start, fields)
    if grouping.step_rows:
        from .wide_engine import WideEngine  # its kernels are prepared only if they are used

        return WideEngine(plan, grouping, shape, recipe, bias, label_scale, start, fields)
    if recipe.loss.is_pairwise:
        from .pair_engine import PairEngine

        return PairEngine(plan, grouping, shape, recipe, bias, label_scale, start, fields)
    return RecordEngine(plan, grouping, shape, recipe, bias, label_scale, start, fields)


def threads_used(recipe: Options, n_rows: int = 0) -> int:
    """Return how many of the threads asked for can train this family.

    >>> from rafm.options import resolve
    >>> [threads_used(resolve(task="binary", threads=8, model=model)) for model in ("rafm", "mrma")]
    [2, 1]
    >>> threads_used(resolve(task="binary", threads=8), 5_000_000)
    8
    """
    if recipe.optimizer.is_sampler:
        from ...plan.design import MAX_PARTS  # only if it is used

        return min(recipe.threads, MAX_PARTS)
    if not recipe.optimizer.has_steps:
        return recipe.threads
    return 1 if recipe.family.has_mixture else n_team_threads(recipe, has_wide_steps(recipe, n_rows))
