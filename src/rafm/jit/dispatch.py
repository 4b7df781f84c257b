"""Dispatch between compiled functions: by an integer code, such as between losses, or by the type of an argument."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from numba.extending import overload

from .compile import MATHS, helper, helper_options


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


def chosen_by_type(functions: Mapping[type, Callable]) -> Callable:
    """Return a function (first, ...) that calls functions[type(first)](first, ...), for types of named tuples.

    In compiled code the choice is made when the caller is compiled, so what is not chosen costs nothing.
    """

    def choose(first, *arguments):
        return functions[type(first)](first, *arguments)

    @overload(choose, strict=False, jit_options=helper_options(forceinline=True, **MATHS))
    def choose_compiled(first, *arguments):
        return functions[first.instance_class]

    return choose


def _compiled(function, **options):
    return helper(**MATHS, **options)(function)


def _chooser(functions, first=0, others=None):
    """Return a function (code, ...) that calls functions[code - first], or others with any other code.

    It has two functions and passes on the rest: one for each would take longer to compile.
    """
    if len(functions) > 2:
        others = _compiled(_chooser(functions[2:], first + 2, others), forceinline=True)
    return _last(first, *functions) if others is None else _before(others, first, *functions[:2])


def _last(first, one, two=None):
    def only(code, *arguments):
        return one(*arguments)

    def either(code, *arguments):
        if code == first:
            return one(*arguments)
        return two(*arguments)

    return only if two is None else either


def _before(others, first, one, two=None):
    second = first + 1

    def one_or_other(code, *arguments):
        if code == first:
            return one(*arguments)
        return others(code, *arguments)

    def one_of_more(code, *arguments):
        if code == first:
            return one(*arguments)
        if code == second:
            return two(*arguments)
        return others(code, *arguments)

    return one_or_other if two is None else one_of_more
