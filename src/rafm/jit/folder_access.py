"""Who can write to a folder: compiled code is read by unpickling, which runs whatever somebody put there."""

from __future__ import annotations

import os
import stat
from functools import cache
from pathlib import Path


@cache
def place_open_to_others(folder: str) -> Path | None:
    """Return the folder, or the one around it, if another user could put files or another folder there."""
    if not hasattr(os, "geteuid"):  # Windows gives every user a cache folder of her own
        return None
    inner = Path(folder).resolve()
    for place in (inner, inner.parent):
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
