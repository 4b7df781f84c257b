"""Helpers: compiled functions that only other compiled functions call.

Numba compiles two wrappers around every function, one for Python and one for C, and translates it to machine code even
if only other functions contain it. Helpers have neither wrappers nor machine code, see inlined.py. Numba would crash on
a call from Python, so helpers refuse it.
"""

# mypy: ignore-errors
from __future__ import annotations

from numba import njit, types
from numba.core.registry import CPUDispatcher

from .versions import is_tested

# How Numba compiles a function for callers that contain a copy of it.
OPTIONS = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
if is_tested():
    from .inlined import HelperCompiler

    OPTIONS["pipeline_class"] = HelperCompiler


class Helper(CPUDispatcher):
    """A compiled function that Python cannot call."""

    def __call__(self, *arguments, **named):
        """Refuse the call."""
        raise TypeError(
            f"{self.py_func.__qualname__} is compiled for calls from compiled code only; "
            "call rafm.jit.helper.callable_helper(it), or run with NUMBA_DISABLE_JIT=1"
        )

    def get_call_template(self, args, kws):
        """Compile for the types of the arguments: Numba would compile once more for each integer constant."""
        return super().get_call_template(tuple(map(types.unliteral, args)), kws)


def helper(**options):
    """Return a decorator that compiles a function for calls from compiled code only.

    Helpers are not cached on disk: the cached code of a kernel contains all that it calls.
    """

    def decorate(function):
        made = njit(**OPTIONS, **options)(function)
        if isinstance(made, CPUDispatcher):  # not with NUMBA_DISABLE_JIT
            made.__class__ = Helper
        return made

    return decorate


def callable_helper(made):
    """Return a function that Python can call and that calls the helper; for tests.

    >>> @helper()
    ... def double(x):
    ...     return x + x
    >>> callable_helper(double)(3)
    6
    """

    @njit(nogil=True)
    def call(*arguments):
        return made(*arguments)

    return call
