"""Compiled rates and steps of all optimisers: the default one alone, or all of them, dispatched by code.

Whoever asks for no other optimiser need not wait until its code is compiled.
"""

# mypy: ignore-errors
from ..jit.compile import compiled
from ..jit.dispatch import chosen_by_code, chosen_by_type
from ..optimizers import OPTIMIZERS, optimizer_class
from .tables import ONE, ZERO, AnyOptimizer, DefaultOptimizer, FactorBlock, Gradient


def _chosen(functions, n_inlined):
    """Return a function (optimizer, ...) that calls functions[optimizer.code](...); n_inlined: see chosen_by_code."""
    default, by_code = compiled(functions[0]), chosen_by_code(functions, n_inlined)

    @compiled
    def of_default(_, *arguments):
        return default(*arguments)

    @compiled
    def of_any(optimizer, *arguments):
        return by_code(optimizer.code, *arguments)

    return chosen_by_type({DefaultOptimizer: of_default, AnyOptimizer: of_any})


def _undamped_number(optimizer):
    """Return the usual step of a scalar, by the sum of gradients."""
    step = compiled(optimizer.step_number)

    def step_number(records, o, gradient, square, damping, rate, l1):
        step(records, o, gradient, rate, l1)

    return step_number


def _undamped_vector(optimizer):
    """Return the usual step of a vector, by the sum of gradients."""
    step = compiled(optimizer.step_vector)

    def step_vector(records, o, block, gradient, square, damping, rate, l1):
        step(records, o, block, Gradient(gradient, 0, ONE, ZERO), rate, l1)

    return step_vector


def _of_any_norm(optimizer):
    """Return the usual step of a vector, which finds what it needs of the gradient itself."""
    step = compiled(optimizer.step_vector)

    def step_known(records, o, block, gradient, square, rate, l1):
        step(records, o, block, gradient, rate, l1)

    return step_known


def _one_by_one(optimizer):
    """Return steps of several vectors, one after the other."""
    step = compiled(optimizer.step_vector)

    def step_vectors(records, o, vectors, gradients, rate, l1):
        for k in range(vectors.first, vectors.stop):
            block = FactorBlock(vectors.shifts[k], vectors.n, vectors.states[k], vectors.share)
            gradient = Gradient(gradients.sums, gradients.j + k * gradients.stride, gradients.c, gradients.d)
            step(records, o, block, gradient, rate, l1)

    return step_vectors


_ALL = [optimizer_class(name) for name in OPTIMIZERS]
batch_rate = _chosen([optimizer.rate for optimizer in _ALL], n_inlined=3)
step_number = _chosen([optimizer.step_number for optimizer in _ALL], n_inlined=3)
step_vector = _chosen([optimizer.step_vector for optimizer in _ALL], n_inlined=3)
step_known = _chosen([one.step_known or _of_any_norm(one) for one in _ALL], n_inlined=1)
step_vectors = _chosen([one.step_vectors or _one_by_one(one) for one in _ALL], n_inlined=1)
wide_number = _chosen([one.wide_number or _undamped_number(one) for one in _ALL], n_inlined=1)
wide_vector = _chosen([one.wide_vector or _undamped_vector(one) for one in _ALL], n_inlined=1)
