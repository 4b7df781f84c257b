"""Choose L2 and learning rate on validation rows with one seed: try neighbours of the best until none is better."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from .budget import L2_GRID
from .lab import Lab
from .tasks import Result, Run

DOUBLINGS = 2  # of the number of epochs
Losses = Callable[[list[Run]], list[float]]
Beside = Callable[[Run], list[Run]]  # what to try next to the best run


def loss_of(result: Result) -> float:
    """Return the validation loss, infinity for a run that diverged."""
    return inf if result["valid"] is None else result["valid"]


def losses_in(lab: Lab) -> Losses:
    """Return what trains runs that are not stored yet and returns the validation losses of all."""
    return lambda runs: [loss_of(own) for own in lab.results([run.task() for run in runs])]


def neighbours(l2: float) -> list[float]:
    """Return the neighbours of a value in the paper's grid.

    >>> neighbours(0.01), neighbours(0.1)
    ([0.005, 0.05], [0.05])
    """
    at = L2_GRID.index(l2)
    return [L2_GRID[k] for k in (at - 1, at + 1) if 0 <= k < len(L2_GRID)]


def beside_in_l2(run: Run) -> list[Run]:
    """Return a run with the neighbours of its L2."""
    return [replace(run, l2=l2) for l2 in neighbours(run.l2)]


def beside_in_rate(run: Run, usual: float) -> list[Run]:
    """Return a run with half and with twice its learning rate; the usual one is None, as in keys of stored runs.

    >>> [[run.rate for run in beside_in_rate(Run("frappe", "fm", rate=rate), 0.2)] for rate in (None, 0.1)]
    [[0.1, 0.4], [0.05, None]]
    """
    rate = usual if run.rate is None else run.rate
    return [replace(run, rate=None if each == usual else each) for each in (rate / 2, rate * 2)]


def alone(run: Run) -> list[Run]:
    """Return nothing, for searches that end with what they start from."""
    return []


def choose_l2(lab: Lab, runs: Sequence[Run], coarse: Sequence[float], refine: bool) -> list[Run]:
    """Return each run with the L2 of the lowest validation loss."""
    return search(runs, coarse, refine, losses_in(lab))


def search(runs: Sequence[Run], coarse: Sequence[float], refine: bool, losses: Losses) -> list[Run]:
    """Try each run with the coarse values, then with the neighbours of its best value until none is better."""
    starts = [[replace(run, l2=l2) for l2 in coarse] for run in runs]
    return explore(starts, beside_in_l2 if refine else alone, losses)


def choose_rate(lab: Lab, runs: Sequence[Run], usual: float, refine: bool) -> list[Run]:
    """Return each run with the learning rate (and L2, if `refine`) of the lowest validation loss.

    Lower rates need more epochs: if `refine`, runs that used all of theirs have more. usual: the rate of runs that
    state none.
    """
    losses = losses_in(lab)
    longer = partial(uncut, lab) if refine else list
    return longer(settle(runs, usual, refine, lambda tries: losses(longer(tries))))


def settle(runs: Sequence[Run], usual: float, refine: bool, losses: Losses) -> list[Run]:
    """Move the learning rate (and L2, if `refine`) of each run to neighbours until none is better."""
    in_l2 = beside_in_l2 if refine else alone
    beside: Beside = lambda run: beside_in_rate(run, usual) + in_l2(run)  # noqa: E731
    return explore([[run] for run in runs], beside, losses)


def uncut(lab: Lab, runs: Sequence[Run]) -> list[Run]:
    """Return the runs with twice the epochs, twice at most, as long as patience does not end them before."""
    found = list(runs)
    for _ in range(DOUBLINGS):
        results = lab.results([run.task() for run in found])
        is_cut = [len(own.get("history", ())) == run.epochs for run, own in zip(found, results)]
        found = [replace(run, epochs=2 * run.epochs) if cut else run for run, cut in zip(found, is_cut)]
    return found


def explore(starts: Sequence[Sequence[Run]], beside: Beside, losses: Losses) -> list[Run]:
    """Return the best run of each search, which goes on beside its best run until all that is beside it is known."""
    known: list[dict[Run, float]] = [{} for _ in starts]
    wanted = [list(dict.fromkeys(own)) for own in starts]
    while any(wanted):
        # One call for all searches of a round, so that the pool can train them in parallel.
        found = iter(losses([each for own in wanted for each in own]))
        for own, tried in zip(known, wanted):
            own |= {each: next(found) for each in tried}
        wanted = [[each for each in beside(_best(own)) if each not in own] for own in known]
    return [_best(own) for own in known]


def _best(known: dict[Run, float]) -> Run:
    return min(known, key=known.__getitem__)
