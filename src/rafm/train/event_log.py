"""Write training events as JSON lines, for scripts.

    {"event": "held_out", "rows": ..., "valid_rows": ..., "folds": ...}
    {"event": "not_held_out", "rows": ..., "epochs": ...}
    {"event": "slowed", "share": ...}
    {"event": "selected", "epochs": ..., "rows": ...}
    {"event": "planned", "rows": ..., "features": ..., "parameters": ..., "model": ..., "plan": [...]}
    {"event": "continued", "features": ..., "new": ..., "with_states": ..., "promoted": ..., "pair_error": ...}
    {"event": "searched", "learning_rate": ..., "l2": ..., "runs": ...}
    {"event": "measuring", "rank": ..., "parameters": ..., "megabytes": ..., "times": ..., "fallback": ...}
    {"event": "cut", "metric": ..., "before": ..., "value_before": ..., "parameters": ..., "value": ...}
    {"event": "resumed", "folder": ..., "epoch": ..., "rows": ..., "finished": ..., "best_value": ...}
    {"event": "start", "valid_log_loss": ..., ...}
    {"event": "piece", "epoch": ..., "rows": ..., "of": ..., "train_loss": ..., "rows_per_second": ..., "seconds": ...}
    {"event": "checkpoint", "path": ..., "epoch": ..., "rows": ...}
    {"event": "epoch", "epoch": ..., "train_loss": ..., "valid_log_loss": ..., ..., "best": ..., "seconds": ...}
    {"event": "distilled", "samples": ..., "before": ..., "after": ..., "valid_rmse": ..., ...}
    {"event": "calibrated", "scale": ..., "offset": ..., "rows": ..., "before": ..., "after": ...}
    {"event": "finished", "reason": "epochs", "epochs": ..., "best_epoch": ...}

Future versions may add keys but not remove any. Undefined values are null.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from .events import (
    Calibrated,
    Challenged,
    CheckpointWritten,
    Continued,
    Cut,
    Distilled,
    EpochFinished,
    Event,
    Finished,
    HeldOut,
    Measuring,
    MeasuringChosen,
    NotHeldOut,
    NotRetrained,
    OneClass,
    PieceFinished,
    Planned,
    Resumed,
    RivalsJudged,
    SamplerChosen,
    Searched,
    Selected,
    Slowed,
    StartEvaluated,
)


class EventSink(Protocol):
    """Destination of events; `name` appears in warnings."""

    @property
    def name(self) -> Any: ...

    def write(self, text: str, /) -> Any: ...

    def flush(self) -> Any: ...


class EventFile:
    """A file to append lines to. Closing it never fails, because failed writes have already been reported."""

    def __init__(self, path: str):
        self.name, self._file = path, open(path, "a", encoding="utf-8")  # noqa: SIM115 - closed on leaving

    def write(self, text: str) -> None:
        self._file.write(text)

    def flush(self) -> None:
        self._file.flush()

    def __enter__(self) -> EventFile:
        return self

    def __exit__(self, *leaving: object) -> None:
        with suppress(OSError):
            self._file.close()


def event_record(event: Event) -> dict[str, Any]:
    """Return an event as a JSON-compatible dict.

    >>> event_record(PieceFinished(2, 65536, 100_000, 0.4, seconds=0.5))["rows_per_second"]
    131072.0
    """
    match event:
        case SamplerChosen():
            return {"event": "sampler_chosen", "rank": event.rank, "rows": event.n_rows}
        case MeasuringChosen():
            chosen = {"measured": event.options is not None, "rows": event.n_rows, "seconds": event.seconds}
            return {"event": "measuring_chosen", **chosen, "obstacle": event.obstacle}
        case HeldOut():
            return {"event": "held_out", "rows": event.n_rows, "valid_rows": event.n_valid, "folds": event.n_folds}
        case NotHeldOut():
            return {"event": "not_held_out", "rows": event.n_rows, "epochs": event.n_epochs}
        case OneClass():
            return {"event": "one_class", "rows": event.n_rows}
        case Slowed():
            return {"event": "slowed", **vars(event)}
        case Challenged():
            given = event.options
            what = {"model": given.model, "ranks": list(given.ranks), "optimizer": given.optimizer.name}
            return {"event": "challenged", **what}
        case RivalsJudged():
            return {"event": "rivals_judged", "metric": event.metric, "values": event.values, "chosen": event.chosen}
        case NotRetrained():
            return {"event": "not_retrained", "rows": event.n_rows, "valid_rows": event.n_valid}
        case Selected():
            return {"event": "selected", "epochs": event.n_epochs, "rows": event.n_rows}
        case StartEvaluated():
            return {"event": "start", **{f"valid_{name}": value for name, value in event.metrics.items()}}
        case Planned():
            *levels, _ = event.levels() or [{}]
            sizes = {"features": event.plan.n_features, "parameters": event.plan.n_parameters}
            return {"event": "planned", "rows": event.n_rows, **sizes, "model": event.plan.family, "plan": levels}
        case Continued():
            return {"event": "continued", **vars(event)}
        case Searched() | Measuring() | Cut() | Calibrated():
            return {"event": type(event).__name__.lower(), **vars(event)}
        case Resumed():
            return {"event": "resumed", **vars(event)}
        case PieceFinished():
            place = {"epoch": event.epoch, "rows": event.rows, "of": event.n_rows, "train_loss": event.train_loss}
            return {"event": "piece", **place, "rows_per_second": event.rows_per_second, "seconds": event.seconds}
        case CheckpointWritten():
            return {"event": "checkpoint", **vars(event)}
        case EpochFinished():
            return {"event": "epoch", **event.entry(), "best": event.best, "seconds": event.seconds}
        case Distilled():
            found = {f"valid_{name}": value for name, value in event.metrics.items()}
            gap = {"samples": event.samples, "before": event.before, "after": event.after, "noise": event.noise}
            gap |= {"pull": event.pull}
            return {"event": "distilled", **gap, **found}
        case Finished():
            ended = {"epochs": len(event.model.history), "best_epoch": event.model.best_epoch}
            return {"event": "finished", "reason": event.reason, **ended}


def log_events(events: Iterable[Event], out: EventSink | None) -> Iterator[Event]:
    """Pass events through, writing each as a JSON line; if writing fails, training continues without."""
    for event in events:
        if out is not None:
            try:
                out.write(json.dumps(event_record(event), allow_nan=False) + "\n")
                out.flush()
            except BrokenPipeError:  # the reader closed the pipe: no need to tell it
                out = None
            except OSError as error:
                message = f"{out.name}: {error.strerror or error}; no more events are written, training continues"
                warnings.warn(message, stacklevel=2)
                out = None
        yield event
