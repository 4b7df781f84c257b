"""Public data sets: catalog, download, and preparation for training.

    catalog (what exists) -> fetch (archive -> raw files) -> formats (raw files -> table) -> prepared (libfm files)

Everything else reads only prepared directories, so one that was filled by hand works as well as a downloaded one.
"""

from __future__ import annotations

import os
from pathlib import Path

from .catalog import CATALOG, Entry, entry_of

__all__ = ["CATALOG", "Entry", "data_folder", "entry_of"]


def data_folder(given: str | None = None) -> Path:
    """Return the directory of all data sets: the given one, $RAFM_DATA, or rafm-data.

    >>> data_folder("sets").name
    'sets'
    """
    return Path(given or os.environ.get("RAFM_DATA") or "rafm-data")
