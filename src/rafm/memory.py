"""Memory that can be given back page by page, so that what is copied out of an array need not be there twice."""

from __future__ import annotations

import ctypes
import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np

GIVES_BACK = sys.platform == "linux"
HUGE = 1 << 22  # bytes from which on large pages are asked for


def zeroed_pages(size: int, dtype: Any) -> np.ndarray:
    """Return zeros that start on a page.

    >>> zeroed_pages(3, np.float32)
    array([0., 0., 0.], dtype=float32)
    """
    n_bytes = max(size * np.dtype(dtype).itemsize, 1)
    if not GIVES_BACK:
        return np.frombuffer(mmap.mmap(-1, n_bytes), dtype, size)
    memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if n_bytes >= HUGE:
        _advise(memory, "MADV_HUGEPAGE", 0, n_bytes)
    return np.frombuffer(memory, dtype, size)


def give_back(array: np.ndarray, start: int, stop: int) -> None:
    """Return the whole pages of array[start:stop] to the system, if it takes them; these numbers are lost."""
    first, last = -(-start * array.itemsize // mmap.PAGESIZE), stop * array.itemsize // mmap.PAGESIZE
    memory = array.base.obj if isinstance(array.base, memoryview) else array.base
    if GIVES_BACK and first < last and isinstance(memory, mmap.mmap):
        _advise(memory, "MADV_DONTNEED", first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


def give_back_unused() -> None:
    """Return what was freed to the system: reading by threads leaves more than a hundred megabytes of it."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # only some systems' libraries have it
        ctypes.CDLL(None).malloc_trim(0)


def _advise(memory: mmap.mmap, name: str, start: int, length: int) -> None:
    """Advise the system, which may know nothing of it."""
    with suppress(AttributeError, OSError):
        memory.madvise(getattr(mmap, name), start, length)
