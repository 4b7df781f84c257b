"""The engine of MRMA: trains factors and mixture weights alternately, row by row."""

from __future__ import annotations

import numpy as np

from ...families.mrma import score_mixture
from ...kernels import mixture
from ...kernels.tables import Rows, Tables
from ...model.parameters import Parameters, States
from ...plan.fields import FeatureFields
from ...plan.grouping import Grouping
from ...plan.layout import RecordLayout
from ...plan.ranks import RankPlan
from ..recipe import Recipe
from .engine import PIECE_ROWS, Held, RowShape, Step, first_bias, first_records, put_states, settings_of

MIXTURE_PULL = np.float32(0.01)  # L1 penalty that pulls mixture weights towards 1, their prior mean


class MixtureEngine(Held):
    """Trains MRMA row by row: each pass over a block updates the factors first, then the mixture weights."""

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
        self.layout = RecordLayout(plan, with_states=True)
        self.tables = self.layout.tables()
        self.records, self.grouping = first_records(self.layout, recipe, start), grouping
        self.bias = first_bias(bias, recipe)
        self.mixture = np.ones((plan.n_features, plan.n_levels), np.float32)
        self.mixture_states = np.ones_like(self.mixture)
        if start is not None:
            states = put_states(start, self.layout, self.records, self.bias)
            self.mixture[:], self.mixture_states[:] = start.mixture, states.mixture
        self.settings = settings_of(recipe, label_scale)

    def sweeps(self) -> tuple[Step, ...]:
        return self.train_factors, self.train_mixture

    def piece_rows(self) -> int:
        return PIECE_ROWS

    def state(self) -> dict[str, np.ndarray]:
        return {
            "records": self.records,
            "bias": self.bias,
            "mixture": self.mixture,
            "mixture_states": self.mixture_states,
        }

    def train_factors(self, rows: Rows, order: np.ndarray) -> tuple[float, int]:
        """Update all parameters but the mixture weights; see Engine.sweeps for the result."""
        return mixture.train_factors(rows, order, *self._known(), self.settings)

    def train_mixture(self, rows: Rows, order: np.ndarray) -> tuple[float, int]:
        """Update the mixture weights; the loss is not summed again."""
        return mixture.train_mixture(rows, order, *self._known(), self.mixture_states, MIXTURE_PULL, self.settings)

    def _known(self) -> tuple[Tables, np.ndarray, np.ndarray, np.ndarray]:
        return self.tables, self.records, self.bias, self.mixture

    def scores(self, rows: Rows) -> np.ndarray:
        return score_mixture(rows, self.tables, self.records, self.bias[0], self.mixture)

    def parameters(self, last: bool = False) -> Parameters:
        weights, factors = self.layout.unpack(self.records, self.grouping.places, last)
        return Parameters(self.bias[:1].copy(), weights, factors, self.grouping.undo(self.mixture))

    def states(self, label_scale: np.ndarray, value_scales: np.ndarray) -> States:
        weights, factors = self.layout.states(self.records)
        found = States(self.bias.copy(), weights, factors, label_scale, value_scales, self.mixture_states)
        return found.each(self.grouping.undo)
