"""Field-aware factorization machine: a feature has a vector for each field that a partner can have.

In a model, the vectors of a feature are one line: those for field 0, for field 1, and so on. In a record each has a
state and padding of its own, as blocks have, so the layout is that of a plan with one level per field, all of which
every feature has that has any. The number of the feature's field is in the record, as with field weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..kernels import field_aware
from ..kernels.tables import Rows, Tables
from ..model.model import Model
from ..plan.layout import INITIAL_STATE, FirstSlot, RecordLayout
from ..plan.ranks import RankPlan
from ..plan.scratch import field_vector_tables, make_field_vector_scratch
from .family import VECTOR_OPTIONS, Family, refusals

if TYPE_CHECKING:
    from ..options import Options
    from ..train.steps.engine import Engine


class Ffm(Family):
    """sum_{i<j} v_{i,f(j)} . v_{j,f(i)} x_i x_j, with f(i) the field of i."""

    name = "ffm"
    default_ranks = (4,)
    max_ranks = 1
    tuned_rank = 4
    has_field_vectors = True
    options = VECTOR_OPTIONS
    cannot = refusals(
        "be compressed, be quantised, be exported, be trained on a cluster, take wide steps, rank items, recommend, "
        "compare features, give vectors, give losses by level",
        "its features have a different vector for each field; use model='rafm' with field weights",
    )

    def layout(self, plan: RankPlan, with_states: bool, n_slots: int = 0) -> RecordLayout:
        """Return a layout with one factor block per field."""
        return FieldVectorLayout(blocks_by_field(plan), with_states, n_slots)

    def engine(self, recipe: Options, is_wide: bool) -> Callable[..., Engine]:
        """Return the engine of field-aware models."""
        from ..train.steps.field_aware_engine import FieldAwareEngine  # prediction needs no training

        return FieldAwareEngine

    def scores(self, model: Model, rows: Rows, level: int | None = None) -> np.ndarray:
        """Return the scores of rows of feature numbers."""
        return score_field_aware(rows, model.layout, model.tables, model.records, model.parameters.bias[0])

    def pair_products(self, model: Model, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return <v_{i,f(j)}, v_{j,f(i)}>, with f(i) the field of feature i."""
        assert model.fields is not None
        n_fields, block, fields = model.plan.n_field_vectors, model.parameters.factors[0], model.fields.numbers
        a, b = left[left < len(block)], right[right < len(block)]  # the others have no vectors
        own = block[a].astype(float).reshape(a.size, n_fields, -1)[:, fields[b]]
        other = block[b].astype(float).reshape(b.size, n_fields, -1)[:, fields[a]]
        products = np.zeros((left.size, right.size))
        products[: a.size, : b.size] = np.einsum("ijk,jik->ij", own, other)
        return products


FAMILY = Ffm()


def score_field_aware(
    rows: Rows, layout: RecordLayout, tables: Tables, records: np.ndarray, bias: np.float32
) -> np.ndarray:
    """Return the score of every row of a field-aware model."""
    longest = int(np.diff(rows.indptr).max(initial=0))
    tables, scores = field_vector_tables(tables, longest), np.empty(rows.labels.size, records.dtype)
    (work,) = make_field_vector_scratch(layout, tables, longest, dtype=records.dtype)
    field_aware.score_rows(rows, tables, records, bias, work, scores)
    return scores


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
