"""What shards, workers and the driver agree on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from ..kernels.tables import Settings
from ..plan.layout import FirstSlot
from ..plan.ranks import RankPlan
from ..train.recipe import Recipe

Hook = Callable[..., None]  # called with the name of a moment and the step; lets tests stop a process there


def no_hook(moment: str, step: int) -> None:
    """Do nothing."""


class Lost(Exception):
    """A process lost its state, or never had it: it was restarted, or another one took over."""


class ShardLost(Lost):
    """A shard lost its state; all shards must go back to the last checkpoint."""


class WorkerLost(Lost):
    """A worker lost its state; its call can be repeated once it was set up again."""


@dataclass(frozen=True)
class ModelSpec:
    """The model in training, without what belongs to single features.

    life: how often the shards' state was made or loaded; calls from an earlier life are refused.
    damping: of wide steps. longest: nonzeros of the longest row. field_names: of the fields that have weights.
    """

    options: Recipe
    life: int
    common_scale: float
    label_scale: float
    weight_scale: float
    damping: float
    longest: int
    slot_rows: int
    has_scales: bool
    field_names: tuple[str, ...] = ()
    field_numbers: np.ndarray | None = field(default=None, compare=False)  # of all known fields; -1: without weight

    def settings(self) -> Settings:
        """Return the settings of the kernels."""
        from ..train.steps.engine import settings_of

        damping: Any = np.float32(self.damping)
        return settings_of(self.options, self.label_scale)._replace(damping=damping)

    def first_slot(self) -> FirstSlot | None:
        """Return what computes the first slot of vectors; None if the optimiser has none."""
        optimizer = self.options.optimizer
        slot = partial(optimizer.first_slot, rate=self.options.learning_rate, l1=self.options.l1)
        return slot if optimizer.n_slots else None

    def plan(self, sizes: tuple[int, ...], with_fields: bool = False) -> RankPlan:
        """Return the plan of some of the features."""
        n_fields = len(self.field_names) if with_fields else 0
        return RankPlan(self.options.model, self.options.ranks, sizes, n_fields)


def wire_lengths(widths: np.ndarray, per_level: int, first: int) -> np.ndarray:
    """Return how many values a feature of each level takes on the way.

    >>> wire_lengths(np.array([4, 8]), per_level=0, first=1)
    array([ 1,  5, 13])
    """
    vectors = np.concatenate([[0], np.cumsum(widths)])
    return (first + per_level * np.arange(vectors.size) + vectors).astype(np.int64)


def pull_lengths(widths: np.ndarray) -> np.ndarray:
    """Return the number of parameters of a feature of each level, with padding; see kernels/slots.py."""
    return wire_lengths(widths, per_level=0, first=1)


def push_lengths(widths: np.ndarray) -> np.ndarray:
    """Return the number of gradient sums of a feature of each level."""
    return wire_lengths(widths, per_level=1, first=2)
