"""Draw the trials of a study: value against size."""

from __future__ import annotations

from ..charts import STYLE, Axis, Series, chart
from ..metrics import metric_class
from .records import Record, frontier, settings_text
from .tune import Tuned


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
