"""A run of whole-data training: epochs are sweeps over the features of contexts, then over those of items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ...kernels.tables import Rows
from ...model.parameters import Parameters
from ...plan.features import PlannedFeatures
from ...plan.grouping import Grouping, one_group
from ...rows.stats import RowStats
from ..events import Event, PieceFinished, Planned
from ..recipe import Recipe
from ..steps.job import Job, finished
from ..steps.loader import Blocks
from ..steps.negatives import item_features
from ..steps.run import Run, State
from .engine import WholeDataEngine
from .judge import Judge
from .pairs import CONTEXT, ITEM, find_pairs

RENEWAL_SWEEPS = 16  # after which the errors are computed anew, without the rounding of many steps


def train_whole_data(job: Job, recipe: Recipe) -> Iterator[Event]:
    """Train a model by the loss over all pairs."""
    features = job.features(recipe)
    item_features(features.fields, recipe.item_fields or ())  # before anything is told
    yield Planned(features.plan, features.counts, job.found.rows)
    run = make_run(job, features, recipe)
    yield from job.train(run)
    last = finished(job, run, features, job.found.rows)
    known = {**last.model.options, "unseen_weight": run.engine.unseen}  # which new contexts are solved with
    yield replace(last, model=replace(last.model, options=known))


def make_run(job: Job, features: PlannedFeatures, recipe: Recipe) -> WholeDataRun:
    """Return a run that trains these features."""
    known = features.numbering, features.value_scales
    rows, held_out = Blocks(job.source, *known, weight_scale=job.weight_scale), None
    if job.valid is not None:
        held_out = Blocks(job.valid, *known)
    grouping = Grouping(np.arange(features.plan.n_features), one_group(features.plan.sizes))
    run = WholeDataRun(rows, job.found, features, grouping, recipe, held_out, job.checkpoint.uninterrupted)
    run.seconds_allowed, run.schedule = job.resources.seconds, job.schedule
    return run


class WholeDataRun(Run):
    """Solves side by side. Held-out rows tell how many sweeps to take."""

    engine: WholeDataEngine  # type: ignore[assignment]
    checkpoint_seconds = 1.0  # a sweep of few rows takes milliseconds, a checkpoint some more

    def _make_engine(self, found: RowStats, bias: float, start: Parameters | None) -> WholeDataEngine:  # type: ignore[override]
        fields = self.features.fields
        assert fields is not None
        is_item = item_features(fields, self.recipe.item_fields or ())
        pairs = find_pairs(self.blocks, is_item)
        self.judge = None if self.held_out is None else Judge.of(self.held_out, pairs, is_item, self.recipe.seed)
        return WholeDataEngine(pairs, self.features.plan, is_item, fields.numbers, self.recipe, fields.n_fields)

    def pieces(self) -> Iterator[PieceFinished]:
        """Solve the rest of the sweep, a side at a time."""
        if self.at.sweep == 0 and self.at.epoch % RENEWAL_SWEEPS == 0:
            self.engine.set_errors()
        for side in (CONTEXT, ITEM)[self.at.sweep :]:
            with self.uninterrupted():
                self.engine.solve(side)
                loss = self.engine.total_loss() / self.engine.total_weight * self.total_weight
                rows = self.n_rows * (side + 1) // 2
                self.at = replace(self.at, sweep=side + 1, rows=rows, loss=loss * rows / self.n_rows)
            yield self._piece_finished()

    def restore(self, state: State) -> None:
        """Restore the state of a run with the same data and options."""
        super().restore(state)
        self.engine.renew()

    def _evaluate(
        self, held_out: Blocks, scores: Callable[[Rows], np.ndarray] | None = None
    ) -> dict[str, float | None]:
        """Return NDCG and recall of contexts with held-out items; nothing without any: then the last sweep is kept."""
        assert self.judge is not None
        return self.judge.values(self.engine)

    def _parameters(self, last: bool = False) -> Parameters:
        """Return a copy of the current parameters; there is no optimiser state."""
        return self.engine.parameters()

    def _advice(self) -> str:
        return "Check for outliers among values and weights"
