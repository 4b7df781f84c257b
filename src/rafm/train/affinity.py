"""Which core a thread runs on, where the system lets us tell it.

Linux may start a thread on the core of the one that it is to help, and leave both there for many milliseconds although
another core is idle: threads that wait for one another in turns look like one that works.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def kept_on(cores: set[int]) -> Iterator[None]:
    """Keep this thread on those of the given cores that it may run on, for a while; on none means on any."""
    before: set[int] = set()
    with suppress(AttributeError, OSError):  # only some systems have it
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores & before)
    try:
        yield
    finally:
        with suppress(AttributeError, OSError):
            os.sched_setaffinity(0, before)


def current_core() -> set[int]:
    """Return the core that this thread runs on just now, or none if the system does not tell.

    >>> current_core() <= set(range(os.cpu_count()))
    True
    """
    with suppress(AttributeError, OSError, TypeError):
        return {core for core in [ctypes.CDLL(None).sched_getcpu()] if core >= 0}
    return set()


def other_cores(cores: set[int]) -> set[int]:
    """Return the cores that this thread may run on but for the given ones, or none if the system does not tell."""
    with suppress(AttributeError, OSError):
        return os.sched_getaffinity(0) - cores
    return set()
