"""Decorators that compile a function and cache it on disk, see cache.py."""

# mypy: ignore-errors
from numba import config

from .cache import kernel
from .helper import helper

FAST = ("reassoc", "contract", "arcp", "nsz", "afn")  # without nnan and ninf: divergence must stay detectable
PLAIN = bool(config.DISABLE_JIT or config.BOUNDSCHECK)  # use plain loops instead of explicit SIMD
MATHS = {"error_model": "numpy", "fastmath": set(FAST)}

entry = kernel(**MATHS)
# Inner functions are inlined, and without reference counting, which at small ranks would cost more than the arithmetic.
compiled = helper(forceinline=True, _nrt=False, **MATHS)
# Without reassociation, so that rounding does not depend on the code that a function is inlined into.
as_written = helper(forceinline=True, _nrt=False, error_model="numpy", fastmath=set(FAST) - {"reassoc"})
