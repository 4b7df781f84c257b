"""Decorators of compiled functions: kernels, which Python calls, and helpers, which kernels call.

A helper stays a Python function; kernels contain compiled copies of it. Kernels are cached on disk, see cache.py.
"""

# mypy: ignore-errors
from __future__ import annotations

from numba import config
from numba.core.compiler import Compiler
from numba.extending import register_jitable

from .cache import cached

FAST = ("reassoc", "contract", "arcp", "nsz", "afn")  # without nnan and ninf: divergence must stay detectable
PLAIN = bool(config.DISABLE_JIT or config.BOUNDSCHECK)  # use plain loops instead of explicit SIMD
MATHS = {"error_model": "numpy", "fastmath": set(FAST)}


class Uncounted(Compiler):
    """Compiles without reference counts of arrays, which at small ranks would cost more than the arithmetic.

    Functions compiled so cannot make arrays; those that they get belong to the caller.
    """

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        flags.nrt = False
        super().__init__(typingctx, targetctx, library, args, return_type, flags, locals)


def _options(makes_arrays, **options):
    usual = {"nogil": True, "no_cfunc_wrapper": True, **options}
    return usual if makes_arrays else {**usual, "pipeline_class": Uncounted}


def kernel(makes_arrays=True, **options):
    """Return a decorator that compiles a function for calls from Python, without the GIL, and caches the code."""
    return cached(**_options(makes_arrays, **options))


def helper(makes_arrays=False, **options):
    """Return a decorator of functions that kernels call; they are not cached, as the code of a kernel contains them."""
    return register_jitable(**_options(makes_arrays, **options))


def helper_options(**options):
    """Return the options of a helper for numba.extending.overload."""
    return _options(False, **options)


entry = kernel(**MATHS)
compiled = helper(forceinline=True, **MATHS)
# For the few functions that do much each time: alone, their code does not depend on what their callers do besides.
called = helper(**MATHS)
# Without reassociation, so that rounding does not depend on the code that a function is inlined into.
as_written = helper(forceinline=True, error_model="numpy", fastmath=set(FAST) - {"reassoc"})
