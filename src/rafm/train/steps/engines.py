"""Create the engine of a model family."""

from __future__ import annotations

from ...model.parameters import Parameters
from ...options import TrainingOptions
from ...plan.fields import FeatureFields
from ...plan.grouping import Grouping
from ...plan.ranks import RankPlan
from .engine import Engine, RowShape, has_wide_steps
from .mixture_engine import MixtureEngine
from .record_engine import RecordEngine, n_team_threads


def make_engine(
    plan: RankPlan,
    grouping: Grouping,
    shape: RowShape,
    options: TrainingOptions,
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
        return MixtureEngine(plan, grouping, options, bias, label_scale, start)
    if plan.n_field_vectors:
        from .field_aware_engine import FieldAwareEngine  # its kernels are prepared only if they are used

        return FieldAwareEngine(plan, grouping, shape, options, bias, label_scale, start, fields)
    if grouping.step_rows:
        from .wide_engine import WideEngine  # its kernels are prepared only if they are used

        return WideEngine(plan, grouping, shape, options, bias, label_scale, start, fields)
    if options.loss.is_pairwise:
        from .pair_engine import PairEngine

        return PairEngine(plan, grouping, shape, options, bias, label_scale, start, fields)
    return RecordEngine(plan, grouping, shape, options, bias, label_scale, start, fields)


def threads_used(options: TrainingOptions, n_rows: int = 0) -> int:
    """Return how many of the threads asked for can train this family.

    >>> from rafm.options import resolve
    >>> [threads_used(resolve(task="binary", threads=8, model=model)) for model in ("rafm", "mrma")]
    [2, 1]
    >>> threads_used(resolve(task="binary", threads=8), 5_000_000)
    8
    """
    if options.optimizer.is_sampler:
        from ...plan.design import MAX_PARTS  # only if it is used

        return min(options.threads, MAX_PARTS)
    return 1 if options.family.has_mixture else n_team_threads(options, has_wide_steps(options, n_rows))
