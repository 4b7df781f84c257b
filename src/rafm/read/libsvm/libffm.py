"""Read libffm text: libsvm text (see libsvm.py) whose entries begin with a field.

    label (blanks field:id:value)* (blanks? # comment)? end-of-line

Fields are whole numbers below 2**31, kept as written. An id is one feature, whatever its field: the same id twice in a
row is a duplicate, and if duplicates are summed, the first field is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...files.atomic import PathLike
from .reader import TextRows, iterate_rows, join_rows


def iterate_libffm(path: PathLike, **options: Any) -> Iterator[TextRows]:
    """Yield the rows of a file in chunks, with fields; options are those of iterate_libsvm."""
    return iterate_rows(path, has_fields=True, **options)


def read_libffm(path: PathLike, **options: Any) -> TextRows:
    """Read a whole file; options are those of iterate_libsvm.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.ffm")
    ...     _ = path.write_text("1 2:7:0.5 0:3:1\\n")
    ...     rows = read_libffm(path)
    >>> rows.fields.tolist(), rows.indices.tolist(), rows.values.tolist()
    ([0, 2], [3, 7], [1.0, 0.5])
    """
    return join_rows(iterate_libffm(path, **options), has_fields=True)
