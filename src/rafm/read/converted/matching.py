"""Check that a converted file matches the model or training rows it is used with: ids must mean the same."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import DataError, DataValueError
from ...files.atomic import PathLike
from ...files.terminal import counted
from ...rows.classes import BinaryLabels, shown
from .layout import Conversion
from .reader import ArrowRows, is_arrow
from .writer import check_blocks

if TYPE_CHECKING:
    from ...encode.encoder import TableEncoder

WAY_OUT = "Use its source file instead, or convert that with `rafm convert IN OUT --like {}`."
FIRST_BYTES = 1 << 20  # hashed, besides size and time: enough to notice a replaced file without reading all of it


def check_match(
    rows: ArrowRows,
    task: str,
    index_base: int,
    encoder: TableEncoder | None,
    whose: str,
    labels: BinaryLabels | None = None,
) -> None:
    """Raise DataValueError if encoder, index base, task or labels differ.

    whose: what the rows are used with, "the model" or "the training rows".
    """
    found, like = rows.conversion, "MODEL" if whose == "the model" else "TRAIN.arrow"
    if rows.encoder != encoder:
        message = f"its encoder is {_named(rows.encoder)}, that of {whose} is {_named(encoder)}. {WAY_OUT.format(like)}"
    elif encoder is None and found.index_base != index_base:
        message = f"its ids start from {found.index_base}, those of {whose} from {index_base}. {WAY_OUT.format(like)}"
    elif found.task != task:
        message = f"converted for --task {found.task}, but the task of {whose} is {task}. {WAY_OUT.format(like)}"
    elif task == "binary" and labels is not None and not labels.matches(found.classes):
        own, other = (_listed(classes) for classes in (found.classes, labels.classes))
        message = f"its labels are {own}, those of {whose} {other}. {WAY_OUT.format(like)}"
    else:
        return
    raise DataValueError(message, path=os.fspath(rows.path))


def _listed(classes: list[Any] | None) -> str:
    """Return the labels, the negative one first."""
    return " and ".join(map(shown, classes or [0, 1]))


def _named(encoder: TableEncoder | None) -> str:
    if encoder is None:
        return "none (rows of ids)"
    from ...encode.serialize import digest

    names = [column.name for column in encoder.columns]
    columns = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
    targets = ", ".join(encoder.spec.targets()) or "no label"
    return f"{digest(encoder)} ({counted(encoder.n_features, 'feature')} of {columns}; label: {targets})"


def stamp(path: PathLike) -> dict[str, Any]:
    """Return size, modification time and a digest of the first megabyte, to notice when the source changes."""
    if not os.path.isfile(path):  # a pipe or a directory: never considered unchanged
        return {}
    facts = os.stat(path)
    with open(path, "rb") as file:
        head = hashlib.sha256(file.read(FIRST_BYTES)).hexdigest()
    return {"size": facts.st_size, "time": facts.st_mtime_ns, "head": head}


def is_current(out: PathLike, wanted: Conversion) -> bool:
    """Tell whether the output already holds this conversion of the current source, undamaged."""
    if not wanted.source or not is_arrow(out):
        return False
    try:
        # labels and coverage are found while reading, and follow from the rest
        if replace(ArrowRows(out).conversion, classes=None, coverage=None) != wanted:
            return False
        check_blocks(out)
    except DataError:
        return False
    return True
