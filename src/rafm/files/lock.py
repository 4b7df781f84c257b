"""Locks that the system releases when the process ends."""

from __future__ import annotations

from ..errors import CheckpointError


def lock_file(descriptor: int, refusal: str) -> None:
    """Lock an open file for this process, or raise an error with this text if another one holds the lock."""
    try:
        import fcntl
    except ImportError:  # Windows: no lock
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CheckpointError(refusal) from None
