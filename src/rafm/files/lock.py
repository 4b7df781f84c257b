"""Locks that the system releases when the process ends."""

from __future__ import annotations

from ..errors import CheckpointError


def lock_file(descriptor: int, refusal: str) -> None:
    """Lock an open file for this process, or raise an error with this text if another one holds the lock."""
    if not take_lock(descriptor):
        raise CheckpointError(refusal)


def take_lock(descriptor: int) -> bool:
    """Lock an open file; return whether this process holds the lock, or there are no locks here."""
    try:
        import fcntl
    except ImportError:  # Windows: no lock
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
