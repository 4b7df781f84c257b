"""Dispatch between compiled functions by an integer code, such as between the slopes of all losses."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable, Sequence

from numba import njit

from .compile import MATHS, compiled


def chosen_by_code(functions: Sequence[Callable]) -> Callable:
    """Return a compiled function (code, ...) that calls functions[code](...); all take the same arguments.

    Numba cannot cache code on disk that takes functions as arguments, but integers are fine.
    """
    chosen = _only(compiled(functions[-1]))
    for code in range(len(functions) - 2, -1, -1):
        chosen = _either(code, compiled(functions[code]), chosen)
    return chosen


def _inlined(function):
    """Compile without a disk cache: the cached code of its callers has it inlined."""
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
