"""Base class of model families: what a feature has, how rows are scored and trained, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import ConfigError

if TYPE_CHECKING:
    import numpy as np

    from ..kernels.tables import Rows
    from ..model.model import Model
    from ..options import Options
    from ..plan.layout import RecordLayout
    from ..plan.ranks import RankPlan
    from ..train.steps.engine import Engine

LINEAR_OPTIONS = frozenset({"l2_weights", "l1_weights"})
VECTOR_OPTIONS = LINEAR_OPTIONS | {"l2", "l1", "init_scale"}
PAIR_OPTIONS = VECTOR_OPTIONS | {"field_weights"}  # of inner products of vectors
LEVEL_OPTIONS = PAIR_OPTIONS | {"rank_scale", "levels"}
OPTIONS = LEVEL_OPTIONS | {"update", "dependent_weight"}  # those that not all families use


def refusals(what: str, why: str) -> Mapping[str, str]:
    """Return a reason, or what to do instead, for each of several things, which are separated by commas."""
    return dict.fromkeys(what.split(", "), why)


class Family:
    """A family of models. Its score is the bias, linear terms and pairs of vectors, unless a subclass says otherwise.

    A feature of level k has the first k of the ranks. Training scales labels and values if scores scale with them: bias
    and weights in proportion, vectors by the root of the scale of labels.
    """

    name: str  # in options and files
    default_ranks: tuple[int, ...] = (8, 32, 128)
    max_ranks: int | None = None  # unlimited by default
    tuned_rank = 5  # logarithm to base 2 of the highest first rank that tuning tries
    levels_by_count = False  # whether the level of a feature depends on its count; otherwise it has all ranks
    nested = False  # whether each level has a vector of its own, of which the lower ones depend on the top one
    is_prefix = False  # whether each level extends one vector; a pair uses the common prefix
    has_field_vectors = False  # whether a feature has a vector for each field that a partner can have
    rank_arrays: tuple[str, ...] = ()  # names of further parameters, of which a feature has one per rank
    features_per_row: int | None = None  # exact number; any by default
    sums_pairs = True  # whether the term of a pair does not depend on the other features of the row
    is_homogeneous = True  # whether scores scale with labels and values
    options = PAIR_OPTIONS  # those of OPTIONS that it uses
    optimizers: tuple[str, ...] | None = None  # that can train it; all by default
    has_team = True  # whether several threads can train it
    cannot: Mapping[str, str] = {}  # what it cannot do, and why or what to do instead

    @property
    def unused(self) -> frozenset[str]:
        """Names of options that have no effect."""
        return OPTIONS - self.options

    def can(self, what: str) -> bool:
        """Return whether it can do something."""
        return what not in self.cannot

    def check(self, what: str, key: str = "model") -> None:
        """Refuse what it cannot do; key: the option to name."""
        if what in self.cannot:
            raise ConfigError(f"model {self.name!r} cannot {what}: {self.cannot[what]}", key=key)

    def block_ranks(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Return the number of factors that each level adds to a feature."""
        if not self.is_prefix:
            return tuple(ranks)
        return tuple(rank - below for rank, below in zip(ranks, (0, *ranks)))  # zip drops the last of the lower ranks

    def scores_pairs_of(self, n_known: int) -> bool:
        """Return whether a row with this number of known features has pair terms."""
        return self.features_per_row in (None, n_known)

    def layout(self, plan: RankPlan, with_states: bool, n_slots: int = 0) -> RecordLayout:
        """Return the layout of a plan's records."""
        from ..plan.layout import RecordLayout

        return RecordLayout(plan, with_states, n_slots)

    def engine(self, recipe: Options, is_wide: bool) -> Callable[..., Engine]:
        """Return the class that trains a recipe, by wide steps or by small mini-batches."""
        if is_wide:  # kernels are prepared only if they are used
            from ..train.steps.wide_engine import WideEngine

            return WideEngine
        if recipe.loss.is_pairwise:
            from ..train.steps.pair_engine import PairEngine

            return PairEngine
        from ..train.steps.record_engine import RecordEngine

        return RecordEngine

    def scores(self, model: Model, rows: Rows, level: int | None = None) -> np.ndarray:
        """Return the scores of rows of feature numbers; with a level p, B_{1,p}."""
        from ..model.scores import score_model

        return score_model(model, rows, level)

    def pair_products(self, model: Model, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return what each pair of features adds to a score when both values are 1, in float64.

        left, right: feature numbers, ascending, so that the features of a level or higher come first.
        """
        from ..model.pairs import products_of_vectors

        return products_of_vectors(model, left, right)
