"""Files and frames -> batches of rows. To add a format: one file beside this one, and one line in READERS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..files.atomic import PathLike
from ..rows.blocks import join_rows
from ..rows.checked import Batch, CheckedRows, check_batch
from .libsvm.libffm import iterate_libffm
from .libsvm.libsvm import Limits, TextRows, check_binary_labels, iterate_libsvm

READERS = {"libsvm": iterate_libsvm, "libffm": iterate_libffm}


def open_rows(
    path: PathLike,
    *,
    task: str,
    format: str = "auto",
    index_base: int = 0,
    duplicates: str = "error",
    limits: Limits | None = None,
) -> Iterator[CheckedRows]:
    """Yield the rows of a file in batches of bounded size, with labels as the task wants them."""
    name = "libsvm" if format == "auto" else format
    if name not in READERS:
        raise ConfigError(f"format must be auto or {', '.join(READERS)}, found {format!r}", key="format")
    limits = limits or Limits()
    told: list[TextRows] = []
    for rows in READERS[name](path, index_base=index_base, duplicates=duplicates, limits=limits):
        labels = _binary_labels(rows, told, path) if task == "binary" else rows.labels
        yield check_batch(Batch(rows.indptr, rows.indices, rows.values, limits.max_features, labels))


def read_rows(path: PathLike, *, task: str, **options: Any) -> CheckedRows:
    """Read a whole file as one batch; n_features is the largest id plus one."""
    batches = list(open_rows(path, task=task, **options))
    if not batches:
        empty = np.zeros(0, np.float32)
        return check_batch(Batch(np.zeros(1, np.int64), np.zeros(0, np.int64), empty, 0, empty))
    rows = join_rows(batches)
    return rows.with_n_features(rows.largest_id + 1)


def _binary_labels(rows: TextRows, told: list[TextRows], path: PathLike) -> np.ndarray:
    """Return labels as 0 and 1; told keeps the first negative row, so that no mix of 0 and -1 goes unnoticed."""
    before = [chunk.labels for chunk in told]
    labels = np.concatenate([*before, rows.labels])
    lines = np.concatenate([*(chunk.lines for chunk in told), rows.lines])
    checked = check_binary_labels(labels, lines, path)
    if not told and (rows.labels <= 0).any():
        first = int(np.flatnonzero(rows.labels <= 0)[0])
        told.append(rows._replace(labels=rows.labels[first : first + 1], lines=rows.lines[first : first + 1]))
    return checked[len(before) :]
