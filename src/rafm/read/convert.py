"""Convert files of any format to Arrow files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encode.coverage import Coverage
from ..errors import ConfigError
from ..files.atomic import PathLike
from ..losses import loss_for
from ..rows.checked import CheckedRows
from ..rows.classes import BinaryLabels
from ..rows.fields import Fields
from ..version import __version__
from .fields import FieldsOfRows, check_ids
from .formats import CONVERTED, ROWS
from .open import ReadOptions, batches_of, decoded, learn_table, rows_of_ids

if TYPE_CHECKING:
    from ..encode.encoder import TableEncoder
    from .converted.layout import Conversion


@dataclass(frozen=True)
class ConversionTemplate:
    """Task, index base and encoder of an existing model or converted file, used instead of fitting new ones."""

    task: str
    index_base: int
    encoder: TableEncoder | None
    classes: list[Any] | None = None


def convert(
    path: PathLike,
    out: PathLike,
    read_options: ReadOptions,
    report: Callable[[str], Any] | None = None,
    like: ConversionTemplate | None = None,
    wide_ids: bool = False,
    coverage: Coverage | None = None,
) -> int:
    """Write the rows of a file as an Arrow file, in bounded memory; return its size in bytes.

    A table is read once; its codes are spilled to disk until all values are known. The encoder is stored in the file.
    like: use its encoder, index base and task; coverage then counts which values that encoder knows.
    """
    from .converted.writer import write_arrow

    gives = read_options.format_of(path).gives
    if gives == CONVERTED:
        raise ConfigError(f"{path} is already an Arrow file of `rafm convert`: use it as it is", key="data")
    conversion = conversion_of(path, read_options, like, wide_ids)
    labels = _labels_for(conversion.task, read_options, like)
    found_options = replace(read_options, task=conversion.task, index_base=conversion.index_base, labels=labels)

    def write(again: bool) -> int:
        encoder, own = None if like is None else like.encoder, FieldsOfRows(path, conversion.index_base)
        if like is None and gives != ROWS:
            encoder, rows = learn_table(path, replace(read_options, labels=labels), None if again else report)
        elif gives == ROWS and encoder is None:
            rows = rows_of_ids(path, found_options, conversion.task, own)
        else:
            rows = batches_of(path, found_options, encoder, None, coverage)
        ids = DistinctIds()
        if read_options.fields is not None:
            rows = map(ids.added, rows)

        def fields() -> Fields | None:  # known after the last row
            if read_options.fields is not None:
                check_ids(read_options.fields, ids.found, path, conversion.index_base)
            return read_options.fields or own.fields()

        return write_arrow(out, rows, conversion, wide_ids, encoder, fields, found)

    def found() -> dict[str, Any]:
        if labels is not None:
            labels.finish()
        counts = {} if coverage is None else {name: list(own) for name, own in coverage.columns.items()}
        return {"classes": None if labels is None else labels.classes, "coverage": counts or None}

    return decoded(path, write)


class DistinctIds:
    """Collects the ids that occur in rows while they pass through."""

    def __init__(self) -> None:
        self.found = np.zeros(0, np.int64)

    def added(self, rows: CheckedRows) -> CheckedRows:
        """Return the rows after adding their ids."""
        self.found = np.union1d(self.found, rows.indices[rows.values != 0])
        return rows


def _labels_for(task: str, read_options: ReadOptions, like: ConversionTemplate | None) -> BinaryLabels | None:
    if not loss_for(task).is_classification:
        return None
    return read_options.labels or BinaryLabels() if like is None else BinaryLabels.known(like.classes)


def conversion_of(
    path: PathLike, read_options: ReadOptions, like: ConversionTemplate | None = None, wide_ids: bool = False
) -> Conversion:
    """Return the description of a conversion: everything that decides the content of the file."""
    from .converted.layout import Conversion
    from .converted.matching import stamp

    options: dict[str, Any] = {
        "rafm": __version__,  # another version may encode differently
        "format": read_options.format,
        "duplicates": read_options.duplicates,
        "limits": asdict(read_options.limits),
        "table": None if read_options.spec is None else read_options.spec.to_dict(),
        "wide_ids": wide_ids,
        "like": None if like is None else _digest(like.encoder),
    }
    if like is not None and like.classes is not None:
        options["labels"] = like.classes
    elif read_options.labels is not None and read_options.labels.chosen is not None:
        options["labels"] = read_options.labels.chosen
    if read_options.fields is not None:
        options["fields"] = read_options.fields.checksum()
    task, base = (read_options.task, read_options.index_base) if like is None else (like.task, like.index_base)
    has_ids = read_options.format_of(path).gives == ROWS  # encoded tables always count ids from 0
    return Conversion(task, base if has_ids else 0, stamp(path), options)


def _digest(encoder: TableEncoder | None) -> str:
    if encoder is None:
        return "ids"
    from ..encode.serialize import digest

    return digest(encoder)


def is_current(
    path: PathLike,
    out: PathLike,
    read_options: ReadOptions,
    like: ConversionTemplate | None = None,
    wide_ids: bool = False,
) -> bool:
    """Tell whether the output already holds this conversion of the current source, undamaged."""
    from .converted import matching

    return matching.is_current(out, conversion_of(path, read_options, like, wide_ids))
