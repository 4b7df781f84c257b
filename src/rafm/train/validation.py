"""Doubts about validation rows that are given: too few, or copies of the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..errors import DataWarning, caller_level
from ..optimizers import SAMPLERS
from ..options import TrainingOptions
from ..rows.overlap import Copies
from .events import Event

FEW_ROWS = 30  # with fewer, which epoch or model is the best is mostly luck


def for_copies(options: TrainingOptions) -> TrainingOptions:
    """Return options for validation rows that are training rows.

    A model's scores of training rows are further apart than those of others, so it is not calibrated on them.
    """
    rivals = tuple(name for name in options.rivals if not (name in SAMPLERS and options.loss.is_classification))
    return replace(options, calibrate="off", rivals=rivals)


def with_doubts(events: Iterable[Event], found: Copies) -> Iterator[Event]:
    """Pass events through; warn of doubtful validation rows after the first one, when all checks have passed."""
    lines = [*few_rows(found.n_rows), *copied_rows(found)]
    for event in events:
        while lines:
            warnings.warn(DataWarning(lines.pop(0)), stacklevel=caller_level())
        yield event


def few_rows(n_rows: int) -> Iterator[str]:
    """Yield the warning of a few rows."""
    if 0 < n_rows < FEW_ROWS:
        rows = "a single validation row decides" if n_rows == 1 else f"only {n_rows} validation rows decide"
        way_out = "or none at all, so that some of the training rows are held out"
        yield f"{rows} how long to train and which model to keep, mostly by luck; give at least {FEW_ROWS}, {way_out}"


def copied_rows(found: Copies) -> Iterator[str]:
    """Yield the warning of training rows among the validation rows."""
    if found.are_most():
        yield (
            f"{found.n_copies / found.n_compared:.0%} of the validation rows are training rows, which say nothing "
            "about new ones: training may go on for too long, and the model is not calibrated on them; give other "
            "rows, or none, so that some are held out"
        )
