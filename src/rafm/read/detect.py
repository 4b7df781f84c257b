"""Detect the format of a file from its first bytes, its first lines, then its name."""

from __future__ import annotations

import errno
import os
import re
from typing import NamedTuple

from ..errors import DataFormatError
from ..files.atomic import PathLike
from ..files.other_files import why_no_data
from .compression import STDIN, peek_text, source_name
from .formats import FORMATS

HEAD_BYTES = 2**16
N_LINES = 20
JSON = re.compile(rb"\s*(\[\s*)?\{\s*(\"|\})")  # an object, or a list of objects


class Detection(NamedTuple):
    """A format and the reason for choosing it."""

    format: str
    reason: str


NO_ROWS = Detection("libsvm", "it has no rows")


def detect_format(path: PathLike) -> Detection:
    """Return the name of one of FORMATS, and the reason.

    Standard input ("-") is only peeked at. Whether ids start from 0 or 1 is never guessed.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("1 0:5:1 1:17:1\\n")
    ...     detect_format(path)
    Detection(format='libffm', reason='its first lines are "label field:id:value ..."')
    """
    name = os.fspath(path)
    if name != STDIN and not os.path.isfile(name) and (files := _parquet_or_none(name)):
        return Detection("parquet", f"it matches {len(files)} Parquet files")
    if os.path.isdir(name):
        raise IsADirectoryError(errno.EISDIR, "is a directory without Parquet files (*.parquet); give a file", name)
    for entry in FORMATS.values():
        if entry.starts(name):
            return Detection(entry.name, f"it starts with {entry.magic.decode()}")
    head = peek_text(name, HEAD_BYTES)
    if reason := why_no_data(head[:4096]):
        raise DataFormatError(reason, path=source_name(name))
    lines = _first_lines(head)
    found = _by_lines(lines) or _by_name(name) or _by_delimiter(lines)
    if found.format in ("csv", "tsv", "libsvm") and JSON.match(head):
        raise DataFormatError(
            "looks like JSON, which is not supported; convert it to CSV or Parquet", path=source_name(name)
        )
    return found


def _parquet_or_none(name: str) -> list[str] | None:
    """Return the Parquet files in a directory or matching a pattern."""
    from .parquet import parquet_files

    try:
        files = parquet_files(name)
    except DataFormatError:
        return None
    return files if files != [name] else None


def _first_lines(text: bytes) -> list[bytes]:
    """Return the first complete lines that are neither blank nor comments."""
    lines = text.split(b"\n")
    if len(lines) > 1:
        lines.pop()  # empty, or cut off by the size of the sample
    lines = [line.rstrip(b"\r") for line in lines]
    return [line for line in lines if line.strip() and not line.startswith(b"#")][:N_LINES]


def _by_lines(lines: list[bytes]) -> Detection | None:
    """Detect a format by the pattern of its lines."""
    if not lines:
        return None
    for entry in FORMATS.values():  # in their order: the first that fits wins
        if entry.looks_like is not None and entry.looks_like(lines):
            return Detection(entry.name, f"its first lines are {entry.lines}")
    return None


def _by_name(name: str) -> Detection | None:
    """Detect a format by the file extension, before .gz or .zst."""
    suffix = os.path.splitext(re.sub(r"\.(gz|zst)$", "", name.lower()))[1]
    names = (entry.name for entry in FORMATS.values() if suffix in entry.suffixes)
    return next((Detection(format, f"its name ends with {suffix}") for format in names), None)


def _by_delimiter(lines: list[bytes]) -> Detection:
    """Distinguish tables from rows of ids by the delimiters in the first line."""
    from .csv.reader import find_delimiter

    if not lines:
        return NO_ROWS
    delimiter = find_delimiter(lines[0])
    if delimiter.encode() not in lines[0]:
        return Detection("libsvm", "its first line has no delimiter")
    return Detection("tsv" if delimiter == "\t" else "csv", f"its first line has the delimiter {delimiter!r}")
