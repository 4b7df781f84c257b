"""Memory layout of field-aware models: one factor block per field in each record.

In a model, the vectors of a feature are one line: those for field 0, for field 1, and so on. In a record each has a
state and padding of its own, as blocks have, so the layout is that of a plan with one level per field, all of which
every feature has that has any. The number of the feature's field is in the record, as with field weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .layout import INITIAL_STATE, FirstSlot, RecordLayout
from .ranks import RankPlan


def blocks_by_field(plan: RankPlan) -> RankPlan:
    """Return the plan of the records: with one factor block per field.

    >>> blocks_by_field(RankPlan("ffm", (4,), (9, 8, 0), n_field_vectors=3))
    RankPlan(family='ffm', ranks=(4, 4, 4), sizes=(9, 8, 8, 8, 0), n_field_weights=3, n_field_vectors=0)
    """
    n, (size, with_vectors, _) = plan.n_field_vectors, plan.sizes
    ranks, sizes = plan.ranks * n, (size, *(with_vectors,) * n, 0)
    return replace(plan, ranks=ranks, sizes=sizes, n_field_weights=n, n_field_vectors=0)


class FieldVectorLayout(RecordLayout):
    """Layout of records with one factor block per field; factors and their states are those of the model's plan."""

    @classmethod
    def of(cls, plan: RankPlan, with_states: bool, n_slots: int = 0) -> FieldVectorLayout:
        """Return the layout of a field-aware model with this plan."""
        return cls(blocks_by_field(plan), with_states, n_slots)

    def _split(self, lines: np.ndarray) -> list[np.ndarray]:
        return np.split(lines, self.plan.n_levels, axis=1)

    def pack(
        self,
        weights: np.ndarray,
        factors: Sequence[np.ndarray],
        state: float = INITIAL_STATE,
        first_slot: FirstSlot | None = None,
    ) -> np.ndarray:
        return super().pack(weights, self._split(factors[0]), state, first_slot)

    def unpack(
        self, records: np.ndarray, places: np.ndarray | None = None, last: bool = False
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        weights, factors = super().unpack(records, places, last)
        return weights, [np.concatenate(factors, axis=1)]

    def put_states(self, records: np.ndarray, weights: np.ndarray, factors: Sequence[np.ndarray]) -> None:
        super().put_states(records, weights, self._split(factors[0]))

    def states(self, records: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        weights, factors = super().states(records)
        return weights, [np.concatenate(factors, axis=1)]


def layout_of(plan: RankPlan, with_states: bool, n_slots: int = 0) -> RecordLayout:
    """Return the layout of a plan's records."""
    kind = FieldVectorLayout.of if plan.n_field_vectors else RecordLayout
    return kind(plan, with_states, n_slots)
