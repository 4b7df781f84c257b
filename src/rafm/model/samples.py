"""Sampled models next to the one that they were distilled into: they give the uncertainty of a prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .parameters import Parameters

PREFIX = "samples."


@dataclass(frozen=True)
class Samples:
    """Parameters of several models of one plan, stacked: the first axis of every array is the sample."""

    bias: np.ndarray
    weights: np.ndarray
    factors: list[np.ndarray]

    @property
    def n_samples(self) -> int:
        return self.bias.size

    def __iter__(self) -> Iterator[Parameters]:
        """Yield the parameters of one sample after the other."""
        for number in range(self.n_samples):
            factors = [block[number] for block in self.factors]
            yield Parameters(self.bias[number : number + 1], self.weights[number], factors)

    @classmethod
    def stacked(cls, samples: Sequence[Parameters]) -> Samples:
        """Return at least one sample as one object."""
        factors = [np.stack(blocks) for blocks in zip(*(sample.factors for sample in samples))]
        weights = np.stack([sample.weights for sample in samples])
        return cls(np.concatenate([sample.bias for sample in samples]), weights, factors)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by their names in a model file; the inverse of from_arrays."""
        factors = {f"{PREFIX}factors.{level}": block for level, block in enumerate(self.factors, start=1)}
        return {f"{PREFIX}bias": self.bias, f"{PREFIX}weights": self.weights, **factors}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Samples | None:
        """Return the samples stored in these arrays, None if there are none."""
        if f"{PREFIX}bias" not in arrays:  # most models have none
            return None
        n_levels = sum(name.startswith(f"{PREFIX}factors.") for name in arrays)
        factors = [arrays[f"{PREFIX}factors.{level}"] for level in range(1, n_levels + 1)]
        return cls(arrays[f"{PREFIX}bias"], arrays[f"{PREFIX}weights"], factors)
