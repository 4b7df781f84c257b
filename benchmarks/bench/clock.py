"""Measure elapsed and CPU time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple


class Seconds(NamedTuple):
    """Elapsed seconds, and CPU seconds of all threads and finished child processes.

    >>> Seconds(3.0, 4.0).less(Seconds(1.0, 1.0)) / 2
    Seconds(elapsed=1.0, cpu=1.5)
    """

    elapsed: float
    cpu: float

    def less(self, other: Seconds) -> Seconds:
        """Return the difference."""
        return Seconds(self.elapsed - other.elapsed, self.cpu - other.cpu)

    def __truediv__(self, parts: float) -> Seconds:
        return Seconds(self.elapsed / parts, self.cpu / parts)


def now() -> Seconds:
    """Return the current time of both clocks."""
    times = os.times()
    return Seconds(time.perf_counter(), time.process_time() + times.children_user + times.children_system)


def least_seconds(task: Callable[[], object], repeats: int = 1) -> Seconds:
    """Run a task repeatedly; return the minimum of each clock."""
    taken = []
    for _ in range(repeats):
        start = now()
        task()
        taken.append(now().less(start))
    return Seconds(min(each.elapsed for each in taken), min(each.cpu for each in taken))


def cpu_seconds(task: Callable[[], object], repeats: int = 1) -> float:
    """Run a task repeatedly; return the minimum CPU time over all threads."""
    return least_seconds(task, repeats).cpu


def epoch_seconds(train: Callable[[int], object], epochs: int, repeats: int = 1) -> Seconds:
    """Time an epoch as a difference, which excludes one-time costs; noise may make it negative."""
    once = least_seconds(lambda: train(1), repeats)
    return least_seconds(lambda: train(1 + epochs), repeats).less(once) / epochs
