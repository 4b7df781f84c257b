"""Dispatch between compiled functions: by an integer code, such as between losses, or by the type of an argument."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from numba import njit
from numba.extending import overload

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


def chosen_by_type(functions: Mapping[type, Callable]) -> Callable:
    """Return a function (first, ...) that calls functions[type(first)](first, ...), for types of named tuples.

    In compiled code the choice is made when the caller is compiled, so what is not chosen costs nothing.
    """

    def choose(first, *arguments):
        return functions[type(first)](first, *arguments)

    @overload(choose, strict=False, jit_options={"forceinline": True, "_nrt": False, "nogil": True, **MATHS})
    def choose_compiled(first, *arguments):
        function = functions[first.instance_class]

        def forward(first, *arguments):
            return function(first, *arguments)

        return forward

    return choose


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
