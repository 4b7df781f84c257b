"""Read libsvm (libfm) text: strict, fast, in bounded memory.

    label (blanks id:value)* (blanks? # comment)? end-of-line

Blanks are spaces and tabs, lines end with LF or CRLF; blank lines and comments are skipped. Numbers are
decimal, `[+-]digits[.digits][e[+-]digits]`, also `.5` and `5.`, rounded to float32. Ids are whole numbers.
A last line without a newline is kept, so a file cut inside its last value is read as that shorter number:
nothing in the format could tell. Explicit zeros are kept as stored zeros; this reader counts nothing, and
whoever counts how often a feature occurs counts its entries that are not zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DataValueError
from ...files.atomic import PathLike
from ..compression import source_name
from .reader import Limits, TextRows, iterate_rows, join_rows

__all__ = ["Limits", "TextRows", "check_binary_labels", "iterate_libsvm", "read_libsvm"]


def iterate_libsvm(path: PathLike, **options: Any) -> Iterator[TextRows]:
    """Yield the rows of a file chunk by chunk, in memory that does not grow with the file.

    path: plain, gzip or zstd text, "-" for the standard input. Options, with their defaults:
    index_base = 0: the smallest id, 0 or 1; never guessed.
    duplicates = "error", or "sum" to add up the values of an id that occurs twice in a row.
    limits = Limits(). chunk_bytes = 4 MiB: about how much text is read at once.
    threads = 2, or 1 on one core: the rows do not depend on it. The good rows before an error are yielded first.
    """
    return iterate_rows(path, has_fields=False, **options)


def read_libsvm(path: PathLike, **options: Any) -> TextRows:
    """Read a whole file; the options are those of iterate_libsvm. A file without rows gives zero rows.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.svm")
    ...     _ = path.write_text("1 7:0.5 3:1  # unsorted\\n0\\n")
    ...     rows = read_libsvm(path)
    >>> rows.labels.tolist(), rows.indptr.tolist(), rows.indices.tolist(), rows.values.tolist()
    ([1.0, 0.0], [0, 2, 2], [3, 7], [1.0, 0.5])
    """
    return join_rows(iterate_libsvm(path, **options), has_fields=False)


def check_binary_labels(labels: np.ndarray, lines: np.ndarray, path: PathLike) -> np.ndarray:
    """Return labels 0/1 or -1/1 as float32 zeros and ones; refuse others and a mix of 0 and -1.

    >>> check_binary_labels(np.array([-1, 1]), np.array([1, 2]), "train.svm")
    array([0., 1.], dtype=float32)
    """
    rule = "binary labels are 0 and 1, or -1 and 1"
    bad = ~np.isin(labels, (-1, 0, 1))
    if not bad.any() and (labels == 0).any() and (labels == -1).any():
        bad = labels == (-1 if np.argmax(labels == 0) < np.argmax(labels == -1) else 0)
        rule = "the labels 0 and -1 are mixed; use 0 and 1, or -1 and 1"
    if bad.any():
        row = int(np.argmax(bad))
        message = f"{rule}, found {labels[row]:.9g}"
        raise DataValueError(message, path=source_name(path), line=int(lines[row]), column=1)
    return (labels == 1).astype(np.float32)
