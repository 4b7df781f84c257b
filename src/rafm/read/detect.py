"""Find out the format of a file: by its first bytes, its first lines, then its name."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ..errors import DataFormatError
from ..files.atomic import PathLike
from .compression import STDIN, peek_text
from .presets import PRESETS

HEAD_BYTES = 2**16
N_LINES = 20
SUFFIXES = {
    **dict.fromkeys((".svm", ".libsvm", ".libfm", ".svmlight"), "libsvm"),
    **dict.fromkeys((".ffm", ".libffm"), "libffm"),
    ".csv": "csv",
    **dict.fromkeys((".tsv", ".tab"), "tsv"),
}
MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow"}
ROWS = {
    "libsvm": re.compile(rb"\s*[^\s:,]+(\s+[^\s:,]*:[^\s:,]*)+\s*(#.*)?"),
    "libffm": re.compile(rb"\s*[^\s:,]+(\s+[^\s:,]*:[^\s:,]*:[^\s:,]*)+\s*(#.*)?"),
}
CRITEO = re.compile(rb"([01]\t)?(-?[0-9]*\t){13}([0-9a-f]{8}|)(\t([0-9a-f]{8}|)){25}")
AVAZU = re.compile(rb"[0-9.e+]+,([01],)?[0-9]{8}(,-?[0-9a-f]*){21}")


class Found(NamedTuple):
    """A format and why it was chosen, in a few words."""

    format: str
    reason: str


NO_ROWS = Found("libsvm", "it has no rows")


def detect_format(path: PathLike) -> Found:
    """Return one of libsvm, libffm, csv, tsv, criteo, avazu, parquet, arrow, and the reason.

    "-" looks at the standard input without taking anything from it. Whether ids start from 0 or 1 is never guessed.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.txt")
    ...     _ = path.write_text("1 0:5:1 1:17:1\\n")
    ...     detect_format(path)
    Found(format='libffm', reason='its first lines are "label field:id:value ..."')
    """
    name = os.fspath(path)
    if name != STDIN and not os.path.isfile(name) and (files := _parquet_or_none(name)):
        return Found("parquet", f"it stands for {len(files)} Parquet files")
    for magic, format in MAGIC.items():
        if _starts_with(name, magic):
            return Found(format, f"it starts with {magic.decode()}")
    lines = _first_lines(peek_text(name, HEAD_BYTES))
    return _by_lines(lines) or _by_name(name) or _by_delimiter(lines)


def _parquet_or_none(name: str) -> list[str] | None:
    """Return the Parquet files in a folder or of a pattern."""
    from .parquet import parquet_files

    try:
        files = parquet_files(name)
    except DataFormatError:
        return None
    return files if files != [name] else None


def _starts_with(name: str, magic: bytes) -> bool:
    """Tell whether a file starts with these bytes; binary formats are not read from the standard input."""
    if not os.path.isfile(name):
        return False
    with open(name, "rb") as file:
        return file.read(len(magic)) == magic


def _first_lines(text: bytes) -> list[bytes]:
    """Return the first complete lines that are not blank and no comment."""
    lines = text.split(b"\n")
    if len(lines) > 1:
        lines.pop()  # empty, or cut
    lines = [line.rstrip(b"\r") for line in lines]
    return [line for line in lines if line.strip() and not line.startswith(b"#")][:N_LINES]


def _by_lines(lines: list[bytes]) -> Found | None:
    """Know a format by what its lines look like."""
    if not lines:
        return None
    if all(CRITEO.fullmatch(line) for line in lines):
        return Found("criteo", "its first lines are those of Criteo: label, 13 whole numbers, 26 hex codes")
    names = PRESETS["avazu"].names
    headers = [",".join(kept).encode() for kept in (names, [name for name in names if name != "click"])]
    if lines[0] in headers or all(AVAZU.fullmatch(line) for line in lines):
        return Found("avazu", "its first lines are those of Avazu: id, click, hour, C1, ...")
    for format, form in (("libsvm", "id:value"), ("libffm", "field:id:value")):
        fits = sum(bool(ROWS[format].fullmatch(line)) for line in lines)
        if fits and 2 * fits >= len(lines):
            return Found(format, f'its first lines are "label {form} ..."')
    return None


def _by_name(name: str) -> Found | None:
    """Know a format by the end of the name, before .gz or .zst."""
    suffix = os.path.splitext(re.sub(r"\.(gz|zst)$", "", name.lower()))[1]
    return Found(SUFFIXES[suffix], f"its name ends with {suffix}") if suffix in SUFFIXES else None


def _by_delimiter(lines: list[bytes]) -> Found:
    """Tell tables from rows by the delimiters of the first line."""
    from .csv.reader import find_delimiter

    if not lines:
        return NO_ROWS
    delimiter = find_delimiter(lines[0])
    if delimiter.encode() not in lines[0]:
        return Found("libsvm", "its first line has no delimiter")
    return Found("tsv" if delimiter == "\t" else "csv", f"its first line has the delimiter {delimiter!r}")
