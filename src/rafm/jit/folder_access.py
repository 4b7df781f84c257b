"""Who can write to a folder, and who does now: reading compiled code unpickles, which runs whatever was put there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path


@cache
def place_open_to_others(folder: str) -> Path | None:
    """Return the folder, or one of the two around it, if another user could put files or another folder there."""
    if not hasattr(os, "geteuid"):  # Windows gives every user a cache folder of her own
        return None
    inner = Path(folder).resolve()
    for place in (inner, *inner.parents[:2]):
        if _is_open(place.stat(), may_be_sticky=place != inner):
            return place
    return None


def _is_open(about: os.stat_result, may_be_sticky: bool) -> bool:
    """Return whether others can write: by owning a folder, as everybody, or as a group that is not the owner's alone.

    may_be_sticky: whether everybody may write if only owners can rename what is theirs, as in /tmp.
    """
    if about.st_uid not in (0, os.geteuid(), os.stat(__file__).st_uid):  # who owns the package can change it anyway
        return True
    by_group = about.st_mode & stat.S_IWGRP and about.st_gid != about.st_uid
    by_everybody = about.st_mode & stat.S_IWOTH
    return bool(by_group or by_everybody) and not (may_be_sticky and about.st_mode & stat.S_ISVTX)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file against other processes, where the system has locks."""
    with open(path, "ab") as file:
        try:
            import fcntl
        except ImportError:
            with suppress(ImportError):
                import msvcrt  # of Windows

                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield  # closing the file unlocks it
