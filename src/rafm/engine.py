"""The numbers in training and what steps them: one engine for LR, FM, DiFacto and RaFM, and one for MRMA.

Both offer the same methods, so that the trainer needs to know of neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from . import kernels, mixture
from .options import TrainingOptions
from .parameters import Parameters, RecordLayout, initial_factors, make_work
from .ranks import RankPlan
from .scoring import score, score_mixture

MIXTURE_PULL = np.float32(0.01)  # L1 penalty of MRMA's mixture weights, towards their prior mean
PIECE = 1 << 16  # about how many rows are trained between two looks at the clock and for Ctrl-C
LONG_BATCH = 1 << 20  # nonzeros that a mini-batch of the longest row may have


class RowShape(NamedTuple):
    """How many training rows there are, and how many features the longest has."""

    rows: int
    longest: int


Step = Callable[[kernels.Rows, np.ndarray], tuple[float, int]]


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

    def scores(self, rows: kernels.Rows) -> np.ndarray:
        """Return the score of every row."""

    def parameters(self) -> Parameters:
        """Return a copy of the trained numbers."""


def settings_of(options: TrainingOptions, dtype: type = np.float32) -> kernels.Settings:
    """Return what the kernels need to know of the options."""
    return kernels.Settings(
        loss=options.loss.code,
        joint=options.joint,
        dependent_weight=dtype(options.dependent_weight),
        optimizer=options.optimizer.code,
        learning_rate=dtype(options.learning_rate),
        l2=np.array(options.l2, dtype),
        l2_weights=dtype(options.l2_weights),
    )


def count_heads(plan: RankPlan, counts: np.ndarray, threshold: float) -> list[int]:
    """Return per level how many features occur more often than the threshold; they are its first."""
    levels = range(plan.n_levels + 1)
    return [int((counts[plan.sizes[k + 1] : plan.sizes[k]] > threshold).sum()) for k in levels]


class RecordEngine:
    """Trains LR, FM, DiFacto and RaFM on records, by small mini-batches in two phases."""

    def __init__(self, plan: RankPlan, counts: np.ndarray, shape: RowShape, options: TrainingOptions, bias: float):
        batch_size = max(1, min(options.optimizer.batch_size, LONG_BATCH // max(shape.longest, 1)))
        heads = count_heads(plan, counts, options.optimizer.head_share * shape.rows / batch_size)
        self.layout = RecordLayout(plan, with_states=True)
        self.tables = self.layout.tables(heads)
        start = np.zeros(plan.n_features, np.float32)
        self.records = self.layout.pack(start, initial_factors(plan, options.seed))
        self.bias = np.array([bias, 1], np.float32)
        self.work = make_work(self.tables, shape.longest, batch_size, self.layout.place(heads)[1])
        self.settings = settings_of(options)

    def sweeps(self) -> tuple[Step, ...]:
        return (self.train,)

    def piece_rows(self) -> int:
        return -(-PIECE // self.work.losses.size) * self.work.losses.size  # whole mini-batches

    def state(self) -> dict[str, np.ndarray]:
        return {"records": self.records, "bias": self.bias}

    def train(self, rows: kernels.Rows, order: np.ndarray) -> tuple[float, int]:
        """Train on the rows in the given order; return the summed loss, and where it stopped being finite or -1."""
        return kernels.train_rows(rows, order, self.tables, self.records, self.bias, self.settings, self.work)

    def scores(self, rows: kernels.Rows) -> np.ndarray:
        return score(rows, self.tables, self.records, self.bias[0])

    def parameters(self) -> Parameters:
        weights, factors = self.layout.unpack(self.records)
        return Parameters(self.bias[:1].copy(), weights, factors)


class MixtureEngine:
    """Trains MRMA row by row: each pass over the data first steps the factors, then the mixture weights."""

    def __init__(self, plan: RankPlan, options: TrainingOptions, bias: float):
        self.layout = RecordLayout(plan, with_states=True)
        self.tables = self.layout.tables()
        start = np.zeros(plan.n_features, np.float32)
        self.records = self.layout.pack(start, initial_factors(plan, options.seed))
        self.bias = np.array([bias, 1], np.float32)
        self.mixture = np.ones((plan.n_features, plan.n_levels), np.float32)
        self.states = np.ones_like(self.mixture)
        self.settings = settings_of(options)

    def sweeps(self) -> tuple[Step, ...]:
        return self.train_factors, self.train_mixture

    def piece_rows(self) -> int:
        return PIECE

    def state(self) -> dict[str, np.ndarray]:
        return {"records": self.records, "bias": self.bias, "mixture": self.mixture, "mixture_states": self.states}

    def train_factors(self, rows: kernels.Rows, order: np.ndarray) -> tuple[float, int]:
        """Step the factors; return the summed loss, and where it stopped being finite or -1."""
        return mixture.train_factors(rows, order, *self._known(), self.settings)

    def train_mixture(self, rows: kernels.Rows, order: np.ndarray) -> tuple[float, int]:
        """Step the mixture weights, which has no loss of its own."""
        return mixture.train_mixture(rows, order, *self._known(), self.states, MIXTURE_PULL, self.settings)

    def _known(self) -> tuple[kernels.Tables, np.ndarray, np.ndarray, np.ndarray]:
        return self.tables, self.records, self.bias, self.mixture

    def scores(self, rows: kernels.Rows) -> np.ndarray:
        return score_mixture(rows, self.tables, self.records, self.bias[0], self.mixture)

    def parameters(self) -> Parameters:
        weights, factors = self.layout.unpack(self.records)
        return Parameters(self.bias[:1].copy(), weights, factors, self.mixture.copy())


def make_engine(plan: RankPlan, counts: np.ndarray, shape: RowShape, options: TrainingOptions, bias: float) -> Engine:
    """Return the engine of the plan's family, with fresh parameters."""
    if plan.family == "mrma":
        return MixtureEngine(plan, options, bias)
    return RecordEngine(plan, counts, shape, options, bias)
