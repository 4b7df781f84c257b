"""Cut a model so that it stays within a number of parameters, or its file within a number of bytes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..checks import whole
from ..errors import ConfigError
from ..model.file import Saved, file_bytes
from ..model.model import Model
from .cut import Cutter, cut_level
from .levels import LevelCutter
from .quantise import check_bits, quantise

FLOAT_BITS = 32
ATTEMPTS = 20


@dataclass(frozen=True)
class Budget:
    """Maximum size of a model; neither limit by default.

    reserved_bytes: what the file will hold besides the model, such as an encoder. saved: the file with everything but
    the model itself, if it is known already. bits: those of a factor in the file, if it will be quantised.
    """

    max_parameters: int | None = None
    max_bytes: int | None = None
    reserved_bytes: int = 0
    saved: Saved | None = None
    bits: int | None = None

    def __bool__(self) -> bool:
        return self.max_parameters is not None or self.max_bytes is not None

    def bytes_of(self, model: Model) -> int:
        """Return the size of the model's file, without optimiser state."""
        plain = replace(model, parameters=replace(model.parameters, states=None))
        plain = plain if self.bits is None else quantise(plain, self.bits)
        return file_bytes(replace(self.saved or Saved(plain), model=plain)) + self.reserved_bytes

    def excess(self, model: Model) -> int:
        """Return by how many parameters a model is too large; 0 if it is not."""
        parameters = 0 if self.max_parameters is None else model.n_parameters - self.max_parameters
        n_bytes = 0 if self.max_bytes is None else self.bytes_of(model) - self.max_bytes
        return max(0, parameters, -(-n_bytes * 8 // (self.bits or FLOAT_BITS)))

    def check(self, smallest: Model) -> None:
        """Reject limits that even the smallest model exceeds."""
        for name, limit, size in (
            ("max_parameters", self.max_parameters, smallest.n_parameters),
            ("max_bytes", self.max_bytes, self.bytes_of(smallest) if self.max_bytes is not None else 0),
        ):
            if limit is not None and size > limit:
                raise ConfigError(
                    f"{name} must be at least {size}, the smallest size that this model can be cut to, found {limit}",
                    key=name,
                )


def cutter_of(model: Model, importance: np.ndarray | None = None) -> Cutter | LevelCutter:
    """Return what cuts a model: level by level, or each vector to a length of its own."""
    return LevelCutter(model, importance) if model.plan.nested else Cutter(model, importance)


def cut_within(cutter: Cutter | LevelCutter, budget: Budget) -> Model:
    """Return the model, cut as little as the budget allows."""
    smallest = cutter.smallest()
    budget.check(smallest)
    factors, kept = cutter.n_factors, sum(block.size for block in smallest.parameters.factors)
    if budget.max_parameters is not None:
        factors = min(factors, kept + budget.max_parameters - smallest.n_parameters)
    if budget.max_bytes is not None:
        factors = min(factors, kept + (budget.max_bytes - budget.bytes_of(smallest)) * 8 // (budget.bits or FLOAT_BITS))
    for _ in range(ATTEMPTS):  # the header of the file grows with the number of levels
        lengths: Any = cutter.choose(factors)
        found = cutter.cut(lengths)
        if not (excess := budget.excess(found)):
            return found
        factors -= excess
    return smallest


def compress(
    saved: Saved,
    max_parameters: int | None = None,
    max_bytes: int | None = None,
    level: int | None = None,
    bits: int | None = None,
) -> Saved:
    """Return a model file made smaller, without optimiser state.

    It is cut to a size, or to B_{1,level} of a RaFM, or neither; then its vectors are rounded to `bits` bits. A model
    that has few bits already keeps them.
    """
    for name, value in (("max_parameters", max_parameters), ("max_bytes", max_bytes)):
        whole(optional=True)(name, value, {})
    if bits is not None:
        check_bits(bits)
    kept = saved.model.parameters.bits if bits is None else bits
    budget = Budget(max_parameters, max_bytes, saved=saved, bits=kept)
    if (level is not None and budget) or (level is None and not budget and bits is None):
        raise ConfigError(
            "set bits, a size (max_parameters or max_bytes) or a level; bits can be combined with either",
            key="max_parameters",
        )
    model = saved.model.as_floats().for_scoring()
    if level is not None:
        model = cut_level(model, level)
    elif budget:
        model = cut_within(cutter_of(model), budget)
    elif kept == saved.model.parameters.bits:
        return saved  # rounding again would change it
    return replace(saved, model=model if kept is None else quantise(model, kept))
