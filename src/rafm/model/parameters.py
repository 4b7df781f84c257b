"""The trained parameters of a model, and the optimiser state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..plan.grouping import Grouping
from .packed import packed_arrays


@dataclass(frozen=True)
class Parameters:
    """Parameters of a model: bias, weights, and per block the vectors of the features that have it.

    bias: an array of one element. mixture: MRMA's mixture weights, one per feature and rank. fields: the weight of each
    field, if they have weights. states: the optimiser state, if it was kept for further training. bits: those of each
    coordinate, if the blocks of factors are PackedVectors.
    """

    bias: np.ndarray
    weights: np.ndarray
    factors: list[Any]
    mixture: np.ndarray | None = None
    states: States | None = None
    fields: np.ndarray | None = None
    bits: int | None = None

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Parameters:
        """Return these parameters with `change` applied to every array that has one line per feature."""
        mixture = None if self.mixture is None else change(self.mixture)
        states = None if self.states is None else self.states.each(change)
        return Parameters(self.bias, change(self.weights), [*map(change, self.factors)], mixture, states, self.fields)

    def arranged(self, grouping: Grouping) -> Parameters:
        """Return these parameters in the order of the grouping."""
        return self.each(lambda values: values[grouping.order[: len(values)]])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name, vectors as factors.1, factors.2, ...; the inverse of from_arrays."""
        named = {"bias": self.bias, "weights": self.weights}
        if self.bits is None:
            named |= _numbered("factors", self.factors)
        else:
            named |= packed_arrays(self.weights, self.factors, self.bits)
        mixture = {} if self.mixture is None else {"mixture": self.mixture}
        fields = {} if self.fields is None else {"field_weights": self.fields}
        return named | mixture | fields | ({} if self.states is None else self.states.arrays())

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Parameters:
        """Return the parameters stored in these arrays."""
        states = States.from_arrays(arrays) if "states.bias" in arrays else None
        factors = _in_order("factors", arrays)
        more = (arrays.get("mixture"), states, arrays.get("field_weights"))
        return cls(arrays["bias"], arrays["weights"], factors, *more)

    def as_floats(self) -> Parameters:
        """Return these parameters with vectors of floats."""
        if self.bits is None:
            return self
        return replace(self, factors=[np.asarray(block) for block in self.factors], bits=None)

    def constant(self) -> Parameters:
        """Return parameters that score every row by the bias alone."""
        factors = [np.zeros_like(block) for block in self.as_floats().factors]
        return replace(self, weights=np.zeros_like(self.weights), factors=factors, bits=None)

    def rescaled(self, scale: float, offset: float = 0.0) -> Parameters:
        """Return parameters whose scores are scale * score + offset, for labels that are not scaled; scale > 0.

        Of the optimiser state, only the bias in training changes: sums of squares are those of the rows seen.
        """
        grow, root, states = np.float32(scale), np.float32(np.sqrt(scale)), self.states
        floats, weights = self.as_floats(), self.weights * grow
        factors = [block * root for block in floats.factors]  # a pair has two vectors
        bias = self.bias * grow + np.float32(offset)
        if states is not None:
            states = replace(states, bias=np.concatenate([bias, states.bias[1:]]))
        return replace(floats, bias=bias, weights=weights, factors=factors, states=states)

    def undo_scaling(self, label_scale: float, value_scales: np.ndarray) -> Parameters:
        """Convert parameters trained on scaled data to the original labels and values.

        Training divided labels by label_scale, and the values of feature i by value_scales[i]. The result is exact if
        label_scale is a power of 4 and value_scales are powers of 2.
        """
        if label_scale == 1 and (value_scales == 1).all():
            return self
        # A pair product has two vectors, so each takes the square root of the label scale.
        grow, roots = np.float32(label_scale), np.float32(np.sqrt(label_scale)) / value_scales
        factors = [block * roots[: len(block), None] for block in self.factors]
        return replace(self, bias=self.bias * grow, weights=self.weights * grow / value_scales, factors=factors)


@dataclass(frozen=True)
class States:
    """Optimiser state, and the scales of labels and values in training.

    bias: the bias in training, then its states. weights: the states of each weight. factors: per block, the state of
    each vector, then its slots. label_scale: divisor of the labels, an array of one element. value_scales: divisor of
    the values of each feature. fields: the states of the field weights, then the gradient of the last mini-batch, by
    which they have not stepped yet.
    """

    bias: np.ndarray
    weights: np.ndarray
    factors: list[np.ndarray]
    label_scale: np.ndarray
    value_scales: np.ndarray
    mixture: np.ndarray | None = None
    fields: np.ndarray | None = None

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> States:
        """Return these states with `change` applied to every array that has one line per feature."""
        return replace(
            self,
            weights=change(self.weights),
            factors=[*map(change, self.factors)],
            value_scales=change(self.value_scales),
            mixture=None if self.mixture is None else change(self.mixture),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name; the inverse of from_arrays."""
        named = {f"states.{name}": getattr(self, name) for name in ("bias", "weights", "label_scale", "value_scales")}
        mixture = {} if self.mixture is None else {"states.mixture": self.mixture}
        fields = {} if self.fields is None else {"states.field_weights": self.fields}
        return {**named, **_numbered("states.factors", self.factors), **mixture, **fields}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> States:
        """Return the states stored in these arrays."""
        named = {name: arrays[f"states.{name}"] for name in ("bias", "weights", "label_scale", "value_scales")}
        mixture, fields = arrays.get("states.mixture"), arrays.get("states.field_weights")
        return cls(**named, factors=_in_order("states.factors", arrays), mixture=mixture, fields=fields)


def _numbered(name: str, blocks: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"{name}.{level}": block for level, block in enumerate(blocks, start=1)}


def _in_order(name: str, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    n_levels = sum(key.startswith(f"{name}.") for key in arrays)
    return [arrays[f"{name}.{level}"] for level in range(1, n_levels + 1)]
