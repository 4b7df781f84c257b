"""Print trials, and the frontier of value against size, as tables; draw them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TextIO

from ..charts import STYLE, Axis, Series, chart
from ..files.board import LiveBoard, PlainBoard
from ..metrics import metric_class
from .records import Record, frontier, settings_text
from .tune import Event, TrialFinished, TrialProgress, TrialStarted, Tuned


def trial_header(metric: str) -> str:
    """Return the heading of the table of trials."""
    return f"trial   {'valid ' + metric_class(metric).heading:>14}   parameters   epochs   seconds   settings"


def trial_line(event: TrialFinished) -> str:
    """Return the line of a trial.

    >>> trial_line(TrialFinished(Record(3, "complete", 0.451, 1200, 9, 2.04, {"l2": 0.01}), is_best=True))
    '    3          0.45100         1200        9       2.0   l2=0.01  best'
    """
    record, one = event.record, record_cells(event.record)
    note = "  best" if event.is_best else "" if record.is_complete else f"  {record.state}"
    return f"{record.number:5d}   {one}   {settings_text(record.settings)}{note}"


def record_cells(record: Record) -> str:
    """Return value, parameters, epochs and seconds as text of fixed width."""
    value = "-" if record.value is None else f"{record.value:.5f}"
    return f"{value:>14}   {record.parameters:10d}   {record.epochs:6d}   {record.seconds:7.1f}"


def frontier_lines(event: Tuned) -> list[str]:
    """Return the table of the trials that no other trial beats in both size and value."""
    lines = [f"frontier of {metric_class(event.metric).heading} against size:", trial_header(event.metric)]
    for record in frontier(event.records, event.metric):
        note = "  chosen" if record.number == event.best.number else ""
        lines.append(f"{record.number:5d}   {record_cells(record)}   {settings_text(record.settings)}{note}")
    return lines


def show_trials(events: Iterable[Event], metric: str, stream: TextIO | None = None) -> Iterator[Event]:
    """Pass events through, printing a line per trial; on a terminal, a line below shows the running one."""
    out, is_headed = stream or sys.stdout, False
    with (_Status if out.isatty() else PlainBoard)(out) as board:
        for event in events:
            with suppress(OSError):  # a closed pipe or a full disk must not stop tuning
                if isinstance(event, TrialFinished):
                    board.show([*([] if is_headed else [trial_header(metric)]), trial_line(event)])
                    is_headed = True
                board.update(event)
            yield event


class _Status(LiveBoard):
    """Shows the running trial in a line."""

    def __init__(self, out: TextIO):
        super().__init__(out)
        self.below = self.console.status("")

    def update(self, event: Event) -> None:
        """Show the trial that an event is about."""
        if isinstance(event, TrialStarted | TrialProgress):
            self.below.update(running_line(event))


def running_line(event: TrialStarted | TrialProgress) -> str:
    """Return the line about the running trial.

    >>> running_line(TrialProgress(4, 7, 0.4512, seconds=31.0, of_seconds=120.0))
    'trial 4, epoch 7: best 0.45120; 31 of 120 seconds'
    """
    if isinstance(event, TrialStarted):
        return f"trial {event.number}: {settings_text(event.settings)}"
    of = "" if event.of_seconds is None else f" of {event.of_seconds:.0f}"
    return f"trial {event.number}, epoch {event.epoch}: best {event.value:.5f}; {event.seconds:.0f}{of} seconds"


def frontier_svg(found: Tuned) -> str:
    """Return a picture of all complete trials; those that no other one beats are joined by a line."""
    heading, best = metric_class(found.metric).heading, found.best
    shown = [record for record in found.records if record.is_complete]
    edge = frontier(shown, found.metric)
    series = [
        Series("trials", *_places(shown), "marks", 5, [_label(record) for record in shown]),
        Series("frontier", *_places(edge), "line", 1),
        Series("chosen", *_places([best]), "marks", 2, [_label(best)]),
    ]
    title = f"validation {heading} against number of parameters"
    return chart(title, Axis("parameters", is_log=True), Axis(f"valid {heading}"), series, style=STYLE)


def _places(records: list[Record]) -> tuple[list[float], list[float]]:
    return [float(record.parameters) for record in records], [float(record.value or 0) for record in records]


def _label(record: Record) -> str:
    return f"trial {record.number}: {record.value:.5f}, {settings_text(record.settings)}"
