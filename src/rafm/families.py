"""Registry of model families. To add one: an entry here, and an engine if it trains in a way of its own.

Elsewhere, code depends on the properties of a family, never on its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """Structure of a model: what each feature has, what a row requires, and how it is trained.

    Parameters
    ----------
    name, help : str
        Name in options and files, and a short description.
    default_ranks : tuple of int
        Ranks if none are given.
    max_ranks : int, optional
        Maximum number of ranks; unlimited by default.
    levels_by_count : bool
        Whether the level of a feature depends on its count. Otherwise every feature has all ranks.
    nested : bool
        Whether a feature of level k has k vectors, of which the lower ones depend on the top one. A row then needs two
        sums per block: S over all features that have it, T over those that have a higher one.
    is_prefix : bool
        Whether a feature has one vector that each level extends. A pair of features uses their common prefix.
    has_mixture : bool
        Whether a feature also has one mixture weight per rank, trained by an engine of its own.
    features_per_row : int, optional
        Exact number of features in a row; any by default.
    uses_fields : bool
        Whether fields can have weights, which weigh the pairs of their features.
    has_field_vectors : bool
        Whether a feature has one vector for each field that a partner can have, trained by an engine of its own.
    optimizers : tuple of str, optional
        Optimisers that can train it; all by default.
    """

    name: str
    help: str
    default_ranks: tuple[int, ...] = (8, 32, 128)
    max_ranks: int | None = None
    levels_by_count: bool = False
    nested: bool = False
    is_prefix: bool = False
    has_mixture: bool = False
    features_per_row: int | None = None
    uses_fields: bool = False
    has_field_vectors: bool = False
    optimizers: tuple[str, ...] | None = None

    def block_ranks(self, ranks: Sequence[int]) -> tuple[int, ...]:
        """Return the number of factors that each level adds to a feature.

        >>> FAMILIES["difacto"].block_ranks((8, 32, 128))
        (8, 24, 96)
        """
        if not self.is_prefix:
            return tuple(ranks)
        return tuple(rank - below for rank, below in zip(ranks, (0, *ranks)))  # zip drops the last of the lower ranks

    @property
    def has_common_vectors(self) -> bool:
        """Whether a feature has the same vectors for all partners, so that a sum of vectors stands for a row.

        Wide steps, few bits, cuts and recommendations rely on it.
        """
        return not (self.has_mixture or self.has_field_vectors)

    @property
    def can_have_head(self) -> bool:
        """Whether a network on the scores of a row's pairs of fields can be added to the score."""
        return not self.has_mixture and self.max_ranks != 0

    def scores_pairs_of(self, n_known: int) -> bool:
        """Return whether a row with this number of known features has pair terms."""
        return self.features_per_row in (None, n_known)

    def n_mixture_weights(self, n_features: int, n_levels: int) -> int:
        """Return the number of mixture weights: the parameters besides bias, weights and factors."""
        return n_features * n_levels if self.has_mixture else 0


FAMILIES = {
    family.name: family
    for family in (
        Family("rafm", "rank-aware factorization machine", levels_by_count=True, nested=True, uses_fields=True),
        Family("fm", "factorization machine of one rank", default_ranks=(32,), max_ranks=1, uses_fields=True),
        Family("lr", "linear model", default_ranks=(), max_ranks=0),
        Family(
            "difacto",
            "one vector per feature, longer if it is frequent",
            levels_by_count=True,
            is_prefix=True,
            uses_fields=True,
        ),
        Family(  # matrix approximation: a row is one (user, item) pair
            "mrma",
            "mixture of ranks, two features per row",
            has_mixture=True,
            features_per_row=2,
            optimizers=("adagrad",),  # its engine has its own AdaGrad step
        ),
        Family(
            "ffm",
            "field-aware factorization machine",
            default_ranks=(4,),
            max_ranks=1,
            has_field_vectors=True,
        ),
    )
}
