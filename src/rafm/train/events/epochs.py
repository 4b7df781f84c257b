"""Events of epochs, and of parts of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...metrics import loss_heading, metric_class
from .event import Event

SHOWN_SWEEPS = 10  # sweeps of a sampler per line


@dataclass(frozen=True)
class StartEvaluated(Event):
    """The untrained model, which predicts a constant, was evaluated on the validation rows."""

    kind = "start"
    metrics: dict[str, float | None]

    def lines(self) -> list[str]:
        """Return the line of the epoch table for the untrained model.

        >>> StartEvaluated({"log_loss": 0.69315, "auc": 0.5}).lines()
        ['    0            -      0.69315      0.50000         -  constant prediction']
        """
        shown = "".join(f"   {'-' if number is None else f'{number:.5f}':>10}" for number in self.metrics.values())
        return [f"    0   {'-':>10}{shown}   {'-':>7}  constant prediction"]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        return {f"valid_{name}": value for name, value in self.metrics.items()}


@dataclass(frozen=True)
class PieceFinished(Event):
    """Part of an epoch is done. train_loss is the loss of the epoch's rows so far.

    seconds: of the epoch so far. seconds_left: of all epochs; None: not known.
    """

    kind = "piece"
    epoch: int
    rows: int
    n_rows: int
    train_loss: float
    seconds: float
    seconds_left: float | None = None

    @property
    def rows_per_second(self) -> float:
        return self.rows / max(self.seconds, 1e-9)

    def values(self) -> dict[str, Any]:
        """Return the record."""
        place = {"epoch": self.epoch, "rows": self.rows, "of": self.n_rows, "train_loss": self.train_loss}
        return {**place, "rows_per_second": self.rows_per_second, "seconds": self.seconds}


@dataclass(frozen=True)
class CheckpointWritten(Event):
    """A checkpoint was written at this position."""

    kind = "checkpoint"
    path: str
    epoch: int
    rows: int


@dataclass(frozen=True)
class EpochFinished(Event):
    """An epoch is done. metrics are those of the validation rows, empty without them.

    is_sweep: whether it was one of a sampler, of which only some have a line.
    """

    kind = "epoch"
    epoch: int
    train_loss: float
    metrics: dict[str, float | None]
    seconds: float
    best: bool
    is_sweep: bool = False

    def entry(self) -> dict[str, Any]:
        """Return the entry of the history; without times, so that equal runs have equal histories."""
        kept = {f"valid_{name}": value for name, value in self.metrics.items()}
        return {"epoch": self.epoch, "train_loss": self.train_loss, **kept}

    def lines(self) -> list[str]:
        """Return one line of the epoch table.

        >>> EpochFinished(2, 0.45102, {"log_loss": 0.45711, "auc": 0.775}, 3.04, best=True).lines()
        ['    2      0.45102      0.45711      0.77500       3.0  best']
        """
        if self.is_sweep and self.epoch % SHOWN_SWEEPS:
            return []
        numbers = [self.train_loss, *self.metrics.values()]
        shown = "".join(f"   {number:10.5f}" if number is not None else f"   {'-':>10}" for number in numbers)
        return [f"{self.epoch:5d}{shown}   {self.seconds:7.1f}{'  best' if self.best else ''}"]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        return {**self.entry(), "best": self.best, "seconds": self.seconds}


def table_header(names: list[str], has_metrics: bool) -> str:
    """Return the heading of the epoch table; names: those of the metrics, the first of which is that of the loss."""
    columns = ["epoch", f"train {loss_heading(names[0])}"]
    columns += [f"valid {metric_class(name).heading}" for name in names] if has_metrics else ()
    return "   ".join([columns[0], *(f"{name:>10}" for name in columns[1:]), "seconds"])
