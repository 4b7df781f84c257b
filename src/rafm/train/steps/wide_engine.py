"""The engine of LR, FM, DiFacto and RaFM for wide steps, which any number of threads can share."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...kernels.tables import IndexedRows, Rows, Tables, Team, Training
from ...kernels.wide import train_steps
from ...plan.layout import round_up
from ...plan.ranks import RankPlan
from ...plan.scratch import LINE_BYTES, make_field_scratch, make_wide_scratch
from ...plan.steps import WholeSteps, index_steps, short_steps, step_order, step_size
from ..recipe import Recipe
from .engine import RowShape
from .record_engine import RecordEngine
from .team import Trained


class WideEngine(RecordEngine):
    """Trains by wide steps; see kernels/wide.py. Rows must have been indexed, see plan/steps.py."""

    grouping: WholeSteps

    def _make_scratch(self, shape: RowShape, recipe: Recipe, plan: RankPlan, threads: int) -> None:
        self.tables, self.step_rows = joined_tables(self.tables), self.grouping.step_rows
        n_fields = 0 if self.field_weights is None else self.field_weights.shape[1]
        self.wide = make_wide_scratch(self.tables, shape.longest, self.step_rows, n_fields, threads=threads)
        self.fields = make_field_scratch(self.field_weights, self.tables, shape.longest, 1, threads)
        self.settings = self.settings._replace(damping=np.float32(self.grouping.damping))  # type: ignore[arg-type]

    def visiting_order(self, n_rows: int, draw: np.random.Generator) -> np.ndarray:
        return step_order(n_rows, self.step_rows, draw)

    @property
    def _batch_size(self) -> int:
        return self.step_rows

    def train(self, rows: Rows | IndexedRows, order: np.ndarray) -> tuple[float, int]:
        """Train on whole steps of rows in the given order; see Engine.sweeps for the result."""
        assert isinstance(rows, IndexedRows)
        total, done, stopped = 0.0, 0, -1
        while done < order.size and stopped < 0:
            if step_size(int(self.bias[3]), self.step_rows) < self.step_rows:
                total, stopped, trained = self._train_shortly(rows, order[done : done + self.step_rows], total)
            else:
                some = order[done : done + self.team.share(order.size, self.step_rows)]
                steps = some[:: self.step_rows] // self.step_rows
                total, stopped, trained = self.team.run(partial(self._step, rows, steps, total))
                stopped *= self.step_rows if stopped > 0 else 1
            stopped, done = (done + stopped if stopped >= 0 else -1), done + trained
        return total, stopped

    def _train_shortly(self, rows: IndexedRows, order: np.ndarray, total: float) -> Trained:
        """Train on the rows of one step by shorter ones, on one thread."""
        first = int(order[0])
        bounds = [*short_steps(first, first + order.size, int(self.bias[3]), self.step_rows)]
        indexed = index_steps(rows, np.array(bounds))
        total, stopped, trained = self._step(indexed, np.arange(len(bounds) - 1), total, self.team.alone)
        return total, bounds[stopped] - first if stopped >= 0 else -1, trained

    def _step(self, rows: Rows | IndexedRows, order: np.ndarray, total: float, team: Team) -> Trained:
        own = (self.wide[team.thread], self._fields_of(team))
        training = Training(self.tables, self.records, self.settings, team, *own)
        return train_steps(rows, order, self.bias, total, training)


def joined_tables(tables: Tables) -> Tables:
    """Return tables for rows whose sums and scalars are in one piece of memory."""
    has_fields = tables.scalars > tables.weighted
    scalars = tables.scalars + (int(tables.starts[-1]) if has_fields and tables.nested else 0)  # behind S' - T'
    row = round_up(scalars + 1 + 2 * int(tables.widths.size), LINE_BYTES // 4)
    return tables._replace(scalars=scalars, row=row, part=row)
