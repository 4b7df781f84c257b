"""The order of rows: which rows are the slots of each step.

Files are divided into units of consecutive rows, at most a row group each. In every epoch, runs of units are dealt out
to lanes in random order. A step takes rows from several lanes, one slot from each; the rows of a unit are visited in
random order. All of this follows from the numbers of rows, the seed and the number of steps so far, never from who
reads which lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from ..plan.steps import step_size


class Unit(NamedTuple):
    """Consecutive rows of a row group: `stop - start` rows from row `start` of the group on."""

    file: int
    group: int
    start: int
    stop: int
    first_row: int  # number of its first row among all rows

    @property
    def rows(self) -> int:
        return self.stop - self.start


class Piece(NamedTuple):
    """Rows [start, stop) of a unit, in the order of its visit."""

    unit: int
    start: int
    stop: int


class Slot(NamedTuple):
    """The rows of a slot; lane: the worker that read the rows before these already has their row group open."""

    lane: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(piece.stop - piece.start for piece in self.pieces)


Step = tuple[Slot, ...]
RUNS_PER_LANE = 4  # minimum on average, or some lanes would end long before others


@dataclass(frozen=True)
class SlotPlan:
    """How steps are divided into slots.

    Parameters
    ----------
    slot_rows : int
        Rows of a slot.
    slots : int
        Slots of a step, and number of lanes.
    seed : int
        Of the order of rows.
    """

    slot_rows: int
    slots: int
    seed: int = 0

    @property
    def step_rows(self) -> int:
        return self.slot_rows * self.slots

    def steps(self, units: Sequence[Unit], chosen: Sequence[int], epoch: int, done: int) -> Iterator[Step]:
        """Yield the steps of an epoch over the chosen units, after `done` steps of earlier epochs.

        The first steps of a training are short, see plan/steps.py. A step takes from the lanes with most rows left.
        """
        lanes = [_Lane(list(lane), units) for lane in self._dealt(units, chosen, epoch)]
        while any(lane.left for lane in lanes):
            wanted, step = step_size(done, self.step_rows), []
            fullest = sorted(range(len(lanes)), key=lambda number: (-lanes[number].left, number))
            for number in fullest[: -(-wanted // self.slot_rows)]:
                rows = min(self.slot_rows, wanted, lanes[number].left)
                if rows:
                    step.append(Slot(number, tuple(lanes[number].take(rows))))
                    wanted -= rows
            yield tuple(step)
            done += 1

    def _dealt(self, units: Sequence[Unit], chosen: Sequence[int], epoch: int) -> list[list[int]]:
        """Return the units of each lane: runs of units in random order, each to the lane with fewest rows."""
        runs = _runs(units, chosen, self.slots)
        lanes: list[list[int]] = [[] for _ in range(self.slots)]
        rows = np.zeros(self.slots, np.int64)
        for number in np.random.default_rng([self.seed, epoch]).permutation(len(runs)):
            lane = int(np.argmin(rows))
            lanes[lane] += runs[number]
            rows[lane] += sum(units[unit].rows for unit in runs[number])
        return lanes


def visit_order(seed: int, epoch: int, unit: int, n_rows: int) -> np.ndarray:
    """Return the order in which an epoch visits the rows of a unit."""
    return np.random.default_rng([seed, epoch, unit + 1]).permutation(n_rows)


def _runs(units: Sequence[Unit], chosen: Sequence[int], lanes: int) -> list[list[int]]:
    """Return the units of each row group, which is read from its start; divided if there are few groups."""
    groups = [list(group) for _, group in groupby(chosen, key=lambda number: units[number][:2])]
    parts = -(-lanes * RUNS_PER_LANE // max(len(groups), 1))
    runs = []
    for group in groups:
        size = -(-len(group) // parts)
        runs += [group[first : first + size] for first in range(0, len(group), size)]
    return runs


class _Lane:
    """The rows of a lane that are left in this epoch."""

    def __init__(self, numbers: list[int], units: Sequence[Unit]):
        self.numbers, self.units, self.place = numbers[::-1], units, 0
        self.left = sum(units[number].rows for number in numbers)

    def take(self, rows: int) -> Iterator[Piece]:
        """Yield the next rows."""
        self.left -= rows
        while rows:
            unit = self.numbers[-1]
            stop = min(self.place + rows, self.units[unit].rows)
            yield Piece(unit, self.place, stop)
            rows, self.place = rows - (stop - self.place), stop
            if stop == self.units[unit].rows:
                self.numbers.pop()
                self.place = 0


def hold_out(n_units: int, share: float, seed: int) -> tuple[list[int], list[int]]:
    """Return the units to train on and those held out, chosen by the seed.

    >>> hold_out(10, 0.2, seed=1)
    ([0, 2, 3, 4, 6, 7, 8, 9], [1, 5])
    """
    n_held = round(n_units * share)
    held = sorted(np.random.default_rng([seed, 1 << 20]).permutation(n_units)[:n_held].tolist())
    return [unit for unit in range(n_units) if unit not in set(held)], held
