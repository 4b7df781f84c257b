"""Convert files of any format to Arrow files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ..encode.coverage import Coverage
from ..errors import ConfigError
from ..files.atomic import PathLike
from ..version import __version__
from .formats import CONVERTED, ROWS
from .open import Opening, batches_of, learn_table

if TYPE_CHECKING:
    from ..encode.encoder import TableEncoder
    from .converted.layout import Conversion


@dataclass(frozen=True)
class ConversionTemplate:
    """Task, index base and encoder of an existing model or converted file, used instead of fitting new ones."""

    task: str
    index_base: int
    encoder: TableEncoder | None


def convert(
    path: PathLike,
    out: PathLike,
    opening: Opening,
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

    gives = opening.format_of(path).gives
    if gives == CONVERTED:
        raise ConfigError("the input is already an Arrow file", key="data")
    conversion = conversion_of(path, opening, like, wide_ids)
    encoder = None if like is None else like.encoder
    if like is None and gives != ROWS:
        encoder, rows = learn_table(path, opening, report)
    else:
        opening = replace(opening, task=conversion.task, index_base=conversion.index_base)
        rows = batches_of(path, opening, encoder, coverage=coverage)
    return write_arrow(out, rows, conversion, wide_ids, encoder)


def conversion_of(
    path: PathLike, opening: Opening, like: ConversionTemplate | None = None, wide_ids: bool = False
) -> Conversion:
    """Return the description of a conversion: everything that decides the content of the file."""
    from .converted.layout import Conversion
    from .converted.matching import stamp

    options = {
        "rafm": __version__,  # another version may encode differently
        "format": opening.format,
        "duplicates": opening.duplicates,
        "limits": asdict(opening.limits),
        "table": None if opening.spec is None else opening.spec.to_dict(),
        "wide_ids": wide_ids,
        "like": None if like is None else _digest(like.encoder),
    }
    task, base = (opening.task, opening.index_base) if like is None else (like.task, like.index_base)
    has_ids = opening.format_of(path).gives == ROWS  # encoded tables always count ids from 0
    return Conversion(task, base if has_ids else 0, stamp(path), options)


def _digest(encoder: TableEncoder | None) -> str:
    if encoder is None:
        return "ids"
    from ..encode.serialize import digest

    return digest(encoder)


def is_current(
    path: PathLike, out: PathLike, opening: Opening, like: ConversionTemplate | None = None, wide_ids: bool = False
) -> bool:
    """Tell whether the output already holds this conversion of the current source, undamaged."""
    from .converted import matching

    return matching.is_current(out, conversion_of(path, opening, like, wide_ids))
