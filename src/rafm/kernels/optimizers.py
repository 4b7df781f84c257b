"""Compiled rates and steps of all optimisers, dispatched by the optimiser's code."""

from ..jit.dispatch import chosen_by_code
from ..optimizers import OPTIMIZERS, optimizer_class

_ALL = [optimizer_class(name) for name in OPTIMIZERS]
batch_rate = chosen_by_code([optimizer.rate for optimizer in _ALL], n_inlined=3)
step_number = chosen_by_code([optimizer.step_number for optimizer in _ALL], n_inlined=3)
step_vector = chosen_by_code([optimizer.step_vector for optimizer in _ALL], n_inlined=3)
