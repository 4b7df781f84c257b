"""One compiled function out of several that mean the same for different things, such as the slopes of all losses."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable, Sequence

from numba import njit

from .compile import MATHS, compiled


def chosen_by_code(functions: Sequence[Callable]) -> Callable:
    """Return a compiled function (code, ...) that calls functions[code](...), which all take the same arguments.

    Functions as arguments of compiled code would keep it out of the disk cache; numbers do not.
    """
    chosen = _only(compiled(functions[-1]))
    for code in range(len(functions) - 2, -1, -1):
        chosen = _either(code, compiled(functions[code]), chosen)
    return chosen


def _inlined(function):
    """Compile without a place on the disk: what calls it is kept there, with it inside."""
    return njit(forceinline=True, _nrt=False, nogil=True, **MATHS)(function)


def _only(function):
    def only(code, *arguments):
        return function(*arguments)

    return _inlined(only)


def _either(own, function, others):
    def choose(code, *arguments):
        if code == own:
            return function(*arguments)
        return others(code, *arguments)

    return _inlined(choose)
