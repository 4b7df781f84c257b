"""Decide whether a model of ratings is sampled, where no option asks for a model or an optimiser.

Decision 0022 has the rule, and decision 0036 that of models to be cut to a size.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..checks import NEUTRAL, SAMPLED_RANK, SIZES
from ..flag_values import AUTO
from ..optimizers import SAMPLERS
from ..options import TrainingOptions, resolve
from ..rows.source import RowSource
from ..rows.stats import RowStats, count_rows
from .events import SamplerChosen
from .steps.loader import labelled_blocks

LEAST_ROWS = 5_000  # with fewer, folds choose the epochs, and models are trained by steps
LEAST_FIELDS = 2  # if they are known; as many features per row if not
MOST_NONZEROS = 40  # of a row
LABEL_SPREADS = 12.0  # ratings have no long tails: at most this range, in standard deviations
LARGE_RANK, MANY_ROWS = 16, 200_000  # the larger rank from this many rows on
RANK_TO_CUT, LEAST_RANK, ROWS_PER_RANK = 32, 8, 1000  # of a model to be cut to a size
SWEEPS, NONZERO_SECONDS = 300, 5e-9  # those of both runs, and of a sweep for each nonzero and factor
MOST_SECONDS, SHARE_OF_TIME = 900.0, 0.5  # without a limit of time, and of such a limit
ROW_BYTES, ENTRY_BYTES, NUMBER_BYTES = 40, 20, 16  # of a row, a nonzero and a parameter, as given and in the sampler


def sampler_for(source: RowSource, options: TrainingOptions, is_judged: bool) -> SamplerChosen | None:
    """Return the event that an FM is sampled, with its options; None if these rows are better trained by steps.

    is_judged: whether there are rows to measure the noise on, given or to be held out.
    """
    fields = source.fields
    if not options.may_sample or not is_judged or (fields is not None and len(fields.names) < LEAST_FIELDS):
        return None
    found = count_rows(labelled_blocks(source, options.family))
    if fields is None and found.nonzeros < LEAST_FIELDS * found.rows:
        return None
    ranks = ranks_to_cut(found.rows) if options.measured else [sampled_rank(found)]
    possible = [rank for rank in ranks if can_be_sampled(source, found, rank, options)]
    if not possible or not are_ratings(found):
        return None
    given = {name: getattr(options, name) for name in (*NEUTRAL, *SIZES)}
    asked = {"ranks": AUTO} if options.measured else {"model": "fm", "ranks": possible[0]}
    chosen = resolve(task=options.loss.task, **given, **asked, optimizer=next(iter(SAMPLERS)))
    switches = {name: getattr(options, name) for name in ("keep_state", "memory", "reserved_bytes")}
    return SamplerChosen(replace(chosen, **switches, large_rank=possible[0] if options.measured else None), found.rows)


def ranks_to_cut(n_rows: int) -> list[int]:
    """Return possible ranks of a model to be cut to a size, the best one first.

    >>> ranks_to_cut(1_000_000), ranks_to_cut(20_000), ranks_to_cut(500)
    ([32, 16, 8], [16, 8], [8])
    """
    ranks = [RANK_TO_CUT]
    while ranks[-1] > LEAST_RANK:
        ranks.append(ranks[-1] // 2)
    return [rank for rank in ranks if rank * ROWS_PER_RANK <= n_rows] or [LEAST_RANK]


def sampled_rank(found: RowStats) -> int:
    """Return the rank of a sampled model."""
    return LARGE_RANK if found.rows >= MANY_ROWS else SAMPLED_RANK


def can_be_sampled(source: RowSource, found: RowStats, rank: int, options: TrainingOptions) -> bool:
    """Return whether there are rows enough to sample, but not more than time and memory allow."""
    is_short, is_quick = found.nonzeros <= MOST_NONZEROS * found.rows, not _is_too_long(found, rank, options)
    return found.rows > LEAST_ROWS and is_short and is_quick and _fits(source, found, rank, options)


def are_ratings(found: RowStats) -> bool:
    """Return whether these are many short rows of categories, with labels that have no long tails.

    >>> found = RowStats(9000, 18000, 2, np.arange(3), np.full(3, 6000), np.full(3, 6000.0), 9000, 3.5, 1.0, (1, 5))
    >>> are_ratings(found), are_ratings(replace(found, rows=500)), are_ratings(replace(found, label_range=(0, 90)))
    (True, False, False)
    >>> are_ratings(replace(found, squares=np.full(3, 9000.0)))  # measured values
    False
    """
    low, high = found.label_range
    return (
        found.rows > LEAST_ROWS
        and found.nonzeros <= MOST_NONZEROS * found.rows
        and high - low <= LABEL_SPREADS * found.label_spread
        and bool(np.array_equal(found.squares, found.counts))
    )


def _is_too_long(found: RowStats, rank: int, options: TrainingOptions) -> bool:
    """Return whether sampling would take longer than it may, by a constant speed: models must not depend on luck."""
    limit = MOST_SECONDS if options.max_seconds is None else SHARE_OF_TIME * options.max_seconds
    return SWEEPS * NONZERO_SECONDS * found.nonzeros * (rank + 1) > limit


def _fits(source: RowSource, found: RowStats, rank: int, options: TrainingOptions) -> bool:
    """Return whether the sampler's form of the rows fits in memory."""
    return source.in_memory or sampler_bytes(found, found.ids.size * (1 + rank)) <= 1e6 * (options.memory or 0)


def sampler_bytes(found: RowStats, n_parameters: int) -> int:
    """Return how many bytes the sampler takes, with the rows as given."""
    return ROW_BYTES * found.rows + ENTRY_BYTES * int(found.counts.sum()) + NUMBER_BYTES * n_parameters
