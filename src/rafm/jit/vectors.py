"""Operations on left[i : i + n] and right[j : j + n], n a multiple of 4, with scalars c and d; and on bytes and bits.

Numba's own vectorisation spends more on alias checks and loop heads than on arithmetic at small ranks; simd.py emits
the vector instructions itself. Where bounds are to be checked, plain twins of the same names take their place.
"""

# mypy: ignore-errors
from .compile import PLAIN

if PLAIN:
    from .plain import *  # noqa: F403
else:
    from .simd import *  # noqa: F403
