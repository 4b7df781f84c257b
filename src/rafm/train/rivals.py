"""Decide which other models compete with the usual one, where no option asks for a model; see decision 0037.

Rows that are held out judge all of them: a linear model, an FM of a low rank, and an FM that is sampled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..checks import PASSED_ON
from ..metrics import is_better
from ..optimizers import SAMPLERS
from ..options import TrainingOptions, resolve
from ..rows.source import RowSource
from ..rows.stats import RowStats, count_rows
from .sampler_choice import can_be_sampled, sampled_rank
from .steps.loader import labelled_blocks

MOST_ROWS = 400_000  # beyond these the usual model has not been seen to lose, and each rival takes its time
LEAST_GAIN = 1e-3  # relative: with less, the usual model stays
# Rivals that are this much worse after this epoch, or sweep, are given up. Between these sweeps burn-in ends, after
# which the mean of few samples is worse than it will be.
HOPELESS = {5: 0.1}, {20: 0.1, 60: 0.03}
FM_RANK = 8


def rivals_of(source: RowSource, options: TrainingOptions, usual: TrainingOptions) -> Iterator[TrainingOptions]:
    """Yield the options of the models that compete with the usual one; options: those given.

    A sampled model of clicks is the last one: it is kept as it is, so nothing may be trained between it and the end.
    """
    if not (options.rivals and options.shuffle):
        return
    found = count_rows(labelled_blocks(source, options.family))
    if found.rows > MOST_ROWS:
        return
    for name in options.rivals:
        if name not in SAMPLERS:
            yield _variant(options, model=name, ranks=FM_RANK if name == "fm" else None)
        elif not usual.optimizer.is_sampler and _can_be_sampled(source, found, options):
            yield _variant(options, model="fm", ranks=sampled_rank(found), optimizer=name)


def _variant(options: TrainingOptions, **model: object) -> TrainingOptions:
    """Return options of another model, with all else as given."""
    # A sampled model of clicks is calibrated whatever is asked for.
    names = PASSED_ON - ({"calibrate"} if "optimizer" in model else set())
    given = {name: getattr(options, name) for name in names}
    switches = {name: getattr(options, name) for name in ("keep_state", "memory", "reserved_bytes")}
    return replace(resolve(task=options.loss.task, **given, **model), **switches)


def _can_be_sampled(source: RowSource, found: RowStats, options: TrainingOptions) -> bool:
    """Return whether these rows can be sampled, and in the time that there is."""
    if not can_be_sampled(source, found, sampled_rank(found), options):
        return False
    if not options.loss.is_classification:
        return options.loss.name == "squared"
    blocks = labelled_blocks(source, options.family)
    are_equal = all(block.weights is None or bool((np.asarray(block.weights) == 1).all()) for block in blocks)
    return are_equal and found.label_range == (0.0, 1.0)


def is_worth_more(metric: str, value: float | None, usual: float | None) -> bool:
    """Return whether a rival's value is better by more than LEAST_GAIN.

    >>> is_worth_more("log_loss", 0.49, 0.5), is_worth_more("log_loss", 0.4999, 0.5), is_worth_more("auc", 0.8, 0.7)
    (True, False, True)
    """
    if value is None or usual is None:
        return value is not None
    return is_better(metric, value, usual) and abs(value - usual) > LEAST_GAIN * abs(usual)


def is_hopeless(metric: str, epoch: int, value: float | None, rival: float | None, is_sampled: bool) -> bool:
    """Return whether a model whose best value after an epoch, or sweep, is this can be given up.

    >>> is_hopeless("log_loss", 5, 0.3, 0.2, is_sampled=False), is_hopeless("log_loss", 5, 0.21, 0.2, is_sampled=False)
    (True, False)
    >>> is_hopeless("log_loss", 31, 0.3, 0.2, is_sampled=True)
    False
    """
    limit = HOPELESS[is_sampled].get(epoch)
    if limit is None or value is None or rival is None:
        return False
    return is_better(metric, rival, value) and abs(value - rival) > limit * abs(rival)
