"""What an engine is: parameters in training and what steps them. The trainer needs to know of no particular one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..kernels.tables import Rows, Settings
from ..model.parameters import Parameters, States
from ..options import TrainingOptions
from ..plan.grouping import Grouping, deal
from ..plan.layout import FirstSlot, RecordLayout
from ..plan.ranks import RankPlan

PIECE_ROWS = 1 << 16  # about how many rows are trained between two looks at the clock and for Ctrl-C
LONG_BATCH = 1 << 20  # nonzeros that a mini-batch of the longest row may have


class RowShape(NamedTuple):
    """How many training rows there are, and how many features the longest has."""

    rows: int
    longest: int


Step = Callable[[Rows, np.ndarray], tuple[float, int]]


class Engine(Protocol):
    """Holds parameters with their optimiser states, and trains and scores numbered rows."""

    def sweeps(self) -> tuple[Step, ...]:
        """Return the steps that a block of rows goes through, one after the other.

        A step trains on the rows in the given order, whole or piece by piece; it returns the summed loss, and where it
        stopped being finite or -1.
        """

    def piece_rows(self) -> int:
        """Return how many rows to train at a time; pieces of this size change nothing."""

    def state(self) -> dict[str, np.ndarray]:
        """Return all numbers that training changes, by name: the arrays themselves, to be saved or written into."""

    def scores(self, rows: Rows) -> np.ndarray:
        """Return the score of every row."""

    def parameters(self, last: bool = False) -> Parameters:
        """Return a copy of the trained numbers, in the order before the grouping; the last use of them ends them."""

    def states(self, label_scale: np.ndarray, value_scales: np.ndarray) -> States:
        """Return a copy of the optimiser's states in that order, with the scales of labels and values of theirs."""


def settings_of(options: TrainingOptions, label_scale: float = 1.0) -> Settings:
    """Return what the kernels need to know of the options, for labels divided by label_scale."""
    single: Any = np.float32
    return Settings(
        loss=options.loss.code,
        loss_shape=single(options.loss.shape(label_scale)),
        uses_exp=options.loss.uses_exp,
        joint=options.joint,
        dependent_weight=single(options.dependent_weight),
        optimizer=options.optimizer.code,
        learning_rate=single(options.learning_rate),
        l2=np.array(options.l2, np.float32),
        l2_weights=single(options.l2_weights),
        l1=single(options.l1),
        l1_weights=single(options.l1_weights),
    )


def batch_size_of(shape: RowShape, options: TrainingOptions) -> int:
    """Return how many rows a mini-batch has: fewer if they are very long."""
    return max(1, min(options.optimizer.batch_size, LONG_BATCH // max(shape.longest, 1)))


def arrange(plan: RankPlan, counts: np.ndarray, shape: RowShape, options: TrainingOptions) -> Grouping:
    """Return the order of features in training, and what is a head: expected more often than head_share in a batch."""
    return deal(plan, counts, options.optimizer.head_share * shape.rows / batch_size_of(shape, options))


def first_bias(bias: float, options: TrainingOptions) -> np.ndarray:
    """Return a bias followed by its states, as engines keep it."""
    return np.array([bias, *options.optimizer.states_of(bias, options.learning_rate), 0], np.float32)


def first_records(
    layout: RecordLayout, seed: int, start: Parameters | None, state: float = 1.0, slot: FirstSlot | None = None
) -> np.ndarray:
    """Return the records of parameters to go on from, or fresh ones."""
    if start is None:
        return layout.fresh(seed, state, slot)
    return layout.pack(start.weights, start.factors, state, slot)


def put_states(start: Parameters, layout: RecordLayout, records: np.ndarray, bias: np.ndarray) -> States:
    """Write the states of parameters to go on from, which have them; return them."""
    assert start.states is not None
    layout.put_states(records, start.states.weights, start.states.factors)
    bias[:] = start.states.bias
    return start.states
