"""Versions of Numba: where its interface is not public, newer ones than tested get its usual way."""

# mypy: ignore-errors
from numba import version_info

TESTED_NUMBA = (0, 68)  # the newest version whose internals are known


def is_tested() -> bool:
    """Return whether loading without the compiler and helpers without machine code are known to work."""
    return None not in version_info.short and version_info.short <= TESTED_NUMBA
