"""Read libsvm (libfm) text: strict, fast, in bounded memory.

    label (blanks id:value)* (blanks? # comment)? end-of-line

Blanks are spaces and tabs, lines end with LF or CRLF; blank lines and comments are skipped. Numbers are
decimal, `[+-]digits[.digits][e[+-]digits]`, also `.5` and `5.`, rounded to float32. Ids are whole numbers.
A last line without a newline is kept, so in a file truncated inside its last value, that value is read as the shorter
number: the format cannot tell. Explicit zeros are kept as stored zeros; counts of features elsewhere ignore them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...files.atomic import PathLike
from .reader import Limits, TextRows, iterate_rows, join_rows

__all__ = ["Limits", "TextRows", "iterate_libsvm", "read_libsvm"]


def iterate_libsvm(path: PathLike, **options: Any) -> Iterator[TextRows]:
    """Yield the rows of a file in chunks, in bounded memory; rows before an error are yielded first.

    path: plain, gzip or zstd text, or "-" for standard input. Options and their defaults:
    index_base = 0: the smallest id, 0 or 1; never guessed.
    duplicates = "error": or "sum" to add the values of an id that occurs twice in a row.
    limits = Limits().
    chunk_bytes = 4 MiB: about how much text is read at once.
    threads = 2, or 1 on one core: results are the same for any number.
    """
    return iterate_rows(path, has_fields=False, **options)


def read_libsvm(path: PathLike, **options: Any) -> TextRows:
    """Read a whole file, which may have no rows; options are those of iterate_libsvm.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.svm")
    ...     _ = path.write_text("1 7:0.5 3:1  # unsorted\\n0\\n")
    ...     rows = read_libsvm(path)
    >>> rows.labels.tolist(), rows.indptr.tolist(), rows.indices.tolist(), rows.values.tolist()
    ([1.0, 0.0], [0, 2, 2], [3, 7], [1.0, 0.5])
    """
    return join_rows(iterate_libsvm(path, **options), has_fields=False)
