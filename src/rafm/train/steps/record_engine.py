"""The engine of LR, FM, DiFacto and RaFM."""

from __future__ import annotations

from functools import partial

import numpy as np

from ...jit.compile import PLAIN
from ...kernels.tables import GROUPS, FieldWeights, NoFieldWeights, Rows, Team, Training
from ...kernels.training import train_rows
from ...model.parameters import Parameters, States
from ...model.scores import score
from ...options import Options
from ...plan.fields import FeatureFields
from ...plan.grouping import Grouping
from ...plan.layout import round_up
from ...plan.ranks import RankPlan
from ...plan.scratch import make_field_scratch, make_training_scratch
from ..recipe import Recipe
from .engine import (
    PIECE_ROWS,
    Held,
    RowShape,
    Step,
    batch_size_of,
    first_bias,
    first_field_weights,
    first_records,
    has_wide_steps,
    put_states,
    settings_of,
)
from .team import ThreadTeam, Trained


def n_team_threads(recipe: Options, wide: bool = False) -> int:
    """Return the size of the thread team: without wide steps each thread needs a group of features."""
    return 1 if PLAIN else recipe.threads if wide else min(recipe.threads, GROUPS)


def threads_used(recipe: Options, n_rows: int = 0) -> int:
    """Return how many of the threads asked for can train this family.

    >>> from rafm.options import resolve
    >>> [threads_used(resolve(task="binary", threads=8, model=model)) for model in ("rafm", "mrma")]
    [2, 1]
    >>> threads_used(resolve(task="binary", threads=8), 5_000_000)
    8
    """
    if recipe.optimizer.is_sampler:
        from ...plan.design import MAX_PARTS  # only if it is used

        return min(recipe.threads, MAX_PARTS)
    if not recipe.optimizer.has_steps:
        return recipe.threads
    return n_team_threads(recipe, has_wide_steps(recipe, n_rows)) if recipe.family.has_team else 1


class RecordEngine(Held):
    """Trains LR, FM, DiFacto and RaFM by small mini-batches in two phases; see kernels/training.py."""

    def __init__(
        self,
        plan: RankPlan,
        grouping: Grouping,
        shape: RowShape,
        recipe: Recipe,
        bias: float,
        label_scale: float = 1.0,
        start: Parameters | None = None,
        fields: FeatureFields | None = None,
    ):
        optimizer = recipe.optimizer
        self.layout = plan.traits.layout(plan, True, optimizer.n_slots)
        self.tables = self.layout.tables(grouping.bounds)
        slot = partial(optimizer.first_slot, rate=recipe.learning_rate, l1=recipe.l1)
        first = (optimizer.first_state, slot if optimizer.n_slots else None)
        self.records, self.grouping = first_records(self.layout, recipe, start, *first), grouping
        self.bias = first_bias(bias, recipe)
        if start is not None:
            put_states(start, self.layout, self.records, self.bias)
        self.field_weights = first_field_weights(plan.n_field_weights, start)
        if fields is not None and self.layout.has_fields:
            self.layout.put_fields(self.records, fields.numbers)
        self.settings = settings_of(recipe, label_scale)
        threads = n_team_threads(recipe, grouping.step_rows > 0)
        self._make_scratch(shape, recipe, plan, threads)
        self.team = ThreadTeam(threads)

    def _make_scratch(self, shape: RowShape, recipe: Recipe, plan: RankPlan, threads: int) -> None:
        """Allocate scratch memory for each thread."""
        self._allocate(shape, batch_size_of(shape, recipe, plan), threads)

    def _allocate(self, shape: RowShape, size: int, threads: int) -> None:
        self.scratch = make_training_scratch(self.layout, self.tables, shape.longest, size, threads=threads)
        self.fields = make_field_scratch(self.field_weights, self.tables, shape.longest, size, threads)

    def sweeps(self) -> tuple[Step, ...]:
        return (self.train,)

    @property
    def _batch_size(self) -> int:
        return self.scratch[0].losses.size

    def piece_rows(self) -> int:
        return round_up(PIECE_ROWS, self._batch_size)  # whole mini-batches

    def state(self) -> dict[str, np.ndarray]:
        weights = {} if self.field_weights is None else {"field_weights": self.field_weights}
        return {"records": self.records, "bias": self.bias, **weights}

    def train(self, rows: Rows, order: np.ndarray) -> tuple[float, int]:
        """Train on the rows in the given order; see Engine.sweeps for the result.

        The kernel continues the sum of losses, so that its rounding does not depend on how many calls there are.
        """
        total, done, stopped = 0.0, 0, -1
        while done < order.size and stopped < 0:
            share = order[done : done + self.team.share(order.size, self._batch_size)]
            total, stopped, trained = self.team.run(partial(self._step, rows, share, total))
            stopped, done = (done + stopped if stopped >= 0 else -1), done + trained
        return total, stopped

    def _step(self, rows: Rows, order: np.ndarray, total: float, team: Team) -> Trained:
        own = (self.scratch[team.thread], self._fields_of(team))
        training = Training(self.tables, self.records, self.settings, team, *own)
        return train_rows(rows, order, self.bias, total, training)

    def _fields_of(self, team: Team) -> FieldWeights | NoFieldWeights:
        fields = self.fields[team.thread]
        if isinstance(fields, FieldWeights) and self.field_weights is not None:
            fields = fields._replace(shared=self.field_weights)  # they may have been exchanged
        return fields

    def scores(self, rows: Rows) -> np.ndarray:
        weights = None if self.field_weights is None else self.field_weights[0]
        return score(rows, self.tables, self.records, self.bias[0], field_weights=weights)

    def parameters(self, last: bool = False) -> Parameters:
        weights, factors = self.layout.unpack(self.records, self.grouping.places, last)
        fields = None if self.field_weights is None else self.field_weights[0].copy()
        return Parameters(self.bias[:1].copy(), weights, factors, fields=fields)

    def states(self, label_scale: np.ndarray, value_scales: np.ndarray) -> States:
        fields = None
        if self.field_weights is not None:  # the sum over the groups, as the next mini-batch would compute it
            fields = np.stack([self.field_weights[1], self.field_weights[2] + self.field_weights[3]])
        found = States(self.bias.copy(), *self.layout.states(self.records), label_scale, value_scales, fields=fields)
        return found.each(self.grouping.undo)
