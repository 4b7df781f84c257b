"""The engine of LR, FM, DiFacto and RaFM."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..jit.compile import PLAIN
from ..kernels.tables import GROUPS, Rows, Team, Training
from ..kernels.training import train_rows
from ..model.parameters import Parameters, States
from ..model.scores import score
from ..options import TrainingOptions
from ..plan.grouping import Grouping
from ..plan.layout import RecordLayout
from ..plan.ranks import RankPlan
from ..plan.scratch import make_training_scratch
from .engine import PIECE_ROWS, Held, RowShape, Step, batch_size_of, first_bias, first_records, put_states, settings_of
from .team import ThreadTeam, Trained


def n_team_threads(options: TrainingOptions) -> int:
    """Return the size of the thread team: each thread needs a group of features."""
    return 1 if PLAIN else min(options.threads, GROUPS)


class RecordEngine(Held):
    """Trains LR, FM, DiFacto and RaFM by small mini-batches in two phases; see kernels/training.py."""

    def __init__(
        self,
        plan: RankPlan,
        grouping: Grouping,
        shape: RowShape,
        options: TrainingOptions,
        bias: float,
        label_scale: float = 1.0,
        start: Parameters | None = None,
    ):
        optimizer = options.optimizer
        self.layout = RecordLayout(plan, True, optimizer.n_slots)
        self.tables = self.layout.tables(grouping.bounds)
        slot = partial(optimizer.first_slot, rate=options.learning_rate, l1=options.l1)
        first = (optimizer.first_state, slot if optimizer.n_slots else None)
        self.records, self.grouping = first_records(self.layout, options, start, *first), grouping
        self.bias = first_bias(bias, options)
        if start is not None:
            put_states(start, self.layout, self.records, self.bias)
        threads = n_team_threads(options)
        batch_size = batch_size_of(shape, options)
        self.scratch = make_training_scratch(self.layout, self.tables, shape.longest, batch_size, threads=threads)
        self.team = ThreadTeam(threads)
        self.settings = settings_of(options, label_scale)

    def sweeps(self) -> tuple[Step, ...]:
        return (self.train,)

    def piece_rows(self) -> int:
        size = self.scratch[0].losses.size
        return -(-PIECE_ROWS // size) * size  # whole mini-batches

    def state(self) -> dict[str, np.ndarray]:
        return {"records": self.records, "bias": self.bias}

    def train(self, rows: Rows, order: np.ndarray) -> tuple[float, int]:
        """Train on the rows in the given order; see Engine.sweeps for the result.

        The kernel continues the sum of losses, so that its rounding does not depend on how many calls there are.
        """
        total, done, stopped = 0.0, 0, -1
        while done < order.size and stopped < 0:
            share = order[done : done + self.team.share(order.size, self.scratch[0].losses.size)]
            total, stopped, trained = self.team.run(partial(self._step, rows, share, total))
            stopped, done = (done + stopped if stopped >= 0 else -1), done + trained
        return total, stopped

    def _step(self, rows: Rows, order: np.ndarray, total: float, team: Team) -> Trained:
        training = Training(self.tables, self.records, self.settings, team, self.scratch[team.thread])
        return train_rows(rows, order, self.bias, total, training)

    def scores(self, rows: Rows) -> np.ndarray:
        return score(rows, self.tables, self.records, self.bias[0])

    def parameters(self, last: bool = False) -> Parameters:
        weights, factors = self.layout.unpack(self.records, self.grouping.places, last)
        return Parameters(self.bias[:1].copy(), weights, factors)

    def states(self, label_scale: np.ndarray, value_scales: np.ndarray) -> States:
        found = States(self.bias.copy(), *self.layout.states(self.records), label_scale, value_scales)
        return found.each(self.grouping.undo)
