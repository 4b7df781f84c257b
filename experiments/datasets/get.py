"""Prepare a data set from its raw files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from rafm.encode.encoder import TableEncoder
from rafm.encode.spec import TableSpec
from rafm.errors import DataValueError
from rafm.read.open import ReadOptions, read_rows, read_table
from rafm.rows.blocks import join_rows

from .catalog import Entry
from .fetch import raw_files
from .formats import TABLES
from .prepared import PARTS, Whole, check_max_rows, write_prepared
from .table import Table

MIN_COUNT = 10  # rarer values of Criteo and Avazu share one feature per column


def get(
    entry: Entry,
    folder: Path,
    raw: Path | None = None,
    seed: int = 0,
    max_rows: int | None = None,
    report: Callable[[str], None] = print,
    unverified: bool = False,
) -> None:
    """Prepare a data set, downloading its raw files unless they are given or already present.

    unverified: accept downloads without a known SHA-256.
    """
    check_max_rows(max_rows)  # before a download that may take long
    files = raw_files(entry, folder, raw, report, unverified)
    write_prepared(folder, entry.name, read_whole(entry, files, seed, max_rows), seed)


def read_whole(entry: Entry, raw: Path, seed: int, max_rows: int | None = None) -> Whole:
    """Read the raw files of a data set, or their first rows."""
    if entry.loader == "published_parts":
        return _published_parts(entry, raw)
    if entry.loader in ("criteo_log", "avazu_log"):
        return _log(entry, raw, entry.loader.removesuffix("_log"), max_rows)
    return _of_table(TABLES[entry.loader](raw, seed), max_rows)


def _of_table(table: Table, max_rows: int | None) -> Whole:
    batch = Table(table.fields, table.values, table.codes[:max_rows], table.labels[:max_rows], table.note).batch()
    return Whole(batch, table.feature_names(), table.note)


def _published_parts(entry: Entry, raw: Path) -> Whole:
    """Read libfm files that are already split; only the ids of their features are known."""
    missing = [name for name in entry.members if not (raw / name).exists()]
    if missing:
        raise DataValueError(f"{missing[0]} is missing", path=str(raw))
    batches = [read_rows(raw / name, task=entry.task) for name in entry.members]
    rows = join_rows(batches)
    names = [("id", str(i)) for i in range(rows.n_features)]  # one field, since the files name none
    note = f"published parts: {', '.join(PARTS)}"
    return Whole(rows, names, note, tuple(batch.n_rows for batch in batches))


def _log(entry: Entry, raw: Path, format: str, max_rows: int | None) -> Whole:
    """Read a click log with the table encoder."""
    path = next(raw / name for name in entry.members if (raw / name).exists())
    spec = ReadOptions("binary", format, spec=TableSpec(min_count=MIN_COUNT)).table_spec(format)
    kinds = {column.name: column.kind for column in spec.columns} | dict.fromkeys(spec.targets(), "number")
    # max_rows before encoding, so that values are counted in the kept rows only
    blocks = _first_rows(read_table(path, format=format, columns=kinds), max_rows)
    encoder, rows = TableEncoder.learn_encode(blocks, spec)
    if rows.labels is None or not np.isin(rows.labels, (0, 1)).all():
        raise DataValueError("labels must be 0 and 1", path=str(path))
    names = [tuple(name.split("=", 1)) if "=" in name else (name, "") for name in encoder.feature_names()]
    note = f"values seen less than {MIN_COUNT} times share a feature"
    return Whole(rows, names, note)  # type: ignore[arg-type]


def _first_rows(blocks: Iterator[pa.RecordBatch], max_rows: int | None) -> Iterator[pa.RecordBatch]:
    left = max_rows
    for block in blocks:
        if left is None:
            yield block
            continue
        if left <= 0:
            return
        yield block.slice(0, left)
        left -= min(left, block.num_rows)
