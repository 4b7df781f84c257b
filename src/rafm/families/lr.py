"""Linear model, without vectors."""

from __future__ import annotations

from .family import LINEAR_OPTIONS, Family


class Lr(Family):
    """sum_i w_i x_i."""

    name = "lr"
    default_ranks = ()
    max_ranks = 0
    options = LINEAR_OPTIONS


FAMILY = Lr()
