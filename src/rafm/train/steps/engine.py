"""Interface of engines, which hold the parameters in training and update them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...errors import ConfigError
from ...kernels.tables import GROUPS, Rows, Settings, optimizer_with
from ...model.parameters import Parameters, States
from ...optimizers.optimizer import Optimizer
from ...options import Options
from ...plan.grouping import Grouping, deal
from ...plan.layout import FirstSlot, RecordLayout
from ...plan.ranks import RankPlan
from ...plan.steps import STEPS_PER_EPOCH, choose_step_rows, whole_steps
from ..recipe import Recipe
from .loader import visiting_order

PIECE_ROWS = 1 << 16  # about this many rows are trained between two checks of the clock and for Ctrl-C
FIRST_FIELD_WEIGHT = 0.3  # anything from 0.1 to 0.6 trains to the same; at 0 gradients would be 0
WIDE_ROWS = 1 << 22  # data with at least this many rows train by wide steps
LONG_BATCH = 1 << 20  # maximum nonzeros of a mini-batch if all its rows were as long as the longest
LARGE_SUMS = 1 << 15  # maximum floats of its sums in a field-aware model: they and the vectors should stay in the cache


class RowShape(NamedTuple):
    """Number of training rows, and number of features of the longest one."""

    rows: int
    longest: int


Step = Callable[[Any, np.ndarray], tuple[float, int]]  # rows, with other items for losses of pairs; their order


class Engine(Protocol):
    """Holds parameters and optimiser state; trains on and scores numbered rows."""

    def sweeps(self) -> tuple[Step, ...]:
        """Return the steps that each block of rows goes through, one after the other.

        A step trains on rows in the given order. It returns the summed loss, and the first position in the order whose
        loss is not finite, or -1.
        """

    def piece_rows(self) -> int:
        """Return how many rows to train per call; multiples of it do not change the result."""

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that training changes, by name; not copies, so they can be saved and restored."""

    def exchange(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Replace the arrays of `state` by others of the same shapes, without a copy; return the former ones."""

    def set_rate(self, rate: float) -> None:
        """Continue with another learning rate."""

    def visiting_order(self, n_rows: int, draw: np.random.Generator) -> np.ndarray:
        """Return all rows of a block in the order in which an epoch visits them."""

    def scores(self, rows: Rows) -> np.ndarray:
        """Return the score of every row."""

    def parameters(self, last: bool = False) -> Parameters:
        """Return a copy of the parameters, in the order before the grouping; `last` frees the engine's own."""

    def states(self, label_scale: np.ndarray, value_scales: np.ndarray) -> States:
        """Return a copy of the optimiser state in the same order, together with the given scales."""


class Held:
    """Arrays and settings of an engine, exchanged by their names."""

    settings: Settings

    def state(self) -> dict[str, np.ndarray]:
        raise NotImplementedError

    def exchange(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Replace the arrays of `state` by others; see Engine."""
        former = self.state()
        for name, array in arrays.items():
            setattr(self, name, array)
        return former

    def set_rate(self, rate: float) -> None:
        """Continue with another learning rate."""
        self.settings = self.settings._replace(learning_rate=np.float32(rate))  # type: ignore[arg-type]

    def visiting_order(self, n_rows: int, draw: np.random.Generator) -> np.ndarray:
        """Return all rows of a block in random order; see Engine."""
        return visiting_order(n_rows, draw)


def settings_of(recipe: Recipe, label_scale: float = 1.0) -> Settings:
    """Return the kernels' settings from the recipe, for labels divided by label_scale."""
    single: Any = np.float32
    return Settings(
        loss=recipe.loss.code,
        loss_shape=single(recipe.loss.shape(label_scale)),
        uses_exp=recipe.loss.uses_exp,
        joint=recipe.joint,
        dependent_weight=single(recipe.dependent_weight),
        optimizer=optimizer_with(recipe.optimizer.code),
        learning_rate=single(recipe.learning_rate),
        l2=np.array(recipe.l2, np.float32),
        l2_weights=single(recipe.l2_weights),
        l1=single(recipe.l1),
        l1_weights=single(recipe.l1_weights),
    )


def batch_size_of(shape: RowShape, recipe: Recipe, plan: RankPlan) -> int:
    """Return the number of rows per mini-batch, which is lower for very long rows."""
    most = LONG_BATCH // max(shape.longest, 1)
    if plan.n_field_vectors:  # a row sums a vector for each pair of its fields
        most = min(most, LARGE_SUMS // (min(plan.n_field_vectors, max(shape.longest, 1)) ** 2 * plan.ranks[0]))
    return max(1, min(recipe.optimizer.batch_size, most))


def has_wide_steps(recipe: Options, n_rows: int) -> bool:
    """Return whether training on n_rows rows takes wide steps; see plan/steps.py."""
    if recipe.step_rows != "auto":
        return recipe.step_rows != 0
    is_usual = recipe.optimizer.batch_size == Optimizer.batch_size and recipe.optimizer.has_steps
    is_usual &= not recipe.loss.is_pairwise
    return is_usual and recipe.family.can("take wide steps") and n_rows >= WIDE_ROWS


def arrange(plan: RankPlan, counts: np.ndarray, shape: RowShape, recipe: Recipe, n_rows: int | None = None) -> Grouping:
    """Order the features for training on n_rows rows, by default all that were counted.

    Without wide steps, heads are the features expected more than head_share times per mini-batch.
    """
    n_rows = shape.rows if n_rows is None else n_rows
    if not has_wide_steps(recipe, n_rows):
        threshold = recipe.optimizer.head_share * shape.rows / batch_size_of(shape, recipe, plan)
        return deal(plan.traits.layout(plan, True).plan, counts, threshold)
    nonzeros = counts.sum() / max(shape.rows, 1)
    step_rows = choose_step_rows(recipe.step_rows, plan, nonzeros)
    if recipe.shuffle and n_rows < STEPS_PER_EPOCH * step_rows:
        raise ConfigError(
            f"step_rows={step_rows} leaves fewer than {STEPS_PER_EPOCH} steps per epoch for {n_rows} rows; use at most "
            f"{n_rows // STEPS_PER_EPOCH}, or step_rows=0 for small mini-batches",
            key="step_rows",
        )
    return whole_steps(plan, step_rows, nonzeros)


def first_bias(bias: float, recipe: Recipe) -> np.ndarray:
    """Return the bias followed by its initial states, as engines store it."""
    return np.array([bias, *recipe.optimizer.states_of(bias, recipe.learning_rate), 0], np.float32)


def first_records(
    layout: RecordLayout,
    recipe: Recipe,
    start: Parameters | None,
    state: float = 1.0,
    slot: FirstSlot | None = None,
) -> np.ndarray:
    """Return initial records: from given parameters, or random ones."""
    if start is None:
        return layout.fresh(recipe.seed, state, slot, recipe.init_scale)
    return layout.pack(start.weights, start.factors, state, slot)


def first_field_weights(n_fields: int, start: Parameters | None) -> np.ndarray | None:
    """Return weights, states and gradient sums of the fields, as kernels share them; None without field weights."""
    if not n_fields:
        return None
    shared = np.zeros((2 + GROUPS, n_fields), np.float32)
    shared[0], shared[1] = FIRST_FIELD_WEIGHT, 1.0
    if start is not None:
        assert start.fields is not None
        assert start.states is not None
        shared[0], shared[1:3] = start.fields, start.states.fields
    return shared


def put_states(start: Parameters, layout: RecordLayout, records: np.ndarray, bias: np.ndarray) -> States:
    """Write the optimiser state of `start`, which must have one, into records and bias; return it."""
    assert start.states is not None
    layout.put_states(records, start.states.weights, start.states.factors)
    bias[:] = start.states.bias
    return start.states
