"""Factorization machine of one rank."""

from __future__ import annotations

from .family import Family


class Fm(Family):
    """sum_{i<j} v_i . v_j x_i x_j."""

    name = "fm"
    default_ranks = (32,)
    max_ranks = 1
    tuned_rank = 7


FAMILY = Fm()
