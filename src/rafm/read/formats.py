"""Registry of file formats. To add one: a file with its reader, and an entry in FORMATS.

Help, messages and detection derive from the entries. Readers are imported only when used.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ..errors import ConfigError
from ..files.atomic import PathLike
from .presets import AVAZU, CRITEO, Preset

ROWS, TABLE, CONVERTED = "rows", "table", "converted rows"  # what a reader yields
# Loose on purpose: a file with a few bad entries is still libsvm, and its reader names their lines.
LIBSVM_LINE = re.compile(rb"\s*[^\s:,]+(\s+[^\s:,]*:[^\s:,]*)+\s*(#.*)?")
LIBFFM_LINE = re.compile(rb"\s*[^\s:,]+(\s+[^\s:,]*:[^\s:,]*:[^\s:,]*)+\s*(#.*)?")


def mostly(line: re.Pattern[bytes]) -> Callable[[list[bytes]], bool]:
    """Return a function that tells whether at least half of the lines match a pattern."""
    return lambda lines: 2 * sum(bool(line.fullmatch(found)) for found in lines) >= len(lines)


@dataclass(frozen=True)
class Format:
    """One file format.

    gives: ROWS of feature ids, a TABLE, or CONVERTED rows. reader: "module:function" in this package, called with the
    path and the options of `rows_of_ids` or `read_table`. help: one line for users. magic: the first bytes of a file.
    looks_like: tells whether the first lines have this format; lines: how such lines look, for messages. suffixes: file
    extensions. preset: known columns of a table. options: further options of the reader. has_fields: whether rows of
    ids tell the fields of their entries.
    """

    name: str
    gives: str
    reader: str
    help: str
    magic: bytes = b""
    looks_like: Callable[[list[bytes]], bool] | None = None
    lines: str = ""
    suffixes: tuple[str, ...] = ()
    preset: Preset | None = None
    options: dict[str, Any] = field(default_factory=dict)
    has_fields: bool = False

    def read(self, path: PathLike, **options: Any) -> Any:
        """Call the reader, with the options of the format unless others are given."""
        module, name = self.reader.split(":")
        return getattr(import_module(module, __package__), name)(path, **self.options | options)

    def starts(self, path: PathLike) -> bool:
        """Tell whether a file starts with the magic bytes; such formats cannot be read from standard input."""
        if not self.magic or not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            return file.read(len(self.magic)) == self.magic


def _preset(name: str, preset: Preset, help: str, lines: str) -> Format:
    options = preset.read_options()
    return Format(
        name,
        TABLE,
        ".csv.reader:read_delimited",
        help,
        looks_like=preset.looks_like,
        lines=lines,
        preset=preset,
        options=options,
    )


FORMATS = {
    entry.name: entry
    for entry in (
        Format(
            "libsvm",
            ROWS,
            ".libsvm.reader:iterate_rows",
            "label id:value ...",
            looks_like=mostly(LIBSVM_LINE),
            lines='"label id:value ..."',
            suffixes=(".svm", ".libsvm", ".libfm", ".svmlight"),
        ),
        Format(
            "libffm",
            ROWS,
            ".libsvm.reader:iterate_rows",
            "label field:id:value ...",
            looks_like=mostly(LIBFFM_LINE),
            lines='"label field:id:value ..."',
            suffixes=(".ffm", ".libffm"),
            options={"has_fields": True},
            has_fields=True,
        ),
        Format("csv", TABLE, ".csv.reader:read_delimited", "a table with a header", suffixes=(".csv",)),
        Format(
            "tsv",
            TABLE,
            ".csv.reader:read_delimited",
            "a table with a header and tabs",
            suffixes=(".tsv", ".tab"),
            options={"delimiter": "\t"},
        ),
        _preset(
            "criteo",
            CRITEO,
            "the click logs of Criteo",
            "those of Criteo: label, 13 integers, 26 hex codes",
        ),
        _preset("avazu", AVAZU, "the click logs of Avazu", "those of Avazu: id, click, hour, C1, ..."),
        Format("parquet", TABLE, ".parquet:read_parquet", "a file, a folder or a pattern", magic=b"PAR1"),
        Format("arrow", CONVERTED, ".converted.reader:ArrowRows", "what `rafm convert` writes", magic=b"ARROW1"),
    )
}


def format_named(name: str) -> Format:
    """Return the format with this name."""
    if name not in FORMATS:
        raise ConfigError(f"format must be one of auto, {', '.join(FORMATS)}; found {name!r}", key="format")
    return FORMATS[name]


def format_help() -> str:
    """Return the names of all formats for help texts.

    >>> format_help()
    'auto, libsvm, libffm, csv, tsv, criteo, avazu, parquet or arrow.'
    """
    *names, last = FORMATS
    return f"auto, {', '.join(names)} or {last}."
