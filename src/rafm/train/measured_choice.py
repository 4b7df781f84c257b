"""Decide whether ranks are measured, where no option asks for a model or an optimiser; see decision 0034."""

from __future__ import annotations

from dataclasses import replace

from ..checks import NEUTRAL_FOR_CLICKS
from ..flag_values import AUTO
from ..options import TrainingOptions, resolve
from ..rows.source import RowSource
from ..rows.stats import RowStats, count_rows
from .events import MeasuringChosen
from .steps.loader import labelled_blocks
from .steps.measured import check_limits, large_rank, megabytes_of, room_of
from .steps.search import CLICK_RANK, TRAIN_ROWS

LEAST_RANK = 128  # of the large model, for lack of memory; cut from less, it is not better than ranks by count
LEAST_OF_CLASS = 10_000  # rows of each class; with fewer, the tenth that is held out cannot tell which ranks are good
SEARCH_PASSES, LARGE_PASSES = 80, 40  # over the rows, of the short runs together and of the large model
ROW_SECONDS, NONZERO_SECONDS, FACTOR_SECONDS = 4e-7, 3e-8, 3e-10  # of a pass: by row, nonzero, and factor of one
MOST_SECONDS, SHARE_OF_TIME = 900.0, 0.5  # without a limit of time, and of such a limit


def measuring_for(source: RowSource, options: TrainingOptions, is_judged: bool) -> MeasuringChosen | None:
    """Return the event that ranks are measured, or that they would be if rows and time allowed it; else None.

    is_judged: whether there are rows to choose the ranks by, given or to be held out. A limit on the size that no model
    of these rows can meet is an error: here all rows are known, and none of them has been trained on.
    """
    if options.measured:
        check_limits(source, options)
    if not (options.may_measure and is_judged and options.shuffle):
        return None
    found = count_rows(labelled_blocks(source, options.family))
    if not has_many_of_each(found):
        return None
    rank = large_rank(found, options, LEAST_RANK)
    seconds = seconds_of(found, rank)
    if (obstacle := _obstacle(options, seconds, megabytes_of(found.ids.size, rank))) is not None:
        return MeasuringChosen(None, found.rows, seconds, obstacle)
    given = {name: getattr(options, name) for name in NEUTRAL_FOR_CLICKS}
    switches = {name: getattr(options, name) for name in ("keep_state", "memory", "reserved_bytes")}
    chosen = replace(resolve(task=options.loss.task, **given, ranks=AUTO), **switches)
    return MeasuringChosen(chosen, found.rows, seconds)


def _obstacle(options: TrainingOptions, seconds: float, megabytes: float) -> str | None:
    """Return why ranks are not measured by default, None if they are."""
    limit = MOST_SECONDS if options.max_seconds is None else SHARE_OF_TIME * options.max_seconds
    room = room_of(options)
    if seconds > limit:
        return f"takes about {seconds:.0f} s on one core, more than the {limit:g} s allowed"
    if megabytes > room:
        return f"takes {megabytes:.0f} MB besides the rows, more than {room:g}"
    return None


def has_many_of_each(found: RowStats) -> bool:
    """Return whether there are enough rows of both classes."""
    low, high = found.label_range
    share = (found.label_mean - low) / (high - low) if high > low else 0.0
    return min(share, 1 - share) * found.rows >= LEAST_OF_CLASS


def seconds_of(found: RowStats, rank: int) -> float:
    """Return about how long measuring takes on one core, by a constant speed: models must not depend on luck."""
    nonzeros = found.nonzeros / max(found.rows, 1)  # of a row

    def pass_of(n_rows: int, of_rank: int) -> float:
        return n_rows * (ROW_SECONDS + nonzeros * (NONZERO_SECONDS + FACTOR_SECONDS * of_rank))

    return SEARCH_PASSES * pass_of(min(found.rows, TRAIN_ROWS), CLICK_RANK) + LARGE_PASSES * pass_of(found.rows, rank)
