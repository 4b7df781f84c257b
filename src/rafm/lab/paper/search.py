"""Choose L2 on validation rows with one seed: a coarse grid, then neighbours of the best until none is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from .budget import L2_GRID
from .lab import Lab
from .tasks import Result, Run

Losses = Callable[[list[Run]], list[float]]


def loss_of(result: Result) -> float:
    """Return the validation loss, infinity for a run that diverged."""
    return inf if result["valid"] is None else result["valid"]


def neighbours(l2: float) -> list[float]:
    """Return the neighbours of a value in the paper's grid.

    >>> neighbours(0.01), neighbours(0.1)
    ([0.005, 0.05], [0.05])
    """
    at = L2_GRID.index(l2)
    return [L2_GRID[k] for k in (at - 1, at + 1) if 0 <= k < len(L2_GRID)]


def choose_l2(lab: Lab, runs: Sequence[Run], coarse: Sequence[float], refine: bool) -> list[Run]:
    """Return each run with the L2 of the lowest validation loss."""
    return search(runs, coarse, refine, lambda tries: [loss_of(own) for own in lab.results([t.task() for t in tries])])


def search(runs: Sequence[Run], coarse: Sequence[float], refine: bool, losses: Losses) -> list[Run]:
    """Try each run with the coarse values, then with the neighbours of its best value until none is better."""
    known: dict[Run, dict[Run, float]] = {run: {} for run in runs}
    wanted = {run: [replace(run, l2=l2) for l2 in coarse] for run in runs}
    while any(wanted.values()):
        # One call for all runs of a round, so that the pool can train them in parallel.
        found = iter(losses([each for own in wanted.values() for each in own]))
        for run, own in wanted.items():
            known[run] |= {each: next(found) for each in own}
        wanted = {run: _next(own) if refine else [] for run, own in known.items()}
    return [min(known[run], key=known[run].__getitem__) for run in runs]


def _next(known: dict[Run, float]) -> list[Run]:
    best = min(known, key=known.__getitem__)  # the search ends when both neighbours of the best are known
    beside = [replace(best, l2=l2) for l2 in neighbours(best.l2)]
    return [each for each in beside if each not in known]
