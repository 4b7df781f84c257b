"""Compare a converted file with what it is used with: what one id means in it, it must mean there too."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

from ...errors import DataError, DataValueError
from ...files.atomic import PathLike
from .layout import Conversion
from .reader import ArrowRows, is_arrow
from .writer import check_blocks

if TYPE_CHECKING:
    from ...encode.encoder import TableEncoder

WAY_OUT = "Give the file that it was converted from, or convert that with `rafm convert IN OUT --like {}`."
FIRST_BYTES = 1 << 20


def check_match(rows: ArrowRows, task: str, index_base: int, encoder: TableEncoder | None, whose: str) -> None:
    """Refuse rows of another encoder, index base or task than those of the model or the training rows.

    whose: what the rows are used with, "the model" or "the training rows".
    """
    found, like = rows.conversion, "MODEL" if whose == "the model" else "TRAIN.arrow"
    if rows.encoder != encoder:
        message = f"its encoder is {_named(rows.encoder)}, that of {whose} is {_named(encoder)}. {WAY_OUT.format(like)}"
    elif encoder is None and found.index_base != index_base:
        message = f"its ids count from {found.index_base}, those of {whose} from {index_base}. {WAY_OUT.format(like)}"
    elif found.task != task:
        message = f"converted for --task {found.task}, but the task of {whose} is {task}. {WAY_OUT.format(like)}"
    else:
        return
    raise DataValueError(message, path=os.fspath(rows.path))


def _named(encoder: TableEncoder | None) -> str:
    if encoder is None:
        return "none (rows of ids)"
    from ...encode.serialize import digest

    names = [column.name for column in encoder.columns]
    shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    return f"{digest(encoder)} ({encoder.n_features} features of {shown})"


def stamp(path: PathLike) -> dict[str, Any]:
    """Return what tells one state of a source from another: size, time, and a digest of its first megabyte."""
    if not os.path.isfile(path):
        return {}
    facts = os.stat(path)
    with open(path, "rb") as file:
        head = hashlib.sha256(file.read(FIRST_BYTES)).hexdigest()
    return {"size": facts.st_size, "time": facts.st_mtime_ns, "head": head}


def is_current(out: PathLike, wanted: Conversion) -> bool:
    """Tell whether this conversion, of a source as it is now, is already there and whole."""
    if not wanted.source or not is_arrow(out):
        return False
    try:
        if ArrowRows(out).conversion != wanted:
            return False
        check_blocks(out)
    except DataError:
        return False
    return True
