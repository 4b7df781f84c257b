"""Files of rows that many processes read: Parquet or Arrow IPC, on a disk, in S3 or in HDFS.

A file holds a table, whose columns an encoder turns into features, or rows of ids: the columns of a converted file, a
list of `ids` per row with a list of `values` (default: all 1), a `label`, and a `weight` if rows have one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
from pyarrow import fs, parquet

from ..encode.encoder import TableEncoder
from ..errors import ConfigError, DataFormatError, DataValueError
from ..read.labels import LabelCheck
from ..read.parquet import SUFFIXES, parquet_files
from ..rows.arrow import numbers_of
from ..rows.checked import Batch, CheckedRows, check_batch
from ..rows.classes import BinaryLabels, WrongGuess
from ..rows.fields import Fields
from .lanes import Unit

ARROW_SUFFIXES = (".arrow", ".feather", ".ipc")
MAX_ID = 2**62  # ids of rows of ids are below this
UNIT_ROWS = 1 << 15
MESSAGE_CHARS = 300


def open_place(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI, and the path within it."""
    if "://" not in path:
        return fs.LocalFileSystem(), path
    try:
        return fs.FileSystem.from_uri(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataFormatError(f"cannot open this address: {_first_line(error)}", path=path) from None


def _first_line(error: Exception) -> str:
    """Return the beginning of a message; some are long, such as the one that lists where libjvm was not found."""
    return (str(error).splitlines() or [type(error).__name__])[0][:MESSAGE_CHARS]


def find_files(path: str) -> list[str]:
    """Return the files of a path, directory, pattern or URI, sorted by name."""
    if "://" not in path:
        if Path(path).is_dir() and (found := sorted(map(str, Path(path).rglob("*"))) if path else []):
            arrow = [file for file in found if file.endswith(ARROW_SUFFIXES)]
            return arrow or parquet_files(path)
        return parquet_files(path)
    system, place = open_place(path)
    with _naming(path):
        if system.get_file_info(place).type != fs.FileType.Directory:
            return [path]
        inside = system.get_file_info(fs.FileSelector(place, recursive=True))
    names = sorted(info.path for info in inside if info.path.endswith((*SUFFIXES, *ARROW_SUFFIXES)))
    if not names:
        raise DataFormatError("no Parquet or Arrow files found", path=path)
    return [uri_inside(path, name.removeprefix(place)) for name in names]


def uri_inside(uri: str, name: str) -> str:
    """Return the URI of a file in a directory; host, user and settings stay.

    >>> uri_inside("s3://bucket/days/?region=eu-west-1", "/1 May.parquet")
    's3://bucket/days/1%20May.parquet?region=eu-west-1'
    """
    base, mark, settings = uri.partition("?")
    return f"{base.rstrip('/')}/{quote(name.lstrip('/'))}{mark}{settings}"


@contextmanager
def _naming(file: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if "://" not in file:
            raise
        raise DataFormatError(f"cannot read this address: {_first_line(error)}", path=file) from None
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataFormatError(f"broken file ({' '.join(str(error).split())}); write it again", path=file) from None


class Groups:
    """The row groups of a Parquet file, or the record batches of an Arrow file."""

    def __init__(self, file: str):
        self.file = file
        system, place = open_place(file)
        with _naming(file):
            opened = system.open_input_file(place)
            self._arrow = pa.ipc.open_file(opened) if opened.read(6) == b"ARROW1" else None
            opened.seek(0)
            self._parquet = None if self._arrow else parquet.ParquetFile(opened, page_checksum_verification=True)

    @property
    def schema(self) -> pa.Schema:
        return self._arrow.schema if self._arrow is not None else self._parquet.schema_arrow  # type: ignore[union-attr]

    def rows(self) -> list[int]:
        """Return the number of rows of each group."""
        if self._arrow is not None:
            return [self._arrow.get_batch(k).num_rows for k in range(self._arrow.num_record_batches)]
        metadata = self._parquet.metadata  # type: ignore[union-attr]
        return [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]

    def batches(self, group: int, rows: int, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield a group in batches of this many rows; the last one may be shorter."""
        with _naming(self.file):
            if self._arrow is not None:
                whole = self._arrow.get_batch(group)
                whole = whole if columns is None else whole.select(columns)
                found = (whole.slice(first, rows) for first in range(0, whole.num_rows, rows))
            else:
                found = self._parquet.iter_batches(rows, row_groups=[group], columns=columns)  # type: ignore[union-attr]
            for batch in found:
                batch.validate(full=True)  # offsets and UTF-8 come from the file, and kernels trust them
                yield batch


@dataclass(frozen=True)
class Source:
    """Files, their units, and how to read them.

    classes: the two labels of a binary task, negative first; None for 0 and 1. encoder: of a table; None for ids.
    """

    files: tuple[str, ...]
    units: tuple[Unit, ...]
    unit_rows: int
    task: str
    encoder: TableEncoder | None = None
    classes: tuple[Any, ...] | None = None
    fields: Fields | None = None

    @property
    def n_rows(self) -> int:
        return sum(unit.rows for unit in self.units)

    def columns(self, schema: pa.Schema, targets: bool = True) -> list[str]:
        """Return the columns to read."""
        if self.encoder is None:
            return [name for name in ("label", "weight", "ids", "values") if name in schema.names]
        wanted = [column.name for column in self.encoder.columns]
        return [*wanted, *(name for name in self.encoder.spec.targets() if targets and name in schema.names)]


def find_units(path: str, unit_rows: int = UNIT_ROWS) -> tuple[tuple[str, ...], tuple[Unit, ...]]:
    """Return the files of a path and their units."""
    files, units, row = find_files(path), [], 0
    for number, file in enumerate(files):
        for group, rows in enumerate(Groups(file).rows()):
            for start in range(0, rows, unit_rows):
                stop = min(start + unit_rows, rows)
                units.append(Unit(number, group, start, stop, row))
                row += stop - start
    if not units:
        raise DataValueError("no rows", path=path)
    return tuple(files), tuple(units)


def is_rows_of_ids(schema: pa.Schema) -> bool:
    """Tell whether a file has ids instead of a table's columns."""
    known = {"label", "weight", "ids", "values"}
    return "ids" in schema.names and set(schema.names) <= known and pa.types.is_list(schema.field("ids").type)


def all_batches(source: Source) -> Iterator[pa.RecordBatch]:
    """Yield all rows of the files, with all their columns."""
    for file in source.files:
        groups = Groups(file)
        for group in range(len(groups.rows())):
            yield from groups.batches(group, source.unit_rows)


def find_classes(source: Source, positive: str | None) -> tuple[Any, ...] | None:
    """Return the two labels of a binary task, reading until both have been seen."""
    labels = BinaryLabels(positive)
    check, reader = LabelCheck(source.files[0], source.task, labels), Reader(source)
    for number in range(len(source.units)):
        found = reader.raw(number).labels
        if found is None:
            raise DataValueError("the rows have no labels", path=source.files[0])
        with suppress(WrongGuess):  # now it knows better
            check.check(found)
        if len(labels.classes or (0, 1)) == 2:
            break
    labels.finish()
    return None if labels.classes is None else tuple(labels.classes)


class Reader:
    """Reads units. The row group of the last unit of every lane stays open, since its next unit is probably wanted."""

    def __init__(self, source: Source):
        self.source = source
        self._open: dict[int, tuple[int, int, int, Iterator[pa.RecordBatch]]] = {}  # per lane: file, group, next row
        self._groups: dict[int, Groups] = {}

    def rows(self, number: int, lane: int = 0, targets: bool = True) -> CheckedRows:
        """Return the rows of a unit."""
        source, unit = self.source, self.source.units[number]
        rows, file = self.raw(number, lane, targets), source.files[unit.file]
        if not targets:
            return check_batch(rows)
        if rows.labels is None:
            raise DataValueError("the rows have no labels", path=file)
        check = LabelCheck(file, source.task, BinaryLabels.known(source.classes))
        return check_batch(replace(rows, labels=check.check(rows.labels)))

    def raw(self, number: int, lane: int = 0, targets: bool = True) -> Batch:
        """Return the rows of a unit, with labels as they are in the file; unchecked."""
        unit = self.source.units[number]
        batch = self._batch(unit, lane, targets)
        if self.source.encoder is None:
            return _rows_of_ids(batch, self.source.files[unit.file])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # columns without a feature: said once, when the encoder was fitted
            return self.source.encoder.encode(batch, targets=targets, first_row=unit.start)

    def _batch(self, unit: Unit, lane: int, targets: bool) -> pa.RecordBatch:
        file, group, row, batches = self._open.pop(lane, (-1, -1, 0, iter(())))
        if (file, group) != (unit.file, unit.group) or row > unit.start:
            if unit.file not in self._groups:
                self._groups[unit.file] = Groups(self.source.files[unit.file])
            groups, row = self._groups[unit.file], 0
            columns = self.source.columns(groups.schema, targets)
            batches = groups.batches(unit.group, self.source.unit_rows, columns)
        for batch in batches:
            row += batch.num_rows
            if row > unit.start:
                self._open[lane] = (unit.file, unit.group, row, batches)
                return batch
        raise DataFormatError("has fewer rows than when training began", path=self.source.files[unit.file])


def _rows_of_ids(batch: pa.RecordBatch, file: str) -> Batch:
    columns = dict(zip(batch.schema.names, batch.columns))
    for name, column in columns.items():
        if column.null_count:
            raise DataValueError(f"column {name!r} has nulls", path=file)
    ids = columns["ids"]
    offsets = numbers_of(ids.offsets).astype(np.int64)
    first, stop = int(offsets[0]), int(offsets[-1])  # a slice of a list array keeps the offsets of the whole
    indices, values = numbers_of(ids.values)[first:stop], np.ones(stop - first, np.float32)
    if "values" in columns:
        others = numbers_of(columns["values"].offsets).astype(np.int64)
        if not np.array_equal(others - others[0], offsets - first):
            raise DataValueError("a row has another number of values than of ids", path=file)
        values = numbers_of(columns["values"].values)[others[0] : others[-1]]
    labels, weights = (numbers_of(columns[name]) if name in columns else None for name in ("label", "weight"))
    return Batch(offsets - first, indices, values, MAX_ID, labels, weights)


def refuse_two_targets(encoder: TableEncoder) -> None:
    """Refuse tables of clicks and impressions, whose rows become two."""
    if encoder.spec.clicks is not None:
        raise ConfigError("a table of clicks and impressions cannot be trained with --ray; convert it first", key="ray")
