"""Events after the last epoch of a run."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from ...model.model import Model
from ..head_policy import HeadShape
from ..schedule import Schedule
from .event import Event


@dataclass(frozen=True)
class Distilled(Event):
    """Sampled models were distilled into one.

    samples: how many. before, after: RMSE between the mean of their scores on the training rows and the scores of the
    mean of their parameters, and those of the distilled model. metrics: of the distilled model on the validation rows.
    noise: variance of ratings around their true scores, as the last sweep assumed it. prior_precision:
    lambda of the prior around the mean of the parameters, the best one for the validation rows. inverse_temperature:
    that of the first sweeps, 1 unless a second try was better.
    """

    kind = "distilled"
    samples: int
    before: float
    after: float
    metrics: dict[str, float | None]
    noise: float | None = None
    prior_precision: float | None = None
    inverse_temperature: float | None = None

    def lines(self) -> list[str]:
        """Return the line that says how close one model comes to the mean of many.

        >>> Distilled(170, 0.104, 0.0312, {"rmse": 0.9107}).lines()
        ['distilled 170 samples into one model; it differs from their mean score by 0.03120 (RMS), valid rmse 0.91070']
        """
        if not self.samples:
            return ["stopped during burn-in: the model is the last sample"]
        shown = "".join(f", valid {name} {value:.5f}" for name, value in self.metrics.items() if value is not None)
        gap = f"it differs from their mean score by {self.after:.5f} (RMS)"
        return [f"distilled {self.samples} samples into one model; {gap}{shown}"]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        gap = {"samples": self.samples, "before": self.before, "after": self.after, "noise": self.noise}
        return {
            **gap,
            "prior_precision": self.prior_precision,
            **{f"valid_{name}": value for name, value in self.metrics.items()},
        }


@dataclass(frozen=True)
class Calibrated(Event):
    """Scores of the model were scaled and shifted to fit the validation rows.

    rows: how many they were. before, after: their mean log loss.
    """

    kind = "calibrated"
    level = logging.INFO
    scale: float
    offset: float
    rows: int
    before: float
    after: float

    def lines(self) -> list[str]:
        """Return the line that says how scores were calibrated.

        >>> Calibrated(0.929, -0.013, 57_722, 0.11239, 0.11151).lines()
        ['calibrated on 57722 validation rows: scores times 0.929, less 0.013; their log loss 0.11239 -> 0.11151']
        """
        shift = f"{'plus' if self.offset >= 0 else 'less'} {abs(self.offset):.3f}"
        change = f"their log loss {self.before:.5f} -> {self.after:.5f}"
        return [f"calibrated on {self.rows} validation rows: scores times {self.scale:.3f}, {shift}; {change}"]


@dataclass(frozen=True)
class HeadTrial:
    """What a shape of a head gains on folds of the validation rows, in the first metric of the loss."""

    shape: HeadShape
    gain: float
    error: float


@dataclass(frozen=True)
class HeadFitted(Event):
    """A network on the scores of pairs of fields was fitted to the validation rows, or none gained enough.

    trials: what was compared; without any, the shape was given. shape: that of the network, None without one.
    """

    kind = "head_fitted"
    level = logging.INFO
    n_rows: int
    trials: list[HeadTrial]
    shape: HeadShape | None
    seconds: float

    def lines(self) -> list[str]:
        """Return the line that says what was gained."""
        if self.shape is not None and not self.trials:
            return [f"network of {self.shape.units} units fitted to {self.n_rows} validation rows"]
        best = max(self.trials, key=lambda trial: trial.gain)
        gained = f"gain {best.gain:.5f} +- {best.error:.5f} on folds of {self.n_rows} validation rows"
        if self.shape is None:
            return [f"no network on the pairs of fields: {gained}"]
        return [f"network of {self.shape.units} units on the pairs of fields: {gained}"]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        trials = [{"units": one.shape.units, "gain": one.gain, "error": one.error} for one in self.trials]
        units = None if self.shape is None else self.shape.units
        return {"rows": self.n_rows, "trials": trials, "units": units, "seconds": self.seconds}


@dataclass(frozen=True)
class Finished(Event):
    """Training is over; the model is that of the best epoch.

    reason: "epochs" if all epochs are done, "patience" if the metric stopped improving, "time" if time ran out,
    "callback" if a callback ended training. best_value: metric of the best epoch. seconds: total across resumes.
    schedule: what validation rows chose, so that training can be repeated without them.
    """

    kind = "finished"
    model: Model
    reason: str = "epochs"
    best_value: float | None = None
    seconds: float = 0.0
    schedule: Schedule | None = None

    @property
    def level(self) -> int:  # type: ignore[override]
        """Level of the log: a constant is a warning."""
        return logging.INFO if self.model.best_epoch else logging.WARNING

    def lines(self) -> list[str]:
        """Return the lines that say what is doubtful about the model."""
        if self.best_value is None and self.reason != "time":  # no validation rows
            return []
        kept, epochs = self.model.best_epoch, len(self.model.history)
        if self.reason == "time":
            return [f"stopped: out of time; kept {f'epoch {kept}' if kept else 'the current parameters'}"]
        if not kept:
            return ["no epoch was better than a constant on the validation rows: the model predicts a constant"]
        if self.reason == "epochs" and kept == epochs > 1:
            return [f"the last of {epochs} epochs was the best: more `n_epochs` may improve the model"]
        return []

    def values(self) -> dict[str, Any]:
        """Return the record."""
        return {"reason": self.reason, "epochs": len(self.model.history), "best_epoch": self.model.best_epoch}
