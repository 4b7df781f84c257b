"""The engine of field-aware factorization machines."""

from __future__ import annotations

import numpy as np

from ...families.ffm import score_field_aware
from ...kernels.field_aware import train_rows
from ...kernels.tables import NoFieldWeights, Rows, Team, Training
from ...plan.ranks import RankPlan
from ...plan.scratch import field_vector_tables, make_field_vector_scratch
from ..recipe import Recipe
from .engine import RowShape, batch_size_of
from .record_engine import RecordEngine
from .team import Trained


class FieldAwareEngine(RecordEngine):
    """Trains FFM by small mini-batches in two phases; see kernels/field_aware.py."""

    def _make_scratch(self, shape: RowShape, recipe: Recipe, plan: RankPlan, threads: int) -> None:
        self.tables, size = field_vector_tables(self.tables, shape.longest), batch_size_of(shape, recipe, plan)
        self.vectors = make_field_vector_scratch(self.layout, self.tables, shape.longest, size, threads=threads)

    @property
    def _batch_size(self) -> int:
        return self.vectors[0].losses.size

    def _step(self, rows: Rows, order: np.ndarray, total: float, team: Team) -> Trained:
        own = (self.vectors[team.thread], NoFieldWeights())
        return train_rows(rows, order, self.bias, total, Training(self.tables, self.records, self.settings, team, *own))

    def scores(self, rows: Rows) -> np.ndarray:
        return score_field_aware(rows, self.layout, self.tables, self.records, self.bias[0])
