"""Counts -> levels -> plan: which rank every feature gets, and what it costs.

With ranks D_1 < ... < D_m, a feature of level k has vectors of ranks D_1 .. D_k; a feature of level 0 has none.
Features are numbered by descending level, then by descending count, so F_k, the set of features of level k or higher,
is 0 .. sizes[k] - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from ..families import family_of
from ..families.family import Family

MAX_RANK = 65_536

LevelRule = Callable[[np.ndarray, Sequence[int]], np.ndarray]


@dataclass(frozen=True)
class NearestRank:
    """Assign the rank nearest to scale * count on a log scale; the paper uses scale 1.

    Parameters
    ----------
    scale : float, default=1.0
        Factor of the count.

    Examples
    --------
    >>> NearestRank()(np.array([1, 10, 20, 5000]), (8, 32, 128))
    array([1, 1, 2, 3])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ConfigError(f"rank_scale must be a positive number, found {self.scale}", key="rank_scale")

    def __call__(self, counts: np.ndarray, ranks: Sequence[int]) -> np.ndarray:
        # The midpoint of two ranks on a log scale is their geometric mean.
        boundaries = np.sqrt(np.multiply(ranks[:-1], ranks[1:], dtype=float)) / self.scale
        return np.searchsorted(boundaries, counts, side="left") + 1


@dataclass(frozen=True)
class Thresholds:
    """Assign level k + 2 to features with a count of at least minimum[k], and level 1 to all others.

    Parameters
    ----------
    minimum : tuple of float
        Ascending counts, one for each rank but the first.

    Examples
    --------
    >>> Thresholds((10, 100))(np.array([3, 10, 500]), (8, 32, 128))
    array([1, 2, 3])
    """

    minimum: tuple[float, ...]

    def __call__(self, counts: np.ndarray, ranks: Sequence[int]) -> np.ndarray:
        wanted, given = len(ranks) - 1, tuple(self.minimum)
        if len(given) != wanted or list(given) != sorted(given):
            raise ConfigError(f"{len(ranks)} ranks need {wanted} ascending thresholds, found {given}", key="levels")
        return np.searchsorted(np.array(given, float), counts, side="right") + 1


@dataclass(frozen=True)
class RankPlan:
    """Family, ranks and sizes of a model; they determine the layout of its parameters.

    sizes[k] is the number of features of level k or higher, for k = 0 .. m; a final 0 follows. n_field_weights: the
    number of fields if they have weights, else 0. n_field_vectors: the number of fields if a feature has a vector for
    each, as in a field-aware model, else 0.

    >>> plan = RankPlan("rafm", ranks=(4, 16), sizes=(100, 100, 10, 0))
    >>> plan.n_parameters  # bias, 100 weights, 100 vectors of rank 4, 10 of rank 16
    661
    """

    family: str
    ranks: tuple[int, ...]
    sizes: tuple[int, ...]
    n_field_weights: int = 0
    n_field_vectors: int = 0

    @property
    def n_levels(self) -> int:
        return len(self.ranks)

    @property
    def n_features(self) -> int:
        return self.sizes[0]

    @property
    def traits(self) -> Family:
        """The family's properties."""
        return family_of(self.family)

    @property
    def nested(self) -> bool:
        """Whether the lower vectors of a feature depend on its top one, as in RaFM."""
        return self.traits.nested

    @property
    def block_ranks(self) -> tuple[int, ...]:
        """Factors that each level adds to a feature: D_k, or D_k - D_{k-1} if a single vector grows, as in DiFacto.

        In a field-aware model, D for every field.
        """
        return tuple(rank * max(self.n_field_vectors, 1) for rank in self.traits.block_ranks(self.ranks))

    @property
    def n_parameters(self) -> int:
        """Number of parameters: bias, weights, active factors, field weights and arrays by rank."""
        factors = sum(rank * size for rank, size in zip(self.block_ranks, self.sizes[1:]))
        others = self.n_field_weights + len(self.traits.rank_arrays) * self.n_features * self.n_levels
        return 1 + self.n_features + factors + others

    def members(self, level: int) -> int:
        """Return the number of features of exactly this level."""
        return self.sizes[level] - self.sizes[level + 1]

    def levels(self) -> np.ndarray:
        """Return the level of every feature, by number."""
        return np.repeat(np.arange(self.n_levels, -1, -1), [self.members(k) for k in range(self.n_levels, -1, -1)])


def check_ranks(family: str, ranks: Iterable[int] | int | None) -> tuple[int, ...]:
    """Validate ranks for a family and return them as a tuple; None means the family's default.

    >>> check_ranks("rafm", [8, 32])
    (8, 32)
    >>> check_ranks("rafm", [8, 4])
    Traceback (most recent call last):
    rafm.errors.ConfigError: ranks must be strictly ascending, found (8, 4). Write them as (4, 8).
    """
    traits = family_of(family)
    if traits.max_ranks == 0:
        return ()
    given = np.atleast_1d(np.asarray(traits.default_ranks if ranks is None else ranks))
    if given.ndim != 1 or (given.size and not np.issubdtype(given.dtype, np.integer)):
        raise ConfigError(f"ranks must be integers, found {ranks!r}", key="ranks")
    found = tuple(int(rank) for rank in given)
    if any(rank < 1 or rank > MAX_RANK for rank in found):
        raise ConfigError(f"ranks must be between 1 and {MAX_RANK}, found {found}", key="ranks")
    ascending = tuple(sorted(set(found)))
    if found != ascending:
        raise ConfigError(f"ranks must be strictly ascending, found {found}. Write them as {ascending}.", key="ranks")
    if traits.max_ranks is not None and len(found) > traits.max_ranks:
        raise ConfigError(
            f"model {family!r} takes one rank, found {found}. Give a single rank, or use model='rafm'.", key="ranks"
        )
    if not found:
        raise ConfigError(
            f"model {family!r} needs at least one rank. Use model='lr' for a model without factors.", key="ranks"
        )
    return found


def assign_levels(counts: np.ndarray, ranks: Sequence[int], rule: LevelRule | np.ndarray) -> np.ndarray:
    """Return the level of every feature, from a rule or an array; validated, because kernels do not check them."""
    levels = np.asarray(rule(counts, ranks) if callable(rule) else rule)
    if levels.shape != counts.shape or not np.issubdtype(levels.dtype, np.integer):
        raise ConfigError(
            f"levels must be {counts.size} integers, one per feature; found shape {levels.shape}, type {levels.dtype}",
            key="levels",
        )
    if levels.size and not 0 <= levels.min() <= levels.max() <= len(ranks):
        raise ConfigError(
            f"levels must be between 0 and {len(ranks)}, the number of ranks; found {levels.min()} to {levels.max()}",
            key="levels",
        )
    return levels


def plan_ranks(
    family: str, ranks: Sequence[int], counts: np.ndarray, rule: LevelRule | np.ndarray
) -> tuple[RankPlan, np.ndarray]:
    """Return the plan, and for each feature number its index in counts.

    Features with a count of 0 get no number.

    >>> plan, order = plan_ranks("rafm", (4, 16), np.array([3, 0, 50, 5]), NearestRank())
    >>> plan.sizes, order
    ((3, 3, 1, 0), array([2, 3, 0]))
    """
    seen = np.flatnonzero(counts)
    if family_of(family).levels_by_count:
        levels = assign_levels(counts, ranks, rule)[seen]
    else:
        levels = np.full(seen.size, len(ranks))
    order = seen[np.lexsort((seen, -counts[seen], -levels))]  # lexsort sorts by its last key first
    sizes = [int((levels >= k).sum()) for k in range(len(ranks) + 1)]
    return RankPlan(family, tuple(ranks), (*sizes, 0)), order


def describe_plan(plan: RankPlan, counts: np.ndarray, n_rows: int) -> list[dict[str, float]]:
    """Return the cost in space and per row of each level, and last of a plain FM of the top rank, for comparison.

    counts are indexed by feature number.
    """
    occurrences = np.concatenate([[0], np.cumsum(counts, dtype=float)])
    return describe_levels(plan, [occurrences[size] for size in plan.sizes[:-1]], n_rows)


def describe_levels(plan: RankPlan, seen: Sequence[float], n_rows: int) -> list[dict[str, float]]:
    """Return the same as describe_plan; seen[k] is the number of occurrences of features of level k or higher.

    factors_per_row is the paper's D_k n(F_k), where n(F_k) is the mean number of nonzeros of F_k in a row.
    """
    total = max(seen[0], 1.0)  # level 0 or higher: all occurrences

    def line(rank: int, size: int, width: int, occurrences: float) -> dict[str, float]:
        return {
            "rank": rank,
            "features": size,
            "share_of_nonzeros": occurrences / total,
            "parameters": width * size,
            "bytes": 4 * width * size,  # float32
            "factors_per_row": width * occurrences / max(n_rows, 1),
        }

    lines = [line(r, s, w, n) for r, s, w, n in zip(plan.ranks, plan.sizes[1:], plan.block_ranks, seen[1:])]
    return [*lines, line(plan.ranks[-1], plan.n_features, plan.ranks[-1], seen[0])] if lines else []
