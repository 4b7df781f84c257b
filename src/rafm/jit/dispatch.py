"""Dispatch between compiled functions by an integer code, such as between the slopes of all losses."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable, Sequence

from numba import njit

from .compile import MATHS

UNREACHED = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # for functions that Python never calls


def chosen_by_code(functions: Sequence[Callable], n_inlined: int) -> Callable:
    """Return a compiled function (code, ...) that calls functions[code](...); all take the same arguments.

    Numba cannot cache code on disk that takes functions as arguments, but integers are fine. The first n_inlined
    functions are inlined into the caller, the others are called: rarely used code would slow down its neighbours.
    """
    chosen = None
    for code in range(len(functions) - 1, -1, -1):
        if code == n_inlined - 1 and chosen is not None:
            chosen = _compiled(_forwarding(chosen), **UNREACHED)
        function = _compiled(functions[code], forceinline=True, **UNREACHED)
        wrappers = UNREACHED if code else {}  # the last one made is the one that is returned
        chosen = _only(function) if chosen is None else _either(code, function, chosen)
        chosen = _compiled(chosen, forceinline=True, **wrappers)
    return chosen


def _compiled(function, **options):
    """Compile without a disk cache: the cached code of its callers contains it."""
    return njit(_nrt=False, nogil=True, **MATHS, **options)(function)


def _only(function):
    def only(code, *arguments):
        return function(*arguments)

    return only


def _forwarding(others):
    def forward(code, *arguments):
        return others(code, *arguments)

    return forward


def _either(own, function, others):
    def choose(code, *arguments):
        if code == own:
            return function(*arguments)
        return others(code, *arguments)

    return choose
