"""Write files atomically: a reader finds either the old content or the new one, never a mixture."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import secrets
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, NoReturn

from .lock import take_lock

PathLike = str | os.PathLike[str]
Chunk = bytes | memoryview
EXIT_SIGNALS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
ABANDONED_SECONDS = 60.0  # a hidden file may be removed if nothing was written to it for this long
BEGUN_BYTES = 1 << 22  # start writing to the disk after this many bytes, instead of all at the end


def write_atomically(path: PathLike, chunks: Iterable[Chunk], check: Callable[[str], Any] | None = None) -> int:
    """Replace the file at `path` by the joined chunks, or leave it as it was; return the bytes written.

    check: called with the path of the new file before it replaces the old one; an exception prevents that.

    The chunks are written to a hidden file `.NAME.*.tmp` in the same directory, which is synced, renamed to `path`, and
    the directory synced: the order that survives a power failure. An error, Ctrl-C, SIGTERM or SIGHUP removes the
    hidden file and propagates; an OSError names `path`. Only SIGKILL can leave the hidden file behind, which the next
    process that writes to `path` removes. If the last step fails, the new content is already in place.

    Like `open(path, "wb")`, it follows symbolic links, keeps the permissions of an existing file, applies the umask to
    a new one, and writes to devices and pipes directly, not atomically. Unlike it, other hard links keep the old
    content.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/scores.txt", [b"0.25\\n", b"0.75\\n"])
    10
    """
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        return _write_directly(path, chunks)
    target = os.path.realpath(path)  # the file that a symbolic link points to
    _remove_abandoned(target)
    temp = _temp_beside(target)  # in the same directory: a rename across file systems is not atomic
    try:
        with _exits_on_signals():
            n_bytes = _write_and_sync(temp, chunks, mode)
            if check is not None:
                check(temp)
            os.replace(temp, target)
        _sync_folder(os.path.dirname(target))  # until then, the rename may be lost in a power failure
    except BaseException as error:
        _clean_up(temp, error, path)
        raise
    return n_bytes


@contextlib.contextmanager
def _exits_on_signals() -> Iterator[None]:
    """Turn signals that would kill the process into SystemExit, so that it can clean up."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return
    # Leave handlers of the application, and ignored signals (nohup), alone.
    ours = [number for number in EXIT_SIGNALS if signal.getsignal(number) == signal.SIG_DFL]
    try:
        for number in ours:
            signal.signal(number, _exit)
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def check_writable(path: PathLike) -> None:
    """Raise the error that write_atomically would raise if no file can be created in the directory of `path`."""
    mode = _mode(path)
    if mode is None or stat.S_ISREG(mode):
        temp = _temp_beside(os.path.realpath(path))
        try:
            _write_and_sync(temp, [], None)
            os.remove(temp)
        except BaseException as error:
            _clean_up(temp, error, path)
            raise


def _mode(path: PathLike) -> int | None:
    """Return the type and permissions of the file at `path`, None if it does not exist."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _temp_beside(target: str) -> str:
    """Return a new hidden name in the directory of `target`, truncated because names have at most 255 bytes."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:40]}.{secrets.token_hex(8)}.tmp")


@functools.cache
def _remove_abandoned(target: str) -> None:
    """Remove hidden files that killed processes left beside `target`; once in a process."""
    folder, name = os.path.split(target)
    hidden = re.compile(re.escape(f".{name[:40]}.") + r"[0-9a-f]{16}\.tmp")
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if hidden.fullmatch(entry.name) and entry.is_file(follow_symlinks=False) and _is_abandoned(entry):
                os.unlink(entry.path)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    """Return whether no process holds the lock of a hidden file; a new one may not be locked yet."""
    if time.time() - entry.stat().st_mtime < ABANDONED_SECONDS:
        return False
    with open(entry.path, "rb") as file:
        return take_lock(file.fileno())


def _write_directly(path: PathLike, chunks: Iterable[Chunk]) -> int:
    """Write to a device or pipe; a directory raises IsADirectoryError."""
    try:
        with open(path, "wb") as file:
            return sum(map(file.write, chunks))
    except OSError as error:
        error.filename = error.filename or os.fspath(path)  # a write that fails names no file
        raise


def _write_and_sync(temp: str, chunks: Iterable[Chunk], mode: int | None) -> int:
    """Write and sync a new file."""
    with open(temp, "xb") as file:
        take_lock(file.fileno())  # says that the file is not abandoned
        if mode is not None:  # before there is content, which the old permissions may protect
            os.chmod(temp, stat.S_IMODE(mode))
        n_bytes = begun = 0
        for chunk in chunks:
            n_bytes += file.write(chunk)
            if n_bytes >= begun + BEGUN_BYTES:
                _begin_to_sync(file.fileno(), begun, n_bytes)
                begun = n_bytes
        file.flush()
        os.fsync(file.fileno())
    return n_bytes


def _begin_to_sync(descriptor: int, begin: int, end: int) -> None:
    """Ask the system to write these bytes to the disk in the background, where supported."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # only advice
            os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)


def _sync_folder(folder: str) -> None:
    """Sync a directory, so that the rename survives a power failure; on POSIX systems only."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # raised by file systems that cannot sync a directory
            raise
    finally:
        os.close(descriptor)


def _clean_up(temp: str, error: BaseException, path: PathLike) -> None:
    """Remove the hidden file, and make the error name the file that the user asked for."""
    with contextlib.suppress(OSError):
        os.unlink(temp)
    if isinstance(error, OSError) and error.filename in (None, temp):
        error.filename = os.fspath(path)
        del error.filename2  # set to None, it would still be printed
