"""Compiling with a disk cache that many processes may share, also right after an upgrade or a crash."""

# mypy: ignore-errors
from __future__ import annotations

import os
import uuid
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from numba import njit, version_info
from numba.core.runtime import rtsys

INLINED = ("jit", "kernels", "losses", "optimizers", "read/digits.py", "read/csv/byte_masks.py")  # folders and files
TRIED = (0, 68)  # up to this version of Numba, code from the disk is known to run without what compiling needs
_PROCESS = uuid.uuid4().hex[:8]


def kernel(**options):
    """Return a decorator that compiles a function without the GIL and keeps the code on disk, where it can.

    Numba's cache notices edits of the function's own file alone; here those of INLINED too. And it names files of code
    by number, which lets a process that compiles at the same time, or an older version's leftover, be taken for what
    the index means; here every process writes files of its own. A torn file means compiling again. Before it loads
    code, Numba prepares to compile, which imports scipy.linalg and takes longer than all the rest; here it does not.
    """

    def decorate(function):
        try:
            dispatcher = njit(cache=True, nogil=True, **options)(function)
        except RuntimeError:  # there is no folder that can be written to
            return njit(nogil=True, **options)(function)
        stored = getattr(dispatcher, "_cache", None)
        index = getattr(stored, "_cache_file", None)
        if index is not None:
            index._source_stamp = (index._source_stamp, *_stamps())
            index._data_name_pattern = index._data_name_pattern.replace("{number", f"{_PROCESS}.{{number")
            index.load, index.save = _steady(index)
            if None not in version_info.short and version_info.short <= TRIED:
                stored.load_overload = partial(_load, stored)
        return dispatcher

    return decorate


@cache
def _stamps() -> list[tuple[float, int]]:
    """Return time and size of the files whose functions become part of others'."""
    places = (Path(__file__).parents[1] / name for name in INLINED)
    files = (file for place in places for file in (sorted(place.glob("*.py")) if place.is_dir() else [place]))
    return [(stat.st_mtime, stat.st_size) for stat in map(os.stat, files)]


def _load(stored, signature, target):
    """Load code with the run-time library alone, as Numba does where this fails."""
    with suppress(Exception):
        rtsys.initialize(target)
        return stored._load_overload(signature, target)
    return type(stored).load_overload(stored, signature, target)


def _steady(index):
    """Return ways to load and save that start the index anew if it cannot be read, and never fail."""
    load, save = index.load, index.save

    def load_if_whole(key):
        with suppress(Exception):
            return load(key)

    def save_if_possible(key, data):
        try:
            save(key, data)
        except Exception:
            with suppress(Exception):
                index.flush()
                save(key, data)

    return load_if_whole, save_if_possible
