"""Alternating least squares in place of steps: each feature in turn moves to its best value, given all others."""

from __future__ import annotations

from dataclasses import dataclass

from .optimizer import Optimizer


@dataclass(frozen=True)
class Als(Optimizer):
    """Solve for the features of contexts and for those of items in turn, by conjugate gradients."""

    name = "als"
    has_steps = False
    families = ("fm", "difacto")
    losses = ("whole-data",)
    n_epochs = 16
    options = frozenset({"l2"})
