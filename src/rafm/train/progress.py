"""Print training events as text: the rank plan first, then one line per epoch.

On a terminal, a progress bar below shows the current epoch; a pipe or file gets only the lines.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any, TextIO

from ..files.board import LiveBoard, PlainBoard
from ..metrics import shown_metrics
from ..options import Options
from .events import EpochFinished, Event, Finished, PieceFinished, Planned, StartEvaluated, table_header


def show_events(
    events: Iterable[Event],
    options: Options,
    enabled: bool = True,
    stream: TextIO | None = None,
    spell: Callable[[str], str] = lambda text: text.replace("`", ""),
) -> Iterator[Event]:
    """Pass events through, printing each; `spell` rewrites names of options, which are in backticks.

    Of candidates that compete with the first one, only their names and results are shown.
    """
    if not enabled:
        yield from events
        return
    out, shown = stream or sys.stdout, _Lines(shown_metrics(options.loss, options.metric))
    with (_Bar if out.isatty() else PlainBoard)(out) as board:
        for event in events:
            with suppress(OSError):  # a closed pipe or a full disk must not stop training
                board.show([spell(line) for line in shown.of(event)])
                board.update(event)
            yield event


class _Lines:
    """Chooses the lines of each event, and sets a heading above each table of epochs."""

    def __init__(self, metrics: list[str]):
        self.metrics, self.is_headed, self.is_one_class = metrics, False, False
        self.first: str | None = None  # name of the first candidate

    def of(self, event: Event) -> list[str]:
        """Return the lines to print for an event."""
        self.first = self.first or event.candidate
        self.is_one_class |= isinstance(event, Planned) and event.one_class
        self.is_headed &= not event.begins_table
        if event.candidate not in ("", self.first):
            return []
        if self.is_one_class and isinstance(event, Finished) and event.reason == "epochs":
            return []  # more epochs teach nothing more
        lines = event.lines()
        if not (lines and isinstance(event, EpochFinished | StartEvaluated)) or self.is_headed:
            return lines
        self.is_headed = True
        return [table_header(self.metrics, bool(event.metrics)), *lines]


class _Bar(LiveBoard):
    """Shows speed, remaining time and loss of the epoch beside a bar."""

    def __init__(self, out: TextIO):
        from rich.progress import BarColumn, Progress

        super().__init__(out)
        columns = ("{task.fields[speed]} rows/s", "{task.fields[left]} left", "train loss {task.fields[loss]}")
        epoch = "epoch {task.fields[epoch]}"
        self.below = Progress(epoch, BarColumn(), *columns, console=self.console, transient=True)
        self.task = self.below.add_task("", visible=False, epoch=0, speed="", left="", loss="")

    def update(self, event: Event) -> None:
        """Move the bar, or hide it between epochs."""
        if isinstance(event, PieceFinished):
            done: Any = {"total": event.n_rows, "completed": event.rows, **_pace(event)}
            self.below.update(self.task, visible=True, **done)
        elif isinstance(event, EpochFinished):
            self.below.update(self.task, visible=False)


def _pace(event: PieceFinished) -> dict[str, str]:
    """Return epoch, speed, remaining time of the epoch (or of all, if it is known) and loss as text.

    >>> _pace(PieceFinished(2, rows=65536, n_rows=6_553_600, train_loss=0.4, seconds=2.0))
    {'epoch': '2', 'speed': '32,768', 'left': '0:03:18', 'loss': '0.40000'}
    """
    speed = event.rows_per_second
    seconds = (event.n_rows - event.rows) / speed if event.seconds_left is None else event.seconds_left
    left = timedelta(seconds=round(seconds))
    return {"epoch": f"{event.epoch}", "speed": f"{speed:,.0f}", "left": f"{left}", "loss": f"{event.train_loss:.5f}"}
