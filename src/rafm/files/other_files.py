"""Tell what a file is that is neither a model nor data, from its first bytes."""

from __future__ import annotations

import re

TOO_ODD = 0.1  # share of characters that no text has, from which a file counts as binary
ODD = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufffd]")
MARKS = {
    rb"\x80[\x02-\x05]": "looks like a pickle, which rafm never opens because it can run code",
    rb"PK": "looks like a zip archive",
    rb"\x1f\x8b": "looks like a gzip file",
    rb"\x93NUMPY": "looks like a NumPy array",
    rb"PAR1": "looks like a Parquet file",
    rb"ARROW1": "looks like an Arrow file",
    rb"\x89PNG|\xff\xd8\xff|GIF8|BM.{4}\x00\x00|RIFF.{4}WEBP": "looks like an image",
    rb"%PDF": "looks like a PDF document",
    rb"\x89HDF": "looks like an HDF5 file",
    rb"SQLite format 3": "looks like an SQLite database",
    rb"\x7fELF|MZ\x90": "looks like a program",
    rb"(?s).{8}\{": "looks like a safetensors file of another program",
    rb"[\t\n\r -~]+\Z": "looks like text",
    rb"\Z": "is empty",
}
NO_DATA = [mark for mark, look in MARKS.items() if re.search("pickle|NumPy|image|PDF|HDF5|SQLite|program$", look)]
MODEL_MARK = b'{"__metadata__":{"format":"rafm"'  # behind the length of the header


def describe_start(start: bytes) -> str:
    """Return what kind of file begins with these bytes.

    >>> describe_start(b"%PDF-1.7"), describe_start(bytes(9))
    ('looks like a PDF document', 'begins with the bytes 00 00 00 00 00 00 00 00')
    """
    looks = (look for mark, look in MARKS.items() if re.match(mark, start, re.DOTALL))
    return next(looks, f"begins with the bytes {start[:8].hex(' ')}")


def why_no_data(start: bytes) -> str | None:
    """Return why a file that begins with these bytes holds no rows; None if it may.

    >>> why_no_data(b"1 3:1 7:0.5"), why_no_data(bytes(range(256)))
    (None, 'looks like a binary file: it begins with the bytes 00 01 02 03 04 05 06 07')
    """
    if start[8:].startswith(MODEL_MARK):
        return "is a model file, not data"
    if any(re.match(mark, start, re.DOTALL) for mark in NO_DATA):
        return f"is not data: it {describe_start(start)}"
    text = start.decode("utf-8", "replace")
    if len(ODD.findall(text)) <= TOO_ODD * len(text):
        return None
    return f"looks like a binary file: it begins with the bytes {start[:8].hex(' ')}"
