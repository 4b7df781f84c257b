"""One line about a model: how it was trained, the ranks of its features, and its size beside a plain FM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..optimizers import SAMPLERS

if TYPE_CHECKING:
    from .model import Model

SHORTENED = "shortened"  # option of models that no option asked for: the share of their coordinates that is left


def model_line(model: Model) -> str:
    """Return what was trained, and how it compares with an FM that gives all features the highest rank."""
    plan = model.plan
    how, size = _training(model), f"{model.n_parameters:,} parameters"
    if not plan.ranks:
        return f"{how}, linear: {size}"
    top, least = plan.ranks[-1], plan.ranks[0] if plan.sizes[1] == plan.n_features else 0
    ranks = f"rank {top}" if least == top else f"ranks {least} to {top}"
    plain = 1 + plan.n_features * (1 + top) + plan.n_field_weights
    if model.n_parameters == plain:
        return f"{how}, {ranks}: {size}, a plain FM"
    return f"{how}, {ranks}: {size}, {100 * model.n_parameters / plain:.3g} % of an FM of rank {top}"


def _training(model: Model) -> str:
    """Return how a model was trained: by sampling, or by the steps of an optimiser."""
    name = model.options.get("optimizer")
    return "sampled" if name in SAMPLERS else f"by {name}" if name else model.plan.family
