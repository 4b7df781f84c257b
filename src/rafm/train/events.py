"""What training tells while it runs; display, checkpoints and history are consumers of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model.model import Model
from ..plan.ranks import RankPlan


@dataclass(frozen=True)
class Planned:
    """Ranks are decided; nothing is trained yet."""

    plan: RankPlan
    counts: np.ndarray
    n_rows: int
    one_class: bool = False


@dataclass(frozen=True)
class Resumed:
    """A checkpoint was found: training goes on in this epoch, after so many of its rows."""

    folder: str
    epoch: int
    rows: int
    finished: bool


@dataclass(frozen=True)
class Continued:
    """Training goes on from a model of so many features, with so many new ones.

    with_states: whether the model kept the optimiser's states; otherwise they start anew. promoted: how many got a
    higher level, None if ranks were not planned again. pair_error: how far products of their pairs changed by that.
    """

    features: int
    new: int
    with_states: bool
    promoted: int | None = None
    pair_error: float | None = None


@dataclass(frozen=True)
class PieceFinished:
    """Some rows of an epoch are trained, more are to come. train_loss is that of these rows so far."""

    epoch: int
    rows: int
    n_rows: int
    train_loss: float
    seconds: float  # of the epoch so far

    @property
    def rows_per_second(self) -> float:
        return self.rows / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class CheckpointWritten:
    """Whatever happens from here on, training can go on from this place."""

    path: str
    epoch: int
    rows: int


@dataclass(frozen=True)
class EpochFinished:
    """One pass over the data is done. metrics are those of the validation rows, if there are any."""

    epoch: int
    train_loss: float
    metrics: dict[str, float | None]
    seconds: float
    best: bool

    def entry(self) -> dict[str, Any]:
        """Return what the history keeps: no times, so that equal runs have equal histories."""
        kept = {f"valid_{name}": value for name, value in self.metrics.items()}
        return {"epoch": self.epoch, "train_loss": self.train_loss, **kept}


@dataclass(frozen=True)
class Finished:
    """Training is over; the model is that of the best epoch.

    reason: "epochs" if all are trained, "patience" if too many brought nothing better, "time" if it was used up.
    """

    model: Model
    reason: str = "epochs"


Event = Planned | Continued | Resumed | PieceFinished | CheckpointWritten | EpochFinished | Finished
