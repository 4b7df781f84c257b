"""Dispatch between compiled functions by an integer code, such as between the slopes of all losses."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable, Sequence

from .compile import MATHS
from .helper import helper


def chosen_by_code(functions: Sequence[Callable], n_inlined: int) -> Callable:
    """Return a helper (code, ...) that calls functions[code](...); all take the same arguments.

    Numba cannot cache code on disk that takes functions as arguments, but integers are fine. The first n_inlined
    functions are inlined into the caller, the others are called: rarely used code would slow down its neighbours.
    """
    inlined = [_compiled(function, forceinline=True) for function in functions]
    if n_inlined >= len(functions):
        return _compiled(_chooser(inlined), forceinline=True)
    others = _compiled(_chooser(inlined[n_inlined:], first=n_inlined))
    return _compiled(_chooser(inlined[:n_inlined], others=others), forceinline=True)


def _compiled(function, **options):
    return helper(_nrt=False, **MATHS, **options)(function)


def _chooser(functions, first=0, others=None):
    """Return a function (code, ...) that calls functions[code - first], or others with any other code.

    It is made from text, as one function with a line for each: nested ones would take longer to compile.
    """
    known = {f"function_{code}": function for code, function in enumerate(functions, first)}
    known |= {"others": others, "__name__": __name__}
    calls = [f"if code == {code}: return function_{code}(*arguments)" for code in range(first, first + len(functions))]
    if others is None:
        calls[-1] = calls[-1].partition(": ")[2]  # all other codes
    else:
        calls.append("return others(code, *arguments)")
    exec("def choose(code, *arguments):\n " + "\n ".join(calls), known)
    return known["choose"]
