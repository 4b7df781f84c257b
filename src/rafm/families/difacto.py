"""DiFacto: a feature has one vector, and each level extends it."""

from __future__ import annotations

from .family import LEVEL_OPTIONS, Family


class DiFacto(Family):
    """sum_{i<j} v_i . v_j x_i x_j, of the longest prefix that both vectors have."""

    name = "difacto"
    levels_by_count = True
    is_prefix = True
    options = LEVEL_OPTIONS


FAMILY = DiFacto()
