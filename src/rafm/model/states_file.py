"""The optimiser state in a model file: its tensors, and what must hold of them."""

from __future__ import annotations

import numpy as np

from ..errors import ModelFormatError
from ..optimizers.optimizer import Optimizer
from ..plan.layout import RecordLayout
from ..plan.ranks import RankPlan

Wanted = dict[str, tuple[tuple[int, ...], tuple[str, ...]]]  # shape and types of each tensor


def _state_size(plan: RankPlan, rank: int, optimizer: type[Optimizer]) -> int:
    """Return the number of states of one vector."""
    return 1 + optimizer.n_slots * rank // max(plan.n_field_vectors, 1)


def wanted_states(plan: RankPlan, optimizer: type[Optimizer]) -> Wanted:
    """Return the expected shape and type of each tensor of the optimiser state."""
    layout, n = RecordLayout(plan, True, optimizer.n_slots), plan.n_features
    shapes: dict[str, tuple[int, ...]] = {"bias": (4,), "label_scale": (1,), "value_scales": (n,)}
    shapes["weights"] = (n, layout.n_weight_states)
    for level, (size, rank) in enumerate(zip(plan.sizes[1:], plan.block_ranks), start=1):
        shapes[f"factors.{level}"] = (size, max(plan.n_field_vectors, 1) * _state_size(plan, rank, optimizer))
    shapes |= dict.fromkeys(plan.traits.rank_arrays, (n, plan.n_levels))
    if plan.n_field_weights:
        shapes["field_weights"] = (2, plan.n_field_weights)
    return {f"states.{name}": (shape, ("float32",)) for name, shape in shapes.items()}


def check_states(plan: RankPlan, tensors: dict[str, np.ndarray], optimizer: type[Optimizer]) -> None:
    """Check that scales are powers that divide exactly, and that sums of squares are not below their initial value."""
    for name, base in (("label_scale", 4), ("value_scales", 2)):
        scales = tensors[f"states.{name}"].astype(float)
        if not ((scales > 0).all() and (np.log2(scales) % np.log2(base) == 0).all()):  # log2 of powers of 2 is exact
            raise ModelFormatError(f"tensor 'states.{name}' must hold powers of {base}")
    squares = [tensors["states.bias"][1:2], tensors["states.weights"][:, 0]]
    for level, rank in enumerate(plan.block_ranks, start=1):
        squares.append(tensors[f"states.factors.{level}"][:, :: _state_size(plan, rank, optimizer)])
    if "states.field_weights" in tensors and tensors["states.field_weights"][0].min() < 1:
        raise ModelFormatError("tensor 'states.field_weights': sums of squares must be at least 1")
    if min(found.min(initial=np.inf) for found in squares) < optimizer.first_state:
        raise ModelFormatError(f"optimiser state: sums of squares must be at least {optimizer.first_state:g}")
