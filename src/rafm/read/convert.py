"""Files of any format -> converted files."""

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
class Like:
    """What is taken from a model or a converted file instead of being learnt."""

    task: str
    index_base: int
    encoder: TableEncoder | None


def convert(
    path: PathLike,
    out: PathLike,
    opening: Opening,
    report: Callable[[str], Any] | None = None,
    like: Like | None = None,
    wide_ids: bool = False,
    coverage: Coverage | None = None,
) -> int:
    """Write the rows of a file as an Arrow file, in bounded memory; return its size in bytes.

    A table is read once, and its codes wait on the disk until all its values are known. The encoder goes into the file.
    like: whose encoder, index base and task are used; coverage then counts the values that its encoder knows.
    """
    from .converted.writer import write_arrow

    gives = opening.format_of(path).gives
    if gives == CONVERTED:
        raise ConfigError("the input is an Arrow file already", key="data")
    conversion = conversion_of(path, opening, like, wide_ids)
    encoder = None if like is None else like.encoder
    if like is None and gives != ROWS:
        encoder, rows = learn_table(path, opening, report)
    else:
        opening = replace(opening, task=conversion.task, index_base=conversion.index_base)
        rows = batches_of(path, opening, encoder, coverage=coverage)
    return write_arrow(out, rows, conversion, wide_ids, encoder)


def conversion_of(path: PathLike, opening: Opening, like: Like | None = None, wide_ids: bool = False) -> Conversion:
    """Return what a converted file would say of itself: all that decides what is in it."""
    from .converted.layout import Conversion
    from .converted.matching import stamp

    options = {
        "rafm": __version__,
        "format": opening.format,
        "duplicates": opening.duplicates,
        "limits": asdict(opening.limits),
        "table": None if opening.spec is None else opening.spec.to_dict(),
        "wide_ids": wide_ids,
        "like": None if like is None else _digest(like.encoder),
    }
    task, base = (opening.task, opening.index_base) if like is None else (like.task, like.index_base)
    has_ids = opening.format_of(path).gives == ROWS
    return Conversion(task, base if has_ids else 0, stamp(path), options)


def _digest(encoder: TableEncoder | None) -> str:
    if encoder is None:
        return "ids"
    from ..encode.serialize import digest

    return digest(encoder)


def is_current(
    path: PathLike, out: PathLike, opening: Opening, like: Like | None = None, wide_ids: bool = False
) -> bool:
    """Tell whether this conversion, of the source as it is now, is already there and whole."""
    from .converted import matching

    return matching.is_current(out, conversion_of(path, opening, like, wide_ids))
