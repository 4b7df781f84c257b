"""Average of the parameters over epochs: after each epoch it moves half way to the current parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from .engine import Engine

CHUNK = 1 << 20  # values averaged at a time
HALF = np.float32(0.5)


class Average:
    """Running average of the arrays of an engine.

    Parameters
    ----------
    engine : Engine
        Whose arrays are averaged.
    is_begun : bool
        Whether the engine's first parameters are worth averaging; otherwise the average starts after the first epoch.
    """

    def __init__(self, engine: Engine, is_begun: bool = False):
        self.engine, self.epoch = engine, 0  # the last epoch that the average contains
        self.arrays: dict[str, np.ndarray] = self._copy() if is_begun else {}

    def _copy(self) -> dict[str, np.ndarray]:
        return {name: array.copy() for name, array in self.engine.state().items()}

    def update(self, epoch: int) -> None:
        """Take the current parameters into the average, once per epoch."""
        if epoch <= self.epoch:  # interrupted after the update, and resumed
            return
        self.epoch = epoch
        if not self.arrays:
            self.arrays = self._copy()
            return
        for name, array in self.engine.state().items():
            move_half_way(self.arrays[name].reshape(-1), array.reshape(-1))

    def restart(self) -> None:
        """Start again from the current parameters."""
        self.arrays = self._copy()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let the engine score, and return its parameters, by the average."""
        if not self.arrays:
            yield
            return
        current = self.engine.exchange(self.arrays)
        try:
            yield
        finally:
            self.arrays = self.engine.exchange(current)


def move_half_way(average: np.ndarray, current: np.ndarray) -> None:
    """Replace the average by the mean of both."""
    for first in range(0, average.size, CHUNK):
        part = average[first : first + CHUNK]
        part += current[first : first + CHUNK]
        part *= HALF
