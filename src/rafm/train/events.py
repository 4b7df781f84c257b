"""Events that training yields; progress display, event log and history consume them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model.model import Model
from ..options import TrainingOptions
from ..plan.ranks import RankPlan, describe_levels, describe_plan
from .schedule import Schedule


@dataclass(frozen=True)
class SamplerChosen:
    """No option defines the model, and the rows are ratings: an FM is sampled, and cut if ranks are measured."""

    options: TrainingOptions
    n_rows: int

    @property
    def rank(self) -> int:
        return self.options.large_rank or self.options.ranks[0]


@dataclass(frozen=True)
class MeasuringChosen:
    """No option defines the model: ranks are measured, or assigned by count if measuring would take too much.

    options: those to train with, None if ranks are by counts. seconds: what measuring takes, roughly, on one core.
    obstacle: why ranks are not measured, None if they are.
    """

    options: TrainingOptions | None
    n_rows: int
    seconds: float
    obstacle: str | None = None


@dataclass(frozen=True)
class HeldOut:
    """Some of the rows are held out to choose the number of epochs; by samplers, to measure the noise."""

    n_rows: int  # of all rows
    n_valid: int  # 0 if the rows cannot be split
    n_folds: int = 1  # if more, each row is held out once
    for_noise: bool = False


@dataclass(frozen=True)
class NotHeldOut:
    """No rows choose the number of epochs, and there are more epochs than usually do good."""

    n_rows: int
    n_epochs: int


@dataclass(frozen=True)
class OneClass:
    """All rows have the same label, which is known before any are held out."""

    n_rows: int


@dataclass(frozen=True)
class Slowed:
    """The best epoch was one of the first, or training diverged; it starts again with a lower learning rate."""

    share: float  # of the learning rate that was tried first
    diverged: bool = False


@dataclass(frozen=True)
class Challenged:
    """No option asks for a model: another one is tried on the validation rows."""

    options: TrainingOptions


@dataclass(frozen=True)
class RivalsJudged:
    """The validation rows have chosen between models."""

    metric: str
    values: dict[str, float | None]  # of each model, by its name; None for those that were given up
    chosen: str
    options: TrainingOptions | None = None  # of the chosen model


@dataclass(frozen=True)
class NotRetrained:
    """The model of the search is kept: the rows held out were needed to calibrate it."""

    n_rows: int
    n_valid: int


@dataclass(frozen=True)
class Selected:
    """The number of epochs is chosen; training starts again on all rows."""

    n_epochs: int
    n_rows: int


@dataclass(frozen=True)
class Planned:
    """Ranks are assigned; training has not started.

    counts: of the features, by number; of a cluster's, occurrences of features of level k or higher instead: `seen`.
    """

    plan: RankPlan
    counts: np.ndarray
    n_rows: int
    one_class: bool = False
    seen: tuple[float, ...] | None = None

    def levels(self) -> list[dict[str, float]]:
        """Describe the levels; see `describe_plan`."""
        if self.seen is not None:
            return describe_levels(self.plan, self.seen, self.n_rows)
        return describe_plan(self.plan, self.counts, self.n_rows)


@dataclass(frozen=True)
class Searched:
    """Learning rate and L2 were found by this many short runs.

    rank: that a model to be cut is worth starting from, None if the larger the better, or if no rank is measured.
    """

    learning_rate: float
    l2: float
    runs: int
    rank: int | None = None


@dataclass(frozen=True)
class Measuring:
    """A large model is trained first, from which the ranks will be measured.

    rank, parameters, megabytes: of that model in training. times: its training time, relative to a plain model.
    fallback: why it is not trained, and ranks are chosen by counts instead; None if it is.
    """

    rank: int
    parameters: int
    megabytes: float
    times: float
    fallback: str | None = None


@dataclass(frozen=True)
class Cut:
    """The large model is cut; training goes on with the small one.

    parameters, value: size and validation metric after the cut; before, value_before: the same before it.
    """

    metric: str
    before: int
    value_before: float | None
    parameters: int
    value: float | None


@dataclass(frozen=True)
class Resumed:
    """Training resumes from a checkpoint, in this epoch after this many of its rows; best_value: metric so far."""

    folder: str
    epoch: int
    rows: int
    finished: bool
    best_value: float | None = None


@dataclass(frozen=True)
class Continued:
    """Training continues from an existing model.

    features: number of features of that model. new: number of new features. with_states: whether the model has
    optimiser state; otherwise it is initialised. promoted: number of features with a higher level, None without
    replanning. pair_error: relative change of their pair products. was_sampled: whether the model was sampled, which
    cannot go on; it continues by steps.
    """

    features: int
    new: int
    with_states: bool
    promoted: int | None = None
    pair_error: float | None = None
    was_sampled: bool = False


@dataclass(frozen=True)
class Begun(Continued):
    """Sampling begins at the parameters of a model; is_given: whether it was there before, or was trained first."""

    is_given: bool = True


@dataclass(frozen=True)
class StartEvaluated:
    """The untrained model, which predicts a constant, was evaluated on the validation rows."""

    metrics: dict[str, float | None]


@dataclass(frozen=True)
class PieceFinished:
    """Part of an epoch is done. train_loss is the loss of the epoch's rows so far."""

    epoch: int
    rows: int
    n_rows: int
    train_loss: float
    seconds: float  # of the epoch so far
    seconds_left: float | None = None  # of all epochs; None: not known

    @property
    def rows_per_second(self) -> float:
        return self.rows / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class CheckpointWritten:
    """A checkpoint was written at this position."""

    path: str
    epoch: int
    rows: int


@dataclass(frozen=True)
class EpochFinished:
    """An epoch is done. metrics are those of the validation rows, empty without them."""

    epoch: int
    train_loss: float
    metrics: dict[str, float | None]
    seconds: float
    best: bool

    def entry(self) -> dict[str, Any]:
        """Return the entry of the history; without times, so that equal runs have equal histories."""
        kept = {f"valid_{name}": value for name, value in self.metrics.items()}
        return {"epoch": self.epoch, "train_loss": self.train_loss, **kept}


@dataclass(frozen=True)
class Distilled:
    """Sampled models were distilled into one.

    samples: how many. before, after: RMSE between the mean of their scores on the training rows and the scores of the
    mean of their parameters, and those of the distilled model. metrics: of the distilled model on the validation rows.
    noise: variance of ratings around their true scores, as the last sweep assumed it. pull: lambda of the pull towards
    the mean of the parameters, the best one for the validation rows. heat: that of the first sweeps, 1 unless a second
    try was better.
    """

    samples: int
    before: float
    after: float
    metrics: dict[str, float | None]
    noise: float | None = None
    pull: float | None = None
    heat: float | None = None


@dataclass(frozen=True)
class Calibrated:
    """Scores of the model were scaled and shifted to fit the validation rows.

    rows: how many they were. before, after: their mean log loss.
    """

    scale: float
    offset: float
    rows: int
    before: float
    after: float


@dataclass(frozen=True)
class Finished:
    """Training is over; the model is that of the best epoch.

    reason: "epochs" if all epochs are done, "patience" if the metric stopped improving, "time" if time ran out,
    "callback" if a callback ended training. best_value: metric of the best epoch. seconds: total across resumes.
    schedule: what validation rows chose, so that training can be repeated without them.
    """

    model: Model
    reason: str = "epochs"
    best_value: float | None = None
    seconds: float = 0.0
    schedule: Schedule | None = None


Training = Resumed | StartEvaluated | PieceFinished | CheckpointWritten | EpochFinished
Event = (
    SamplerChosen
    | MeasuringChosen
    | HeldOut
    | NotHeldOut
    | OneClass
    | Slowed
    | Challenged
    | RivalsJudged
    | NotRetrained
    | Selected
    | Planned
    | Searched
    | Measuring
    | Cut
    | Continued
    | Training
    | Distilled
    | Calibrated
    | Finished
)
