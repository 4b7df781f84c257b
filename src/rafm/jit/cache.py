"""Cache compiled code on disk, safe to share between processes, even after an upgrade or a crash.

Numba's own cache does not notice edits of other files whose functions a kernel contains; two processes that save code
of one function for different types at the same time can mistake each other's for their own; and it fails on torn files.
So every module has a folder whose name is a hash of all that its code depends on; saving is locked; and a kernel whose
code cannot be read or saved is compiled once more.
"""

# mypy: ignore-errors
from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
import warnings
from contextlib import ExitStack, suppress
from functools import cache, update_wrapper
from pathlib import Path

import llvmlite
import numba
from numba import config, njit
from numba.core import event

from .compiling import METER
from .folder_access import locked, place_open_to_others

PACKAGE = Path(__file__).parents[1]
SHARED = ("jit", "kernels", "losses", "optimizers", "read/digits.py", "read/csv/byte_masks.py")  # contained in others
BROKEN = (OSError, EOFError)  # what a cache that is torn, full or taken away raises, and kernels do not
UNUSED_DAYS = 90  # folders that no process has opened for so long are deleted


class Kernel:
    """A compiled function that Python calls, and that does without its cache if that is broken."""

    def __init__(self, function, options):
        self.function, self.options, self.dispatcher = function, options, _with_cache(function, options)
        update_wrapper(self, function)

    def __call__(self, *arguments):
        """Call the function; compile or load it first if need be."""
        try:
            return self.dispatcher(*arguments)
        except Exception as error:
            return self._recover(error, arguments)

    def _recover(self, error, arguments):
        """Call it again: what could not be saved is in memory; what could not be loaded is compiled again."""
        for renewed in (lambda: self.dispatcher, self._emptied, lambda: njit(**self.options)(self.function)):
            if not isinstance(error, BROKEN) and type(error).__name__ != "UnpicklingError":
                break
            self.dispatcher = renewed()
            try:
                return self.dispatcher(*arguments)
            except Exception as another:
                error = another
        raise error

    def _emptied(self):
        """Delete the cache and begin anew."""
        with suppress(OSError, TypeError):
            shutil.rmtree(self.dispatcher.stats.cache_path)
        return _with_cache(self.function, self.options)

    @property
    def stats(self):
        """Where the code is cached, and how often it was found there."""
        return self.dispatcher.stats


def cached(**options):
    """Return a decorator that compiles a function and caches the code, if there is a place for it."""

    def decorate(function):
        return function if config.DISABLE_JIT else Kernel(function, options)

    return decorate


def _with_cache(function, options):
    """Compile with a cache in a folder of ours, or without one."""
    folder = _folder_for(function)
    if folder is None:
        METER.can_keep = False
        return njit(**options)(function)
    before, config.CACHE_DIR = config.CACHE_DIR, str(folder)  # which Numba reads while it decorates
    try:
        dispatcher = njit(cache=True, **options)(function)
    finally:
        config.CACHE_DIR = before
    place = Path(dispatcher.stats.cache_path)
    opened = place_open_to_others(str(place))
    if folder in place.parents and opened is None:
        PLACES.add(str(place))
        return dispatcher
    if opened is not None:
        _warn_once(opened)
    METER.can_keep = False
    return njit(**options)(function)


def _warn_once(place: Path) -> None:
    """Say in which folder no code is kept; several folders are open for one reason."""
    if METER.can_keep:
        warnings.warn(
            f"{place}: other users can write to this directory of compiled code, and could make you run theirs, so it "
            "is not used and every run compiles. Delete its *.nbi files and take the permission away (chmod go-w), or "
            "set NUMBA_CACHE_DIR to a directory of your own.",
            stacklevel=2,
        )


# ---- Folders


def _folder_for(function) -> Path | None:
    """Return the folder for the code of a function's module, None if there is none that can be written to."""
    name = "rafm-" + digest(function.__code__.co_filename)
    for base in _bases():
        folder = base / name
        with suppress(OSError):
            if not folder.exists():
                forget_unused(base)
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(PermissionError):  # of a folder of somebody else's
                os.utime(folder)
            tempfile.TemporaryFile(dir=folder).close()
            return folder
    return None


def _bases() -> list[Path]:
    """Return where the folders may be: where the user says, else in the package, else in the user's cache."""
    home = Path.home() if os.environ.get("HOME") or sys.platform == "win32" else Path(tempfile.gettempdir())
    places = {"win32": os.environ.get("LOCALAPPDATA"), "darwin": home / "Library" / "Caches"}
    own = places.get(sys.platform) or os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return [*([Path(config.CACHE_DIR)] if config.CACHE_DIR else []), PACKAGE / "__pycache__", Path(own) / "rafm"]


def forget_unused(base: Path) -> None:
    """Delete folders of other versions that have not been opened for long."""
    for folder in base.glob("rafm-*"):
        if time.time() - folder.stat().st_mtime > UNUSED_DAYS * 86_400:
            shutil.rmtree(folder, ignore_errors=True)


@cache
def digest(source: str) -> str:
    """Return a hash of a module's source, of all sources that others contain, and of what compiles them."""
    found = hashlib.sha256(shared_digest())
    with suppress(OSError):
        found.update(Path(source).read_bytes())
    return found.hexdigest()[:16]


@cache
def shared_digest() -> bytes:
    versions = numba.__version__, llvmlite.__version__, sys.version, platform.machine(), str(PACKAGE)
    found = hashlib.sha256(repr(versions).encode())
    for place in (PACKAGE / name for name in SHARED):
        for file in sorted(place.glob("*.py")) if place.is_dir() else [place]:
            found.update(file.read_bytes())
    return found.digest()


# ---- Saving

PLACES: set[str] = set()  # folders of code


class _Held(threading.local):
    """The locks that a thread holds."""

    def __init__(self):
        self.stack = ExitStack()


class _Saving(event.Listener):
    """Tells the meter of compilations, and locks a folder from the end of one until Numba has saved its code.

    Numba saves after the compile event and before it lets go of its compiler lock, which has an event of its own.
    """

    held = _Held()

    def on_start(self, told):
        """Pass the event on."""
        if told.kind == "numba:compile":
            METER.on_start(told)

    def on_end(self, told):
        """Lock the folder, or unlock it."""
        if told.kind != "numba:compile":
            return self.held.stack.close()
        METER.on_end(told)
        place = told.data["dispatcher"].stats.cache_path
        if place in PLACES:
            with suppress(OSError):
                self.held.stack.enter_context(locked(Path(place) / "lock"))


for kind in ("numba:compile", "numba:compiler_lock"):
    event.register(kind, _Saving())
