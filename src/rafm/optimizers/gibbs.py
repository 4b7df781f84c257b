"""Gibbs sampling in place of steps: parameters are drawn from their posterior, then distilled into one model."""

from __future__ import annotations

from dataclasses import dataclass

from .optimizer import Optimizer


@dataclass(frozen=True)
class Gibbs(Optimizer):
    """Draw all parameters and their priors again and again; fit one model to the mean of the sampled scores."""

    name = "gibbs"
    has_steps = False
    is_sampler = True
    families = ("fm", "difacto", "lr")
    losses = ("squared", "log")
    n_epochs = 200
    options = frozenset()  # priors are learned, and there are no steps
