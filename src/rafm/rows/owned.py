"""Memory that nobody but this process can change.

What was checked must stay as it was: another process can write to a mapped file or shared memory, or cut it short,
after the check. Kernels do not look again.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class OwnedMemory:
    """Memory that the process allocated elsewhere than NumPy does, as the base of an array."""

    def __init__(self, keeper: Any, address: int, shape: tuple[int, ...], kind: type):
        self.keeper = keeper  # frees the memory when nobody needs it any more
        self.__array_interface__ = {
            "version": 3,
            "shape": shape,
            "typestr": np.dtype(kind).str,
            "data": (address, False),
        }


def owned(array: np.ndarray) -> np.ndarray:
    """Return the array as it is if its memory belongs to this process, else a copy.

    >>> import mmap
    >>> numbers, mapped = np.ones(3), np.frombuffer(mmap.mmap(-1, 24))
    >>> owned(numbers) is numbers, owned(mapped) is mapped
    (True, False)
    """
    return array if _is_ours(array) else array.copy()


def _is_ours(array: np.ndarray) -> bool:
    root: Any = array
    while isinstance(root, np.ndarray):
        if root.base is None:
            return bool(root.flags.owndata)
        root = root.base
    if isinstance(root, memoryview):
        root = root.obj
    return isinstance(root, bytes | bytearray | OwnedMemory)
