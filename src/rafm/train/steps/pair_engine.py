"""The engine of LR, FM, DiFacto and RaFM for losses of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...plan.layout import round_up
from ...plan.ranks import RankPlan
from ...rows.pairs import DrawnRows
from ..recipe import Recipe
from .engine import RowShape, batch_size_of
from .record_engine import RecordEngine


class PairEngine(RecordEngine):
    """Trains rows together with those whose items were drawn; see kernels/forward.py."""

    def _make_scratch(self, shape: RowShape, recipe: Recipe, plan: RankPlan, threads: int) -> None:
        self.constant = self.bias[0]
        longest = RowShape(shape.rows, 2 * shape.longest)  # the context of one row with the item of another
        self._allocate(longest, round_up(batch_size_of(longest, recipe, plan), 2), threads)  # whole pairs

    def train(self, rows: Any, order: np.ndarray) -> tuple[float, int]:
        """Train on rows in the given order, each with its other item; see Engine.sweeps for the result."""
        assert isinstance(rows, DrawnRows)
        total, stopped = super().train(rows.pairs(order), np.arange(2 * order.size))  # type: ignore[arg-type]
        self.bias[0] = self.constant  # differences do not depend on it, but slopes of a pair do not cancel to the bit
        return total / 2, stopped // 2 if stopped >= 0 else -1  # both rows of a pair have its loss
