"""Compile with a disk cache that is safe to share between processes, even after an upgrade or a crash."""

# mypy: ignore-errors
from __future__ import annotations

import os
import uuid
import warnings
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

from numba import njit
from numba.core import event
from numba.core.runtime import rtsys

from .compiling import METER
from .folder_access import place_open_to_others
from .versions import is_tested

INLINED = (
    "jit",
    "kernels",
    "losses",
    "optimizers",
    "read/digits.py",
    "read/csv/byte_masks.py",
)  # sources of inlined code


class _CompileEvents(event.Listener):
    """Passes Numba's compile events on to the meter."""

    on_start, on_end = METER.on_start, METER.on_end


event.register("numba:compile", _CompileEvents())


def kernel(**options):
    """Return a decorator that compiles a function without the GIL and caches the code on disk, if possible.

    It differs from Numba's own cache in five ways:

    * Edits of the files in INLINED invalidate the cache, not only edits of the function's own file.
    * Every process writes files with names of its own. Numba numbers them, so a file written by a concurrent process or
      left behind by an older version could be mistaken for the one that the index means.
    * A truncated file means that the function is compiled again.
    * A folder that others can write to is not used, since reading from it could run their code.
    * Loading cached code does not initialise the compiler, which imports scipy.linalg and takes longer than all else.
    """

    def decorate(function):
        try:
            dispatcher = njit(cache=True, nogil=True, no_cfunc_wrapper=True, **options)(function)
        except RuntimeError:  # no writable cache directory
            METER.can_keep = False
            return njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
        stored = getattr(dispatcher, "_cache", None)
        if stored is not None and (place := place_open_to_others(stored.cache_path)) is not None:
            _warn_once(place)
            return njit(nogil=True, no_cfunc_wrapper=True, **options)(function)
        index = getattr(stored, "_cache_file", None)
        if index is not None:
            index._source_stamp = (index._source_stamp, *_stamps())
            index._data_name = partial(_own_name, index._data_name_pattern)
            index.load, index.save = _steady(index)
            if is_tested():
                stored.load_overload = partial(_load, stored)
        return dispatcher

    return decorate


def _warn_once(place: Path) -> None:
    """Say in which folder no code is kept; several folders are open for one reason."""
    if METER.can_keep:
        warnings.warn(
            f"{place}: other users can write to this directory of compiled code, and could make you run theirs, so it "
            "is not used and every run compiles. Delete its *.nbi files and take the permission away (chmod go-w), or "
            "set NUMBA_CACHE_DIR to a directory of your own.",
            stacklevel=2,
        )
    METER.can_keep = False


@cache
def _name_of(process: int) -> str:
    """Return a name that no other process has; a fork has another one, too."""
    return uuid.uuid4().hex[:8]


def _own_name(pattern: str, number: int) -> str:
    return pattern.replace("{number", f"{_name_of(os.getpid())}.{{number").format(number=number)


@cache
def _stamps() -> list[tuple[float, int]]:
    """Return modification time and size of all files whose functions are inlined into others."""
    places = (Path(__file__).parents[1] / name for name in INLINED)
    files = (file for place in places for file in (sorted(place.glob("*.py")) if place.is_dir() else [place]))
    return [(stat.st_mtime, stat.st_size) for stat in map(os.stat, files)]


def _load(stored, signature, target):
    """Load code with only the run-time library initialised; fall back to Numba's own way if that fails."""
    with suppress(Exception):
        rtsys.initialize(target)
        return stored._load_overload(signature, target)
    return type(stored).load_overload(stored, signature, target)


def _steady(index):
    """Return load and save functions that never fail, and that replace an index which cannot be read."""
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
