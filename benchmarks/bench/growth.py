"""How does the time of an epoch grow with rows, features, nonzeros per row and rank, each varied alone?

In theory, it is proportional to rows, to nonzeros and, once vectors dominate, to the rank; it does not depend on the
number of features as long as their records fit into the cache. For RaFM, it is proportional to the active factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .shapes import even_rows, frappe_shaped
from .trainee import CALM, Trainee

N_FEATURES, PER_ROW, RANK = 4096, 8, 32
RANK_SETS = {
    "FM 32": (32,),
    "FM 128": (128,),
    "S2 {32,128,512}": (32, 128, 512),
    "S3 {32,64,...,512}": (32, 64, 128, 256, 512),
    "S1 {32,512}": (32, 512),
    "S4 {32,64,96,...,512}": tuple(range(32, 513, 32)),
    "FM 512": (512,),
}  # S1 to S4 are the sets of the paper's Table 2
THEORY = {"rows": 1.0, "features": 0.0, "nonzeros per row": 1.0, "rank": 1.0}
LARGE_RANK = 64  # the slope of the rank is fitted from here on: below, vectors do not dominate


def slope(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Fit log seconds = slope * log size + constant.

    >>> round(slope([1, 2, 4, 8], [3, 12, 48, 192]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def cases(n_rows: int) -> dict[str, list[tuple[int, dict[str, int]]]]:
    """Return the sizes to try for each axis, and the parameters of the rows."""
    base = {"n_rows": n_rows, "n_features": N_FEATURES, "per_row": PER_ROW, "rank": RANK}
    axes = {
        "rows": ("n_rows", [n_rows // 2, n_rows, 2 * n_rows, 4 * n_rows, 8 * n_rows]),
        "features": ("n_features", [512, 1024, 2048, 4096]),
        "nonzeros per row": ("per_row", [4, 8, 16, 32, 64]),
        "rank": ("rank", [8, 16, 32, 64, 128, 256, 512]),
    }
    return {axis: [(size, base | {key: size}) for size in sizes] for axis, (key, sizes) in axes.items()}


def epoch_of(n_rows: int, n_features: int, per_row: int, rank: int) -> Trainee:
    """Return a plain FM on uniformly drawn features."""
    return Trainee(even_rows(n_rows, n_features, per_row), "fm", (rank,), learning_rate=CALM)


def time_growth(n_rows: int, set_rows: int, repeats: int = 3, threads: int = 1) -> dict[str, Any]:
    """Time all cases of each axis, interleaved; fit the slopes; time the rank sets."""
    axes = {}
    for axis, sizes in cases(n_rows).items():
        trainees = [epoch_of(**case) for _, case in sizes]
        seconds = _in_turns(trainees, repeats)
        points = [[size, taken] for (size, _), taken in zip(sizes, seconds)]
        fitted = [(size, taken) for size, taken in points if axis != "rank" or size >= LARGE_RANK]
        axes[axis] = {"points": points, "slope": slope(*zip(*fitted)), "theory": THEORY[axis]}
    return {"axes": axes, "sets": _rank_sets(set_rows, repeats)}


def _in_turns(trainees: Sequence[Trainee], repeats: int) -> list[float]:
    """Return the CPU seconds of the fastest epoch of each, after a warm-up epoch."""
    for trainee in trainees:
        trainee.epoch()
    for _ in range(repeats):
        for trainee in trainees:
            trainee.time(1)
    return [trainee.best for trainee in trainees]


def _rank_sets(n_rows: int, repeats: int) -> list[dict[str, Any]]:
    rows = frappe_shaped(n_rows)
    trainees = [
        Trainee(rows, "rafm" if len(ranks) > 1 else "fm", ranks, learning_rate=CALM) for ranks in RANK_SETS.values()
    ]
    seconds, lines = _in_turns(trainees, repeats), []
    top = trainees[-1]  # FM 512
    for name, trainee, taken in zip(RANK_SETS, trainees, seconds):
        work = trainee.active_factors / top.active_factors
        lines.append({"ranks": name, "active_factors": trainee.active_factors, "of_top": work, "seconds": taken})
        lines[-1]["time_of_top"] = taken / top.best
    return lines
