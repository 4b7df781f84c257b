"""Ways to compile a function. All of them are kept on the disk, see cache.py."""

# mypy: ignore-errors
from numba import config

from .cache import kernel

FAST = ("reassoc", "contract", "arcp", "nsz", "afn")  # not nnan, ninf: divergence must stay visible
PLAIN = bool(config.DISABLE_JIT or config.BOUNDSCHECK)  # then plain loops take the place of explicit vectors
MATHS = {"error_model": "numpy", "fastmath": set(FAST)}

entry = kernel(**MATHS)
# Inner functions are inlined and do not count references, which would cost more than the arithmetic at small ranks.
compiled = kernel(forceinline=True, _nrt=False, **MATHS)
as_written = kernel(forceinline=True, _nrt=False, error_model="numpy", fastmath=set(FAST) - {"reassoc"})
