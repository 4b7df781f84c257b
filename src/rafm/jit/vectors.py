"""Vector operations on left[i : i + n] and right[j : j + n], n a multiple of 4, with scalars c and d; and on bytes.

At small ranks Numba's auto-vectorisation spends more time on alias checks and loop prologues than on arithmetic, so
simd.py, weighted.py, field_vectors.py and codes.py emit vector instructions directly. With bounds checks, plain twins
of the same names replace them.
"""

# mypy: ignore-errors
from .compile import PLAIN

if PLAIN:
    from .plain import *  # noqa: F403
else:
    from .codes import *  # noqa: F403
    from .field_vectors import *  # noqa: F403
    from .simd import *  # noqa: F403
    from .weighted import *  # noqa: F403
