"""Pin threads to cores, where the system supports it.

Linux may start a thread on the core of its parent and leave both there for many milliseconds although another core is
idle: to the scheduler, threads that take turns waiting for each other look like a single busy one.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def pinned_to(cores: set[int]) -> Iterator[None]:
    """Pin this thread to the given cores, as far as it may use them; an empty set leaves it unpinned."""
    before: set[int] = set()
    with suppress(AttributeError, OSError):  # not available on all systems; an empty set of cores is an OSError
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, cores & before)
    try:
        yield
    finally:
        with suppress(AttributeError, OSError):
            os.sched_setaffinity(0, before)


def current_core() -> set[int]:
    """Return the core that this thread is running on, or an empty set if it is unknown.

    >>> current_core() <= set(range(os.cpu_count()))
    True
    """
    with suppress(AttributeError, OSError, TypeError):
        return {core for core in [ctypes.CDLL(None).sched_getcpu()] if core >= 0}
    return set()


def other_cores(cores: set[int]) -> set[int]:
    """Return the cores that this thread may use, except the given ones; an empty set if they are unknown."""
    with suppress(AttributeError, OSError):
        return os.sched_getaffinity(0) - cores
    return set()
