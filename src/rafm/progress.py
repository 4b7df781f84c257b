"""Events as lines that people and scripts can read: the plan before training, then one line per epoch."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TextIO

from .options import TrainingOptions
from .ranks import RankPlan, describe_plan
from .trainer import EpochFinished, Event, Planned


def plan_lines(event: Planned) -> list[str]:
    """Return the plan as a table: per level what it costs, then the model and a plain FM of the top rank.

    >>> import numpy as np
    >>> from rafm.ranks import RankPlan
    >>> plan = RankPlan("rafm", (4, 16), (100, 100, 10, 0))
    >>> print("\\n".join(plan_lines(Planned(plan, np.arange(100, 0, -1), n_rows=1000))))
    level  rank  features  share of nonzeros  parameters      bytes  factors/row
        1     4       100              1.000         400       1600         20.2
        2    16        10              0.189         160        640         15.3
    model                                            661       2644         35.5  rafm with weights and bias
       FM    16       100              1.000        1701       6804         80.8  for comparison
    """
    return level_lines(event.plan, describe_plan(event.plan, event.counts, event.n_rows))


def level_lines(plan: RankPlan, described: list[dict[str, float]]) -> list[str]:
    """Return the same of a plan that has been described."""
    *levels, fm = described or [{}]
    lines = ["level  rank  features  share of nonzeros  parameters      bytes  factors/row"]
    lines += [_plan_line(str(level), row) for level, row in enumerate(levels, start=1)]
    work = sum(row["factors_per_row"] for row in levels)
    model = {"parameters": plan.n_parameters, "factors_per_row": work}
    lines.append(_plan_line("model", model) + f"  {plan.family} with weights and bias")
    if fm:
        fm = fm | {"parameters": fm["parameters"] + plan.n_features + 1}
        lines.append(_plan_line("FM", fm) + "  for comparison")
    return lines


def _plan_line(name: str, row: dict[str, float]) -> str:
    size = f"{row['rank']:5.0f} {row['features']:9.0f} {row['share_of_nonzeros']:18.3f}" if "rank" in row else " " * 34
    return f"{name:>5} {size} {row['parameters']:11.0f} {4 * row['parameters']:10.0f} {row['factors_per_row']:12.1f}"


def epoch_header(options: TrainingOptions, judged: bool) -> str:
    """Return the heading of the epoch table."""
    names = {"log_loss": ("valid loss", "valid auc"), "rmse": ("valid rmse", "valid mae")}[options.loss.metric]
    columns = ["epoch", "train loss" if options.loss.metric == "log_loss" else "train rmse"]
    columns += names if judged else ()
    return "   ".join([columns[0], *(f"{name:>10}" for name in columns[1:]), "seconds"])


def epoch_line(event: EpochFinished) -> str:
    """Return one line of the epoch table.

    >>> epoch_line(EpochFinished(2, 0.45102, {"log_loss": 0.45711, "auc": 0.775}, 3.04, best=True))
    '    2      0.45102      0.45711      0.77500       3.0  best'
    """
    numbers = [event.train_loss, *event.metrics.values()]
    shown = "".join(f"   {number:10.5f}" if number is not None else f"   {'-':>10}" for number in numbers)
    return f"{event.epoch:5d}{shown}   {event.seconds:7.1f}{'  best' if event.best else ''}"


def show_events(
    events: Iterable[Event], options: TrainingOptions, enabled: bool = True, stream: TextIO | None = None
) -> Iterator[Event]:
    """Pass events on, printing each as it comes."""
    out = stream or sys.stdout
    for event in events:
        if enabled and (lines := event_lines(event, options)):
            with suppress(OSError):  # a reader that has left, or a full disk, must not cost the model
                print("\n".join(lines), file=out, flush=True)
        yield event


def event_lines(event: Event, options: TrainingOptions) -> list[str]:
    """Return what to print for an event."""
    if isinstance(event, Planned):
        return plan_lines(event)
    if isinstance(event, EpochFinished):
        heading = [epoch_header(options, bool(event.metrics))] if event.epoch == 1 else []
        return [*heading, epoch_line(event)]
    return []
