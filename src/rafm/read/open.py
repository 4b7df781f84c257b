"""Open files of any format as labelled rows for training, or as batches for scoring.

Row formats (libsvm, libffm) have feature ids. Tables (CSV, TSV, Parquet, Criteo, Avazu) go through an encoder, which is
fitted in training and reused for scoring. Converted files (Arrow) contain their encoder. All rows are checked. Readers
of tables and converted files are imported on first use, so that rows of ids do not need Arrow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encode.coverage import Coverage
from ..encode.spec import ColumnSpec, TableSpec
from ..errors import ConfigError, DataValueError
from ..files.atomic import PathLike
from ..rows.blocks import join_rows
from ..rows.checked import Batch, CheckedRows, check_batch
from ..rows.fields import Fields
from ..rows.source import RowSource
from ..rows.spill import SpilledRows, SpillOptions
from .compression import source_name
from .detect import NO_ROWS, Detection, detect_format
from .fields import FieldsOfRows
from .formats import CONVERTED, FORMATS, ROWS, TABLE, Format, format_named
from .labels import LabelCheck
from .libsvm.reader import Limits

if TYPE_CHECKING:
    import pyarrow as pa

    from ..encode.encoder import TableEncoder
    from .converted.reader import ArrowRows
    from .csv.reader import Header, OnBad

MODEL, TRAINING = "the model", "the training rows"  # what converted rows are compared with


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading files. index_base, duplicates and fields apply to row formats, spec to tables.

    room: memory and directory for rows that are read more than once. fields: of the ids, if the rows do not tell them.
    """

    task: str
    format: str = "auto"
    index_base: int = 0
    duplicates: str = "error"
    limits: Limits = field(default_factory=Limits)
    spec: TableSpec | None = None
    room: SpillOptions = field(default_factory=SpillOptions)
    fields: Fields | None = None
    _found: dict[Any, Detection] = field(default_factory=dict, repr=False, compare=False)

    def find(self, path: PathLike) -> Detection:
        """Return the given format, or detect it; the result is cached."""
        if self.format != "auto":
            return Detection(format_named(self.format).name, "as given")
        # inode, size and time in the key: the same path may hold another file by the next call
        state = os.stat(path) if os.path.isfile(path) else None
        key = (os.fspath(path), state and (state.st_ino, state.st_size, state.st_mtime_ns))
        if key not in self._found:
            self._found[key] = detect_format(path)
        return self._found[key]

    def format_of(self, path: PathLike) -> Format:
        """Return the format of a file."""
        return FORMATS[self.find(path).format]

    def row_options(self) -> dict[str, Any]:
        """Return the options for readers of row formats."""
        return {"index_base": self.index_base, "duplicates": self.duplicates, "limits": self.limits}

    def table_spec(self, format: str) -> TableSpec:
        """Return the table spec, completed by the preset of the format; a label is required."""
        spec = self.completed_spec(format)
        if not spec.targets():
            raise ConfigError("a table needs a label column: --label COLUMN", key="label")
        return spec

    def completed_spec(self, format: str) -> TableSpec:
        """Return the table spec, completed by the preset of the format."""
        spec, preset = self.spec or TableSpec(), FORMATS[format].preset
        if preset is None:
            return spec
        given = {column.name for column in spec.columns}
        formats = preset.datetime_format
        columns = [
            ColumnSpec(name, kind, format=formats.get(name)) for name, kind in preset.kinds.items() if name not in given
        ]
        spec = replace(spec, columns=(*spec.columns, *columns))
        return spec if spec.targets() else replace(spec, label=preset.label)


# ---- Rows of ids


def open_rows(path: PathLike, *, task: str, **options: Any) -> Iterator[CheckedRows]:
    """Yield the rows of a libsvm or libffm file in batches of bounded size; options: those of `ReadOptions`."""
    return rows_of_ids(path, ReadOptions(task, **options), task)


def read_rows(path: PathLike, *, task: str, **options: Any) -> CheckedRows:
    """Read a whole libsvm or libffm file; n_features is the largest id plus one."""
    batches = list(open_rows(path, task=task, **options))
    if not batches:
        empty = np.zeros(0, np.float32)
        return check_batch(Batch(np.zeros(1, np.int64), np.zeros(0, np.int64), empty, 0, empty))
    rows = join_rows(batches)
    return rows.with_n_features(rows.largest_id + 1)


def rows_of_ids(
    path: PathLike, read_options: ReadOptions, task: str, fields: FieldsOfRows | None = None
) -> Iterator[CheckedRows]:
    """Yield the rows of a file in batches, with labels of a task; fields: collects those of the rows."""
    entry = read_options.format_of(path)
    if entry.gives != ROWS:
        raise DataValueError(f"the model expects feature ids, but this looks like {entry.name}", path=str(path))
    check, n_features = LabelCheck(path, task), read_options.limits.max_features
    for rows in entry.read(path, **read_options.row_options()):
        labels = check.check(rows.labels, rows.lines)
        if fields is not None:
            fields.add(rows)
        yield check_batch(Batch(rows.indptr, rows.indices, rows.values, n_features, labels))


# ---- Tables


def read_table(
    path: PathLike,
    *,
    format: str = "auto",
    delimiter: str | None = None,
    header: Header | None = None,
    columns: Mapping[str, str] | None = None,
    batch_bytes: int | None = None,
    on_bad: OnBad | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in batches of one schema.

    format: auto (see detect_format) or a table format. The other options are those of read_delimited; they override
    those of a preset.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.tsv")
    ...     _ = path.write_text("click\\tcity\\n1\\tRome\\n")
    ...     [batch.to_pydict() for batch in read_table(path)]
    [{'click': [1], 'city': ['Rome']}]
    """
    entry = format_named(detect_format(path).format if format == "auto" else format)
    if entry.gives != TABLE:
        tables = ", ".join(name for name, other in FORMATS.items() if other.gives == TABLE)
        raise ConfigError(f"a table must be one of {tables}; found {entry.name!r}", key="format")
    given = {"delimiter": delimiter, "header": header, "batch_bytes": batch_bytes, "on_bad": on_bad}
    options = entry.options | {key: value for key, value in given.items() if value is not None}
    options["columns"] = {**entry.options.get("columns", {}), **(columns or {})}  # column by column
    return entry.read(path, **options)


def table_names(path: PathLike, read_options: ReadOptions) -> list[str]:
    """Return the column names of a table."""
    entry = read_options.format_of(path)
    if entry.gives != TABLE:
        raise DataValueError(f"the model expects a table, but this looks like {entry.name}", path=str(path))
    first = next(iter(read_table(path, format=entry.name)), None)
    if first is None:
        raise DataValueError("no rows", path=str(path))
    return list(first.schema.names)


def raw_table(
    path: PathLike, read_options: ReadOptions, format: str, on_bad: OnBad
) -> tuple[TableSpec, Iterator[pa.RecordBatch]]:
    """Return the spec and the unencoded batches of a table; no label is required, and bad rows go to on_bad."""
    spec = read_options.completed_spec(format)
    return spec, _read_as(path, format, spec, on_bad)


def _read_as(path: PathLike, format: str, spec: TableSpec, on_bad: OnBad | None = None) -> Iterator[pa.RecordBatch]:
    """Read a table with column types that suit their kinds; labels and weights are numbers."""
    kinds = {column.name: column.kind for column in spec.columns}
    columns = kinds | dict.fromkeys(spec.targets(), "number")
    return read_table(path, format=format, columns=columns, on_bad=on_bad)


@contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Add the file name to errors about cells, which know only column and row."""
    try:
        yield
    except DataValueError as error:
        raise (error if error.path else DataValueError(str(error), path=source_name(path))) from None


def learn_table(
    path: PathLike, read_options: ReadOptions, report: Callable[[str], Any] | None = None
) -> tuple[TableEncoder, Iterator[CheckedRows]]:
    """Fit an encoder to a table; return it and the labelled rows. report is called with the kinds of the columns."""
    from ..encode.encoder import TableEncoder

    format = read_options.find(path).format
    spec = read_options.table_spec(format)
    with _naming(path):
        batches = _read_as(path, format, spec)
        encoder, rows = TableEncoder.learn_then_encode(batches, spec, report, room=read_options.room)
    return encoder, _labelled(_named(rows, path), read_options.task, path)


def _named(rows: Iterator[Batch], path: PathLike) -> Iterator[Batch]:
    with _naming(path):
        yield from rows


def _labelled(batches: Iterable[Batch], task: str, path: PathLike) -> Iterator[CheckedRows]:
    """Check the rows of a table and their labels."""
    check = LabelCheck(path, task)
    for rows in batches:
        if rows.labels is None:
            raise DataValueError("the table has no label column", path=str(path))
        yield check_batch(replace(rows, labels=check.check(rows.labels)))


# ---- Converted files


def _converted(path: PathLike, fields: Fields | None = None) -> ArrowRows:
    return FORMATS["arrow"].read(path, given_fields=fields)


def _fitting(path: PathLike, read_options: ReadOptions, encoder: TableEncoder | None, whose: str) -> ArrowRows:
    """Open a converted file; check that encoder, index base and task match those of the model or training rows."""
    from .converted.matching import check_match

    rows = _converted(path, read_options.fields)
    check_match(rows, read_options.task, read_options.index_base, encoder, whose)
    return rows


def converted_task_and_base(
    path: PathLike, format: str, task: str, index_base: int, given: Collection[str]
) -> tuple[str, int]:
    """Return task and index base of a converted file; for other formats return those passed in.

    given: names of the options that the user gave; if "task" or "index_base" is among them, it must match the file.
    """
    if format not in ("auto", "arrow") or not FORMATS["arrow"].starts(path):
        return task, index_base
    rows = _converted(path)
    found = rows.conversion
    if "task" in given and task != found.task:
        raise ConfigError(
            f"{path} was converted for --task {found.task}, not {task}; "
            f"drop --task, or convert the source again with --task {task}",
            key="task",
        )
    if "index_base" in given and index_base != found.index_base and rows.encoder is None:
        raise ConfigError(
            f"{path} was converted with --index-base {found.index_base}, not {index_base}; "
            f"drop --index-base, or convert the source again with --index-base {index_base}",
            key="index_base",
        )
    return found.task, found.index_base


# ---- Any format


def training_rows(
    path: PathLike, read_options: ReadOptions, report: Callable[[str], Any] | None = None
) -> tuple[RowSource, TableEncoder | None]:
    """Return labelled rows and, for tables, the fitted encoder; report is called with the kinds of the columns."""
    gives = read_options.format_of(path).gives
    if gives == CONVERTED:
        converted_task_and_base(path, "arrow", read_options.task, read_options.index_base, ("task", "index_base"))
        source = _converted(path, read_options.fields)
        return source, source.encoder
    if gives == ROWS:
        return _keep_ids(path, read_options), None
    encoder, rows = learn_table(path, read_options, report)
    return _keep(rows, path, read_options, encoder), encoder


def labelled_rows(
    path: PathLike, read_options: ReadOptions, encoder: TableEncoder | None, whose: str = TRAINING
) -> RowSource:
    """Return labelled rows that can be read many times; whose: what they must match, for messages."""
    gives = read_options.format_of(path).gives
    if gives == CONVERTED:
        return _fitting(path, read_options, encoder, whose)
    if gives == ROWS and encoder is None:
        return _keep_ids(path, read_options)
    return _keep(batches_of(path, read_options, encoder), path, read_options, encoder)


def further_rows(
    path: PathLike, read_options: ReadOptions, encoder: TableEncoder | None
) -> tuple[RowSource, TableEncoder | None]:
    """Return labelled rows to continue training on, and the encoder, extended by new values of a table."""
    entry = read_options.format_of(path)
    if encoder is None or entry.gives != TABLE:
        return labelled_rows(path, read_options, encoder, MODEL), encoder
    with _naming(path):
        batches = read_table(path, format=entry.name, columns=encoder.reader_columns())
        encoder, rows = encoder.grow_then_encode(batches, room=read_options.room)
    return _keep(_labelled(_named(rows, path), read_options.task, path), path, read_options, encoder), encoder


def _keep(
    batches: Iterator[CheckedRows], path: PathLike, read_options: ReadOptions, encoder: TableEncoder | None
) -> SpilledRows:
    rows = SpilledRows(batches, read_options.room, encoder.n_features if encoder else None)
    if rows.n_rows == 0:
        raise DataValueError("no rows", path=str(path))
    rows.fields = None if encoder is None else encoder.fields()
    return rows


def _keep_ids(path: PathLike, read_options: ReadOptions) -> SpilledRows:
    own = FieldsOfRows(path, read_options.index_base)
    rows = _keep(rows_of_ids(path, read_options, read_options.task, own), path, read_options, None)
    rows.fields = read_options.fields or own.fields()
    return rows


def batches_of(
    path: PathLike,
    read_options: ReadOptions,
    encoder: TableEncoder | None,
    targets: bool = True,
    coverage: Coverage | None = None,
) -> Iterator[CheckedRows]:
    """Yield the rows of a file in batches of bounded size, encoded for a trained model.

    encoder: of the model, or None if it takes feature ids. targets: whether to read labels and weights.
    coverage: if given, counts the known and unseen values of a table.
    """
    entry = read_options.format_of(path)
    if entry.gives == CONVERTED:
        source = _fitting(path, read_options, encoder, MODEL)
        yield from (source.block(number) for number in range(source.n_blocks))
    elif encoder is None:  # without targets, any number is accepted as the label, which is not used
        yield from rows_of_ids(path, read_options, read_options.task if targets else "regression")
    elif read_options.find(path) == NO_ROWS:  # an empty file is detected as libsvm, but is a valid empty table too
        return
    elif entry.gives == ROWS:
        raise DataValueError(f"the model expects a table, but this looks like {entry.name}", path=str(path))
    else:
        absent = () if targets else encoder.spec.targets()  # not required, since a table to predict has no labels
        columns = {name: kind for name, kind in encoder.reader_columns().items() if name not in absent}
        table = read_table(path, format=entry.name, columns=columns)
        encoded = _encoded(path, table, encoder, targets, coverage)
        yield from _labelled(encoded, read_options.task, path) if targets else map(check_batch, encoded)


def _encoded(
    path: PathLike, batches: Iterator[pa.RecordBatch], encoder: TableEncoder, targets: bool, coverage: Coverage | None
) -> Iterator[Batch]:
    row = 0
    for block in batches:
        with _naming(path):
            rows = encoder.encode(block, targets=targets, coverage=coverage, first_row=row)
        yield rows
        row += block.num_rows
