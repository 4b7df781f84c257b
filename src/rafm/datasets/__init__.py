"""Public data sets: what they are and whose, how to get them, and their rows as parts for training and judging.

    catalog (what exists) -> fetch (archive -> raw files) -> formats (raw files -> table) -> prepared (libfm files)

Everything else reads prepared folders alone, so a folder filled by hand is as good as one that was downloaded.
"""

from __future__ import annotations

import os
from pathlib import Path

from .catalog import CATALOG, Entry, entry_of

__all__ = ["CATALOG", "Entry", "data_folder", "entry_of"]


def data_folder(given: str | None = None) -> Path:
    """Return the folder of all data sets: the given one, that of RAFM_DATA, or rafm-data.

    >>> data_folder("sets").name
    'sets'
    """
    return Path(given or os.environ.get("RAFM_DATA") or "rafm-data")
