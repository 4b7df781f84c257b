"""Keep checked data in memory that no other process can change.

Another process could modify or truncate a mapped file or shared memory after the check, and kernels do not check again.
"""

from __future__ import annotations

from typing import Any

import numpy as np


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
