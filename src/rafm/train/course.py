"""The course of a run: its epochs, the best of them, and when it ends; runs of one process and of clusters share it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ..losses.loss import Loss
from .events import EpochFinished
from .recipe import Recipe

DIVERGED_RATIO = 100.0  # training has diverged if its loss exceeds this many times that of the best constant


@dataclass(frozen=True)
class Course:
    """Where a run is.

    rows, loss: of this epoch so far. best_epoch, best_value: the best one so far by the metric; without validation rows
    the last one. history: one entry for each epoch.
    """

    epoch: int = 1
    rows: int = 0
    loss: float = 0.0
    best_epoch: int = 0
    best_value: float | None = None
    history: list[dict[str, Any]] = field(default_factory=list)

    def begin_epoch(self, last: EpochFinished, metric: str, **more: Any) -> Self:
        """Move to the start of the next epoch; more: what else begins anew."""
        found: dict[str, Any] = {"best_value": last.metrics[metric]} if last.best else {}
        if last.best or not last.metrics:
            found["best_epoch"] = last.epoch
        more |= {"epoch": last.epoch + 1, "rows": 0, "loss": 0.0, "history": [*self.history, last.entry()]}
        return replace(self, **found, **more)

    def is_stalled(self, patience: int | None, since: int = 0) -> bool:
        """Return whether `patience` epochs brought no improvement, counted after an epoch at the earliest."""
        return patience is not None and self.epoch - 1 - max(self.best_epoch, since) >= patience

    def why_over(self, recipe: Recipe, is_stalled: bool) -> str:
        """Return the reason why training ends now."""
        if self.epoch > recipe.n_epochs:
            return "epochs"
        return "patience" if is_stalled else "time"


def divergence(
    loss: Loss, mean: float, baseline: float, metrics: dict[str, float | None], bias: np.ndarray, epoch: int
) -> str | None:
    """Return what says that training has diverged, None if nothing does.

    mean: of the loss of the training rows; bias: with its optimiser states.
    """
    shown = loss.report(mean)
    if shown > DIVERGED_RATIO * max(baseline, 0.1):  # the baseline is 0 if all labels are equal
        return f"the training loss of epoch {epoch} is {shown:.4g}; a constant would reach {baseline:.4g}"
    if any(value is not None and not np.isfinite(value) for value in metrics.values()):
        return f"the validation loss of epoch {epoch} is not finite"
    # A step divided by an infinite sum of squares is NaN or, as older versions of LLVM compile it, 0: nothing moves.
    if not np.isfinite(bias).all():
        return f"the squared gradients of epoch {epoch} are not finite"
    return None
