"""Write a file so that a reader finds the old content or the new one, never a mixture."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import signal
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, NoReturn

PathLike = str | os.PathLike[str]
Chunk = bytes | memoryview
ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
BEGUN_BYTES = 1 << 22  # that are sent to the disk at once


def write_atomically(path: PathLike, chunks: Iterable[Chunk], check: Callable[[str], Any] | None = None) -> int:
    """Replace the file at `path` by the joined chunks, or leave it as it was; return the bytes written.

    check: called with the name of the new file before it takes the place of the old one; whatever it raises prevents
    that.

    The chunks go to a hidden file `.NAME.*.tmp` in the same folder, which is forced to the disk, renamed over
    the old file, and the folder forced to the disk: the order that survives a power cut. An error, Ctrl-C, SIGTERM
    or SIGHUP on the way removes the hidden file and passes on, with the name of `path` in an OSError. Only SIGKILL can
    leave the hidden file behind. If the very last step fails, the new content is already in place.

    Like `open(path, "wb")`: a symbolic link stays, and the file it points to is replaced; permissions of an
    old file are kept, a new one follows the umask; a device or pipe is written to directly, not atomically.
    Unlike it: other hard links keep the old content.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(f"{folder}/scores.txt", [b"0.25\\n", b"0.75\\n"])
    10
    """
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        return _write_directly(path, chunks)
    target = os.path.realpath(path)
    temp = _temp_beside(target)
    try:
        with _exits_on_signals():
            n_bytes = _write_and_sync(temp, chunks, mode)
            if check is not None:
                check(temp)
            os.replace(temp, target)
        _sync_folder(os.path.dirname(target))
    except BaseException as error:
        _clean_up(temp, error, path)
        raise
    return n_bytes


@contextlib.contextmanager
def _exits_on_signals() -> Iterator[None]:
    """Let signals that would end the process at once raise SystemExit, so that it can clean up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]
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
    """Raise what write_atomically would if no file can be made in the folder of `path`; leave none there."""
    mode = _mode(path)
    if mode is None or stat.S_ISREG(mode):
        temp = _temp_beside(os.path.realpath(path))
        try:
            _write_and_sync(temp, [], None)
        except OSError as error:
            _clean_up(temp, error, path)
            raise
        os.remove(temp)


def _mode(path: PathLike) -> int | None:
    """Return type and permissions of what `path` leads to, None if there is nothing yet."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _temp_beside(target: str) -> str:
    """Return a new hidden name in the folder of `target`; cut, since names may have at most 255 bytes."""
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{name[:40]}.{secrets.token_hex(8)}.tmp")


def _write_directly(path: PathLike, chunks: Iterable[Chunk]) -> int:
    """Write to something that cannot be replaced; a folder raises IsADirectoryError."""
    with open(path, "wb") as file:
        return sum(map(file.write, chunks))


def _write_and_sync(temp: str, chunks: Iterable[Chunk], mode: int | None) -> int:
    """Write a new file and force it to the disk; its permissions are set before it has content."""
    with open(temp, "xb") as file:
        if mode is not None:
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
    """Let the system write these bytes to the disk while more are made, where it can be asked to."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # it is only advice
            os.posix_fadvise(descriptor, begin, end - begin, os.POSIX_FADV_DONTNEED)


def _sync_folder(folder: str) -> None:
    """Force the new name to the disk, where the system can do that for a folder."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # what file systems without this operation answer
            raise
    finally:
        os.close(descriptor)


def _clean_up(temp: str, error: BaseException, path: PathLike) -> None:
    """Remove the hidden file and let the error name the file that the user asked for."""
    with contextlib.suppress(OSError):
        os.unlink(temp)
    if isinstance(error, OSError) and error.filename in (None, temp):
        error.filename, error.filename2 = os.fspath(path), None
