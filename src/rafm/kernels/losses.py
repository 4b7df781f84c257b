"""Compiled link, slope and value functions of all losses, dispatched by the loss's code."""

# mypy: ignore-errors
import numpy as np

from ..jit.compile import compiled
from ..jit.dispatch import chosen_by_code
from ..losses import KERNELS, loss_named

_ALL = [loss_named(name) for name in KERNELS]
link = chosen_by_code([loss.link for loss in _ALL], n_inlined=2)
loss_slope = chosen_by_code([loss.slope for loss in _ALL], n_inlined=2)
loss_value = chosen_by_code([loss.value for loss in _ALL], n_inlined=2)


@compiled
def is_finite(loss):
    """Return whether a loss is neither infinite nor NaN. Compilers may take the x - x of np.isfinite for 0."""
    return abs(loss) < np.inf
