"""Rank-aware factorization machine: a feature of level k has k vectors, and a pair uses those of its lower level."""

from __future__ import annotations

from .family import OPTIONS, Family


class RaFM(Family):
    """sum_{i<j} v_i^(p) . v_j^(p) x_i x_j, with p the lower of the two levels."""

    name = "rafm"
    levels_by_count = True
    nested = True
    options = OPTIONS


FAMILY = RaFM()
