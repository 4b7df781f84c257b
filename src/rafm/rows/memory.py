"""Memory of arrays: that no other process can change, and that can be released page by page.

Another process could modify or truncate a mapped file or shared memory after the check, and kernels do not check again.
Pages are released so that copying an array need not double peak memory.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from contextlib import suppress
from typing import Any

import numpy as np

CAN_RELEASE = sys.platform == "linux"
HUGE_PAGES_BYTES = 1 << 22  # arrays of at least this size ask for huge pages


def zeroed_pages(size: int, dtype: Any) -> np.ndarray:
    """Return a page-aligned array of zeros.

    >>> zeroed_pages(3, np.float32)
    array([0., 0., 0.], dtype=float32)
    """
    n_bytes = max(size * np.dtype(dtype).itemsize, 1)  # mmap refuses a length of 0
    if not CAN_RELEASE:
        return np.frombuffer(mmap.mmap(-1, n_bytes), dtype, size)
    memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if n_bytes >= HUGE_PAGES_BYTES:
        _advise(memory, "MADV_HUGEPAGE", 0, n_bytes)
    return np.frombuffer(memory, dtype, size)


def release_pages(array: np.ndarray, start: int, stop: int) -> None:
    """Return the pages within array[start:stop] to the system, where supported; their content is lost."""
    # Round inwards: pages at the ends also hold elements outside the range.
    first, last = -(-start * array.itemsize // mmap.PAGESIZE), stop * array.itemsize // mmap.PAGESIZE
    memory = array.base.obj if isinstance(array.base, memoryview) else array.base
    if CAN_RELEASE and first < last and isinstance(memory, mmap.mmap):
        _advise(memory, "MADV_DONTNEED", first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


def release_unused() -> None:
    """Return freed memory to the system; multi-threaded reading leaves more than 100 MB of it in allocators."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with suppress(AttributeError, OSError, TypeError):  # malloc_trim exists in glibc only
        ctypes.CDLL(None).malloc_trim(0)


def _advise(memory: mmap.mmap, name: str, start: int, length: int) -> None:
    """Call madvise; systems that do not know the advice ignore it."""
    with suppress(AttributeError, OSError):
        memory.madvise(getattr(mmap, name), start, length)


class OwnedMemory:
    """Array base for memory that this process allocated outside NumPy."""

    def __init__(self, keeper: Any, address: int, shape: tuple[int, ...], kind: type):
        self.keeper = keeper  # a reference that keeps the memory alive
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(kind).str,
            "data": (address, False),
        }


def owned(array: np.ndarray) -> np.ndarray:
    """Return the array itself if this process owns its memory, else a copy.

    >>> import mmap
    >>> numbers, mapped = np.ones(3), np.frombuffer(mmap.mmap(-1, 24))
    >>> owned(numbers) is numbers, owned(mapped) is mapped
    (True, False)
    """
    return array if _is_ours(array) else array.copy()


def _is_ours(array: np.ndarray) -> bool:
    root: Any = array  # views chain to the object that holds the memory
    while isinstance(root, np.ndarray):
        if root.base is None:
            return bool(root.flags.owndata)
        root = root.base
    if isinstance(root, memoryview):
        root = root.obj
    return isinstance(root, bytes | bytearray | OwnedMemory)
