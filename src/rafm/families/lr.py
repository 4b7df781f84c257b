"""Linear model, without vectors."""

from __future__ import annotations

from .family import LINEAR_OPTIONS, Family, refusals


class Lr(Family):
    """sum_i w_i x_i."""

    name = "lr"
    default_ranks = ()
    max_ranks = 0
    options = LINEAR_OPTIONS
    cannot = refusals("have a head", "it has no pairs; use model='fm'")


FAMILY = Lr()
