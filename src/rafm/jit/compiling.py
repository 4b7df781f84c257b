"""What is being compiled and for how long: told while it happens, and kept out of the times of training.

This module does not import Numba, so that a command can choose how to be told before anything heavy is imported.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

LOG = logging.getLogger("rafm")


class Listener(Protocol):
    """Is told of compilations; `parts` counts the functions compiled so far in this process."""

    def started(self, kernel: str) -> None: ...

    def compiled_part(self, kernel: str, parts: int, seconds: float) -> None: ...

    def finished(self, kernel: str, seconds: float) -> None: ...


class LogListener:
    """Logs each kernel at level INFO of the logger `rafm`."""

    def started(self, kernel: str) -> None:
        LOG.info("compiling %s; the code is kept for later runs", kernel)

    def compiled_part(self, kernel: str, parts: int, seconds: float) -> None:
        pass

    def finished(self, kernel: str, seconds: float) -> None:
        LOG.info("compiled %s in %.1f s", kernel, seconds)


class _Meter:
    """Numba's compile events of our kernels: nested functions are parts of the kernel that Python called.

    Numba compiles under a global lock, so events of different threads never interleave. While it compiles, garbage is
    not collected, which would take a tenth of the time and find next to nothing.
    """

    def __init__(self) -> None:
        self.listener: Listener = LogListener()
        self.seconds, self.parts, self.kernels, self.can_keep = 0.0, 0, list[str](), True
        self.depth, self.kernel, self.begun, self.collects = 0, "", 0.0, False

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if self.depth == 0:
            if (function.__module__ or "").partition(".")[0] != "rafm":
                return
            self.kernel, self.begun = function.__name__.lstrip("_"), time.perf_counter()
            self.listener.started(self.kernel)
            self.collects = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        if self.depth == 0:
            return
        self.depth, self.parts, spent = self.depth - 1, self.parts + 1, time.perf_counter() - self.begun
        if self.depth:
            self.listener.compiled_part(self.kernel, self.parts, self.seconds + spent)
        else:
            if self.collects:
                gc.enable()
            self.seconds += spent
            self.kernels.append(self.kernel)
            self.listener.finished(self.kernel, spent)


METER = _Meter()


def compile_seconds() -> float:
    """Return the seconds that this process has spent compiling kernels."""
    return METER.seconds


def compiled_kernels() -> list[str]:
    """Return the names of the kernels that this process has compiled, in order."""
    return list(METER.kernels)


def can_keep_code() -> bool:
    """Return whether there is a directory in which compiled code can be cached, as far as is known."""
    return METER.can_keep


def seconds_without_compiling() -> float:
    """Return the time of a clock that stands still while kernels are compiled."""
    return time.perf_counter() - METER.seconds


@contextmanager
def told_to(listener: Listener) -> Iterator[None]:
    """Tell a listener of compilations in this context."""
    before, METER.listener = METER.listener, listener
    try:
        yield
    finally:
        METER.listener = before
