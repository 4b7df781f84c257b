"""Cut the vectors of a trained model to lengths of their own."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..model.model import Model
from ..model.parameters import States
from ..plan.ranks import RankPlan
from ..rows.numbering import Numbering
from .lengths import LENGTHS, choose_lengths, lengths_up_to, missed
from .rotation import Sides, balanced, rotated

PREFIX = "difacto"  # the family of models with one vector per feature, of any length
LINEAR = "lr"
Spans = list[tuple[int, int, int]]  # of the new blocks: first and last coordinate, and number of vectors


class Cutter:
    """Cuts one model to any number of factors.

    Parameters
    ----------
    model : Model
        FM or DiFacto; its optimiser state, if any, must be one number per vector.
    importance : ndarray of shape (n_features,), optional
        Sum of the squared values of each feature in training, by feature number; the counts by default.
    sides : Sides, optional
        Coordinates for a model of one rank; principal axes by default.
    grid : sequence of int
        Lengths to choose from.
    """

    def __init__(
        self,
        model: Model,
        importance: np.ndarray | None = None,
        sides: Sides | None = None,
        grid: Sequence[int] = LENGTHS,
    ):
        check_can_be_cut(model)
        plan = model.plan
        # Without its vectors, whose memory is free as soon as the caller drops the model.
        self.model = replace(model, parameters=replace(model.parameters, factors=[]))
        self.n_factors = sum(block.size for block in model.parameters.factors)  # before the cut
        importance = (model.counts if importance is None else importance).astype(float)
        self.vectors = np.zeros((plan.n_features, plan.ranks[-1] if plan.ranks else 0), np.float32)
        start = 0
        for block in model.parameters.factors:  # each block has axes of its own
            stop = start + block.shape[1]
            out = self.vectors[: len(block), start:stop]
            if sides is None:
                rotated(block, importance[: len(block)], out)
            else:
                balanced(block, sides, out)
            start = stop
        self.lengths = lengths_up_to(self.vectors.shape[1], plan.ranks, grid) if plan.ranks else (0,)
        self.losses = missed(self.vectors, importance, self.lengths)

    def without(self, features: np.ndarray) -> Cutter:
        """Return one that leaves these features, a mask by number, no vectors."""
        found = copy(self)
        found.losses = np.where(features[:, None], 0.0, self.losses)
        return found

    def smallest(self) -> Model:
        """Return the model without any vectors."""
        return self.cut(np.zeros(self.model.plan.n_features, np.int64))

    def choose(self, budget: float) -> np.ndarray:
        """Return the length of each vector, by feature number, for at most this many factors in total."""
        return choose_lengths(self.losses, self.lengths, budget)

    def cut(self, lengths: np.ndarray) -> Model:
        """Return the model with vectors of these lengths, by feature number; a length of 0 leaves the weight alone."""
        plan, order = plan_lengths(lengths, self.model.counts, self.model.plan)
        ends, found, states = (0, *plan.ranks), self.model.parameters, self.model.parameters.states
        spans = list(zip(ends, ends[1:], plan.sizes[1:]))
        factors = [self.vectors[order[:size], start:stop].copy() for start, stop, size in spans]
        fields = found.fields if plan.n_field_weights else None
        parameters = replace(found, weights=found.weights[order], factors=factors, fields=fields)
        if states is not None:
            parameters = replace(parameters, states=self._states(states, order, spans))
        return replace(
            self.model,
            plan=plan,
            numbering=Numbering(self.model.numbering.ids[order], self.model.numbering.n_inputs),
            counts=self.model.counts[order],
            fields=None if self.model.fields is None else self.model.fields.ordered(order),
            parameters=parameters,
            options=self._options(spans),
            samples=None,
        )

    def _parents(self, spans: Spans) -> list[int]:
        """Return the block in which each new block begins; new blocks never cross the end of an old one."""
        starts = (0, *self.model.plan.ranks)
        return [int(np.searchsorted(starts, start, side="right")) - 1 for start, _, _ in spans]

    def _options(self, spans: Spans) -> dict[str, Any]:
        """Return the options of the model, with penalties for the new blocks and without a rule for the old ones."""
        options = {**self.model.options, "thresholds": None}
        if isinstance(options.get("l2"), list):  # one per rank
            options["l2"] = [options["l2"][parent] for parent in self._parents(spans)] or None
        return options

    def _states(self, states: States, order: np.ndarray, spans: Spans) -> States:
        """Return the optimiser state of the new blocks: that of the blocks in which they begin."""
        pairs = zip(self._parents(spans), spans)
        factors = [states.factors[parent][order[:size]] for parent, (_, _, size) in pairs]
        weights, scales = states.weights[order], states.value_scales[order]
        fields = states.fields if spans else None
        return replace(states, weights=weights, factors=factors, value_scales=scales, fields=fields)


def check_can_be_cut(model: Model) -> None:
    """Reject models that are not cut by length."""
    plan, states = model.plan, model.parameters.states
    plan.traits.check("be compressed")
    assert not plan.nested  # LevelCutter cuts their levels
    if states is not None and any(block.shape[1] != 1 for block in states.factors):
        raise ConfigError("this optimiser state cannot be compressed; save the model without it first", key="optimizer")


def plan_lengths(lengths: np.ndarray, counts: np.ndarray, large: RankPlan) -> tuple[RankPlan, np.ndarray]:
    """Return the plan of features with vectors of these lengths, cut from a large one, and their order in it.

    >>> plan, order = plan_lengths(np.array([4, 0, 8, 4]), np.array([5, 6, 7, 8]), RankPlan("fm", (8,), (4, 4, 0)))
    >>> plan.family, plan.ranks, plan.sizes, order
    ('difacto', (4, 8), (4, 3, 1, 0), array([2, 3, 0, 1]))
    """
    order = np.lexsort((np.arange(lengths.size), -counts, -lengths))  # as plan_ranks does
    ranks = tuple(int(rank) for rank in np.unique(lengths[lengths > 0]))
    sizes = (lengths.size, *(int((lengths >= rank).sum()) for rank in ranks), 0)
    n_fields = large.n_field_weights if ranks else 0  # they weigh pairs, and without vectors there are none
    family = PREFIX if ranks else LINEAR
    return replace(large, family=family, ranks=ranks, sizes=sizes, n_field_weights=n_fields), order


def cut_level(model: Model, level: int) -> Model:
    """Return the model whose score is B_{1,level} of a RaFM: its features, without the vectors of higher levels."""
    plan, states = model.plan, model.parameters.states
    if not (plan.nested and isinstance(level, int | np.integer) and 1 <= level <= plan.n_levels):
        raise ConfigError(
            f"level must be between 1 and {plan.n_levels} and needs model='rafm', found {level!r} for {plan.family!r}",
            key="level",
        )
    kept = replace(plan, ranks=plan.ranks[:level], sizes=(*plan.sizes[: level + 1], 0))
    parameters = replace(
        model.parameters,
        factors=model.parameters.factors[:level],
        states=None if states is None else replace(states, factors=states.factors[:level]),
    )
    options = dict(model.options)
    if isinstance(options.get("l2"), list):  # one per rank
        options["l2"] = options["l2"][:level]
    if options.get("thresholds"):
        options["thresholds"] = ",".join(options["thresholds"].split(",")[: level - 1]) or None
    return replace(model, plan=kept, parameters=parameters, options=options)
