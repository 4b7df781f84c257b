"""Write training events as JSON lines, for scripts.

    {"event": "decided", "reason": "sampled", "rows": ..., "rank": ...}
    {"event": "decided", "reason": "measured" or "count", "rows": ..., "seconds": ..., "obstacle": ...}
    {"event": "held_out", "rows": ..., "valid_rows": ..., "folds": ...}
    {"event": "not_held_out", "rows": ..., "epochs": ...}
    {"event": "one_class", "rows": ...}
    {"event": "slowed", "share": ..., "diverged": ...}
    {"event": "trying", "model": ..., "ranks": [...], "optimizer": ...}
    {"event": "chosen", "metric": ..., "values": {...}, "chosen": ...}
    {"event": "not_retrained", "rows": ..., "valid_rows": ...}
    {"event": "selected", "epochs": ..., "rows": ...}
    {"event": "planned", "rows": ..., "features": ..., "parameters": ..., "model": ..., "plan": [...]}
    {"event": "continued", "features": ..., "new": ..., "with_states": ..., "promoted": ..., "pair_error": ...}
    {"event": "begun", "features": ..., "new": ..., "is_given": ...}
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

Events of the trial of a candidate have its name as "candidate"; those without it are of the model that is kept.
Future versions may add keys but not remove any. Undefined values are null.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from .events import Event


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


def log_events(events: Iterable[Event], out: EventSink | None) -> Iterator[Event]:
    """Pass events through, writing each as a JSON line; if writing fails, training continues without."""
    for event in events:
        if out is not None:
            try:
                out.write(json.dumps(event.record(), allow_nan=False) + "\n")
                out.flush()
            except BrokenPipeError:  # the reader closed the pipe: no need to tell it
                out = None
            except OSError as error:
                message = f"{out.name}: {error.strerror or error}; no more events are written, training continues"
                warnings.warn(message, stacklevel=2)
                out = None
        yield event
