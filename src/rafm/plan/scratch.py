"""Scratch memory of the kernels, separate for each thread.

Cores fetch cache lines in pairs and prefetch up to the end of a page. That takes lines away from a core that is writing
to them, and getting them back is slow: with scratch memory in a common page, training on two threads took up to twice
as long. So each thread has pages of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..kernels.tables import (
    CHUNK_ROWS,
    GROUPS,
    SHARES,
    FieldScratch,
    FieldWeights,
    NoFieldWeights,
    ScoringScratch,
    Tables,
    TrainingScratch,
    WideScratch,
)
from .layout import RecordLayout, round_up

LINE_BYTES, PAGE_BYTES = 64, 4096
Wanted = tuple[tuple[int, ...], Any]  # shape and type of an array


def make_scoring_scratch(
    tables: Tables, longest: int, dtype: Any = np.float32, own_pages: bool = True
) -> ScoringScratch:
    """Allocate scratch memory for scoring rows of at most `longest` entries; own_pages: see above."""
    widest = int(tables.widths.max(initial=0))
    own = {"sums": ((2 * widest,), dtype), "places": ((longest,), np.int64), "ends": ((tables.strides.size,), np.int64)}
    if not own_pages:
        return ScoringScratch(**{name: np.zeros(*wanted) for name, wanted in own.items()})
    return ScoringScratch(**on_pages(own))


def make_training_scratch(
    layout: RecordLayout, tables: Tables, longest: int, batch_size: int = 1, dtype: Any = np.float32, threads: int = 1
) -> list[TrainingScratch]:
    """Allocate scratch memory for each thread, for mini-batches of rows of at most `longest` entries."""
    levels, lanes, part = tables.strides.size, round_up(batch_size, 4), batch_size * tables.part
    whole = round_up(part + layout.plan.n_field_weights, PAGE_BYTES // np.dtype(dtype).itemsize)
    shared = on_pages(
        {
            "passed": ((GROUPS * whole if threads > 1 else 0,), dtype),
            "heads": ((layout.place_heads(tables.bounds)[1],), dtype),
        }
    )
    own = {
        "parts": ((GROUPS * part,), dtype),
        "sums": ((batch_size * tables.row,), dtype),
        "scores": ((levels, lanes), dtype),
        "exp_neg_abs": ((levels, lanes), dtype),
        "log_1p": ((lanes,), dtype),
        "slopes": ((batch_size, levels), dtype),
        "losses": ((batch_size,), np.float64),
        "places": ((GROUPS * batch_size, longest + 1), np.int64),
        "ends": ((GROUPS * batch_size, levels), np.int64),
        "head_ends": ((GROUPS * batch_size, levels), np.int64),
        "bias": ((4,), dtype),
    }
    return [TrainingScratch(**shared, **on_pages(own)) for _ in range(threads)]


def make_wide_scratch(
    tables: Tables, longest: int, step_rows: int, n_fields: int, dtype: Any = np.float32, threads: int = 1
) -> list[WideScratch]:
    """Allocate scratch memory for each thread, for wide steps of rows of at most `longest` entries."""
    levels, lanes = tables.strides.size, round_up(step_rows, CHUNK_ROWS)
    shared = on_pages(
        {
            "sums": ((step_rows * tables.row,), dtype),
            **dict.fromkeys(("scores", "exp_neg_abs"), ((levels, lanes), dtype)),
            "log_1p": ((lanes,), dtype),
            "slopes": ((step_rows, levels), dtype),
            "losses": ((step_rows,), np.float64),
            "totals": ((lanes // CHUNK_ROWS, 3), np.float64),
            "field_sums": ((SHARES, round_up(n_fields, LINE_BYTES // np.dtype(dtype).itemsize)), dtype),
        }
    )
    own = {
        "places": ((1, longest + 1), np.int64),
        **dict.fromkeys(("ends", "head_ends"), ((1, levels), np.int64)),
        "bias": ((4,), dtype),
        "listed": ((step_rows,), np.int64),
        **dict.fromkeys(("slope_x", "slope_xx", "decays", "cs", "ds"), ((step_rows,), dtype)),
        "gradient": ((int(tables.widths.max(initial=0)),), dtype),
    }
    return [WideScratch(**shared, parts=shared["sums"], **on_pages(own)) for _ in range(threads)]


def make_field_scratch(
    shared: np.ndarray | None, tables: Tables, longest: int, batch_size: int, threads: int
) -> list[FieldWeights] | list[NoFieldWeights]:
    """Allocate the field weights of each thread, which share one array; None if there are none."""
    if shared is None:
        return [NoFieldWeights()] * threads
    n_fields, dtype, widest = shared.shape[1], shared.dtype, int(tables.widths.max(initial=0))
    own: dict[str, Wanted] = {
        **dict.fromkeys(("weights", "states", "total"), ((n_fields,), dtype)),
        "sums": ((GROUPS, n_fields), dtype),
        "values": ((GROUPS * batch_size, longest + 1), dtype),
        "numbers": ((GROUPS * batch_size, longest + 1), np.int64),
        "direction": ((widest,), dtype),
    }
    return [FieldWeights(shared, **on_pages(own)) for _ in range(threads)]


def make_field_vector_scratch(
    layout: RecordLayout, tables: Tables, longest: int, batch_size: int = 1, dtype: Any = np.float32, threads: int = 1
) -> list[FieldScratch]:
    """Allocate scratch memory for each thread, for mini-batches of rows of a field-aware model."""
    n_fields = min(tables.widths.size, max(longest, 1))  # of a row
    shared = on_pages(
        {
            "heads": ((layout.place_heads(tables.bounds)[1],), dtype),
            "sums": ((batch_size * tables.row,), dtype),
            **dict.fromkeys(("scores", "exp_neg_abs", "log_1p"), ((4 * batch_size,), dtype)),
            "slopes": ((batch_size,), dtype),
            "losses": ((batch_size,), np.float64),
            **dict.fromkeys(("places", "own"), ((batch_size, max(longest, 1)), np.int64)),
            **dict.fromkeys(("fields", "shifts", "states", "members", "firsts"), ((batch_size, n_fields), np.int64)),
            "counts": ((batch_size,), np.int64),
        }
    )
    own: dict[str, Wanted] = dict.fromkeys(("lookup", "all_states"), ((tables.widths.size,), np.int64))
    own["bias"] = (4,), dtype
    found = [FieldScratch(**shared, **on_pages(own)) for _ in range(threads)]
    for one in found:
        one.lookup[:], one.all_states[:] = -1, tables.states + np.arange(tables.widths.size)
    return found


def field_vector_tables(tables: Tables, longest: int) -> Tables:
    """Return tables for rows that sum a vector for each pair of their fields."""
    return tables._replace(row=min(tables.widths.size, max(longest, 1)) ** 2 * int(tables.widths[0]))


def on_pages(wanted: Mapping[str, Wanted]) -> dict[str, np.ndarray]:
    """Allocate arrays of zeros on pages of their own, each starting on a cache line.

    >>> [array.ctypes.data % 4096 for array in on_pages({"a": ((3, 9), float), "b": ((5,), np.int8)}).values()]
    [0, 256]
    """
    sizes = [round_up(math.prod(shape) * np.dtype(dtype).itemsize, LINE_BYTES) for shape, dtype in wanted.values()]
    block, found = np.zeros(round_up(sum(sizes), PAGE_BYTES) + PAGE_BYTES, np.uint8), {}
    start = -block.ctypes.data % PAGE_BYTES  # NumPy aligns to 16 bytes only; skip to the next page
    for (name, (shape, dtype)), size in zip(wanted.items(), sizes):
        found[name] = np.ndarray(shape, dtype, block, start)
        start += size
    return found
