"""Open files of any format as labelled rows for training, or as batches for scoring.

Row formats (libsvm, libffm) have feature ids. Tables (CSV, TSV, Parquet, Criteo, Avazu) go through an encoder, which is
fitted in training and reused for scoring. Converted files (Arrow) contain their encoder. All rows are checked. Readers
of tables and converted files are imported on first use, so that rows of ids do not need Arrow.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..encode.coverage import Coverage
from ..encode.spec import ColumnSpec, TableSpec
from ..errors import ConfigError, DataValueError, UnseenValuesWarning
from ..files.atomic import PathLike
from ..losses import loss_for
from ..rows.blocks import join_rows
from ..rows.checked import Batch, CheckedRows, check_batch
from ..rows.classes import BinaryLabels, WrongGuess
from ..rows.fields import Fields
from ..rows.overlap import known_ids
from ..rows.source import RowSource
from ..rows.spill import SpilledRows, SpillOptions, loaded
from .compression import source_name
from .detect import NO_ROWS, Detection, detect_format
from .fields import FieldsOfRows, check_use
from .formats import CONVERTED, FORMATS, ROWS, TABLE, Format, format_named
from .labels import LabelCheck
from .libsvm.reader import Limits
from .tables import check_of_file, line_finder, naming_file, read_as, read_table, target_kinds, with_first_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from ..encode.encoder import TableEncoder
    from .converted.reader import ArrowRows
    from .csv.reader import OnBad

Result = TypeVar("Result")
MODEL, TRAINING = "the model", "the training rows"  # what converted rows are compared with


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading files. index_base, duplicates and fields apply to row formats, spec to tables.

    room: memory and directory for rows that are read more than once. labels: the two labels of a binary task, which
    reading the training rows determines and other files share; by default each file has its own. fields: of the ids, if
    the rows do not tell them.
    """

    task: str
    format: str = "auto"
    index_base: int = 0
    duplicates: str = "error"
    limits: Limits = field(default_factory=Limits)
    spec: TableSpec | None = None
    room: SpillOptions = field(default_factory=SpillOptions)
    labels: BinaryLabels | None = None
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
        if not spec.targets() and not loss_for(self.task).is_ranking:
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


def read_rows(path: PathLike, *, task: str, **options: Any) -> CheckedRows:
    """Read a whole libsvm or libffm file; n_features is the largest id plus one. options: those of `ReadOptions`."""
    batches = list(rows_of_ids(path, ReadOptions(task, **options), task))
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
    check, n_features = LabelCheck(path, task, read_options.labels), read_options.limits.max_features
    for rows in entry.read(path, **read_options.row_options()):
        labels = check.check(rows.labels, rows.lines)
        if fields is not None:
            fields.add(rows)
        yield check_batch(Batch(rows.indptr, rows.indices, rows.values, n_features, labels))


# ---- Tables


def table_names(path: PathLike, read_options: ReadOptions) -> list[str]:
    """Return the column names of a table."""
    entry = read_options.format_of(path)
    if entry.gives != TABLE:
        raise DataValueError(f"the model expects a table, but this looks like {entry.name}", path=str(path))
    first = next(iter(read_table(path, format=entry.name, others="text")), None)
    if first is None:
        raise DataValueError("no rows", path=str(path))
    return list(first.schema.names)


def raw_table(
    path: PathLike, read_options: ReadOptions, format: str, on_bad: OnBad
) -> tuple[TableSpec, Iterator[pa.RecordBatch]]:
    """Return the spec and the unencoded batches of a table; no label is required, and bad rows go to on_bad."""
    spec = read_options.completed_spec(format)
    return spec, read_as(path, format, spec, read_options.task, on_bad)


def learn_table(
    path: PathLike, read_options: ReadOptions, report: Callable[[str], Any] | None = None
) -> tuple[TableEncoder, Iterator[CheckedRows]]:
    """Fit an encoder to a table; return it and the labelled rows. report is called with the kinds of the columns."""
    from ..encode.encoder import TableEncoder

    format = read_options.find(path).format
    spec = read_options.table_spec(format)
    with naming_file(path, format):
        batches = read_as(path, format, spec, read_options.task)
        encoder, rows = TableEncoder.learn_then_encode(batches, spec, report, room=read_options.room)
    return encoder, _labelled(_named(rows, path, format), read_options, path)


def _named(rows: Iterator[Batch], path: PathLike, format: str) -> Iterator[Batch]:
    with naming_file(path, format):
        yield from rows


def _labelled(
    batches: Iterable[Batch], read_options: ReadOptions, path: PathLike, is_optional: bool = False
) -> Iterator[CheckedRows]:
    """Check the rows of a table and their labels, which may be absent if they are optional."""
    format = read_options.find(path).format
    check, is_said = LabelCheck(path, read_options.task, read_options.labels, line_finder(path, format)), False
    for row, rows in with_first_rows(batches):
        if rows.labels is None and is_optional and not is_said:
            warnings.warn(f"{source_name(path)} has no label column: its rows have no labels", stacklevel=2)
            is_said = True
        if rows.labels is None and loss_for(read_options.task).is_ranking:  # all of them were chosen
            rows = replace(rows, labels=np.ones(rows.n_rows, np.float32))
        if rows.labels is None and not is_optional:
            raise _no_label(path)
        rows = rows if rows.labels is None else replace(rows, labels=check.check(rows.labels))
        yield check_of_file(rows, path, format, row)


def _no_label(path: PathLike) -> DataValueError:
    why = "the model knows no label column, as it was trained in Python; `rafm evaluate` takes --label COLUMN"
    return DataValueError(why, path=str(path))


# ---- Converted files


def _converted(path: PathLike, fields: Fields | None = None) -> ArrowRows:
    return FORMATS["arrow"].read(path, given_fields=fields)


def _fitting(path: PathLike, read_options: ReadOptions, encoder: TableEncoder | None, whose: str) -> ArrowRows:
    """Open a converted file; check that encoder, index base and task match those of the model or training rows."""
    from .converted.matching import check_match

    rows = _converted(path, read_options.fields)
    check_match(rows, read_options.task, read_options.index_base, encoder, whose, read_options.labels)
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
    """Return labelled rows and, for tables, the fitted encoder; report is called with the kinds of the columns.

    Afterwards, the labels of the options are known.
    """
    labels = BinaryLabels() if read_options.labels is None else read_options.labels
    read_options = replace(read_options, labels=labels)
    found = decoded(path, lambda again: _training_rows(path, read_options, None if again else report))
    labels.finish()
    if read_options.fields is not None:
        check_use(read_options.fields, found[0], path, read_options.index_base)
    return found


def decoded(path: PathLike, read: Callable[[bool], Result]) -> Result:
    """Return what a function reads; if the first rows made it take the wrong label for positive, let it read again."""
    try:
        return read(False)
    except WrongGuess:
        if not os.path.isfile(path):
            raise
        return read(True)


def _training_rows(
    path: PathLike, read_options: ReadOptions, report: Callable[[str], Any] | None
) -> tuple[RowSource, TableEncoder | None]:
    gives = read_options.format_of(path).gives
    if gives == CONVERTED:
        converted_task_and_base(path, "arrow", read_options.task, read_options.index_base, ("task", "index_base"))
        source = _converted(path, read_options.fields)
        if read_options.labels is not None:
            read_options.labels.adopt(source.conversion.classes, os.fspath(path))
        return loaded(source, read_options.room), source.encoder
    if gives == ROWS:
        return _keep_ids(path, read_options), None
    encoder, rows = learn_table(path, read_options, report)
    return _keep(rows, path, read_options, encoder), encoder


def labelled_rows(
    path: PathLike,
    read_options: ReadOptions,
    encoder: TableEncoder | None,
    whose: str = TRAINING,
    coverage: Coverage | None = None,
) -> RowSource:
    """Return labelled rows that can be read many times; whose: what they must match, coverage: as in `batches_of`."""
    gives = read_options.format_of(path).gives
    if gives == CONVERTED:
        return loaded(_fitting(path, read_options, encoder, whose), read_options.room)
    if gives == ROWS and encoder is None:
        return _keep_ids(path, read_options)
    return _keep(batches_of(path, read_options, encoder, coverage=coverage), path, read_options, encoder)


def validation_rows(
    path: PathLike, read_options: ReadOptions, encoder: TableEncoder | None, trained: RowSource | None
) -> RowSource:
    """Return labelled rows to validate on; warn if most of their values or ids are unknown to the training rows.

    trained: the training rows; None if a model knows further ids.
    """
    coverage, gives = Coverage(), read_options.format_of(path).gives
    if gives != CONVERTED and (gives == TABLE) == (encoder is None) and read_options.find(path) != NO_ROWS:
        what = "rows of ids" if encoder is None else "a table"
        found = read_options.format_of(path).name
        raise DataValueError(f"the training rows are {what}, but this looks like {found}", path=str(path))
    rows = labelled_rows(path, read_options, encoder, coverage=coverage)
    if encoder is None and trained is not None:
        coverage.add_ids(known_ids(rows, trained))
    for text in coverage.warnings():
        warnings.warn(UnseenValuesWarning(f"{source_name(path)}: {text}"), stacklevel=2)
    return rows


def further_rows(
    path: PathLike, read_options: ReadOptions, encoder: TableEncoder | None
) -> tuple[RowSource, TableEncoder | None]:
    """Return labelled rows to continue training on, and the encoder, extended by new values of a table."""
    entry = read_options.format_of(path)
    if encoder is None or entry.gives != TABLE:
        return labelled_rows(path, read_options, encoder, MODEL), encoder
    with naming_file(path, entry.name):
        columns = _encoder_columns(encoder, entry.name, read_options)
        batches = read_table(path, format=entry.name, columns=columns, others="text")
        encoder, rows = encoder.grow_then_encode(batches, room=read_options.room)
    return _keep(_labelled(_named(rows, path, entry.name), read_options, path), path, read_options, encoder), encoder


def _encoder_columns(encoder: TableEncoder, format: str, read_options: ReadOptions) -> dict[str, str]:
    """Return how to read the columns of a table for a trained model."""
    targets = target_kinds(encoder.spec, format, read_options.task, read_options.labels)
    return encoder.reader_columns() | targets


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
    targets: bool | None = True,
    coverage: Coverage | None = None,
    beside: ExtraColumns | None = None,
) -> Iterator[CheckedRows]:
    """Yield the rows of a file in batches of bounded size, encoded for a trained model.

    encoder: of the model, or None if it takes feature ids. targets: whether to read labels and weights; None: if a
    table has them. coverage: if given, counts the known and unseen values of a table. beside: if given, takes cells of
    each batch.
    """
    entry = read_options.format_of(path)
    if beside is not None and (entry.gives != TABLE or encoder is None):
        raise ConfigError(f"--with names columns of a table, but {path} is {entry.name}", key="with")
    if entry.gives == CONVERTED:
        source = _fitting(path, read_options, encoder, MODEL)
        for name, counts in (source.conversion.coverage or {}).items():
            if coverage is not None:
                coverage.add(name, np.array(counts))
        yield from (source.block(number) for number in range(source.n_blocks))
    elif encoder is None:  # without targets, any number is accepted as the label, which is not used
        yield from rows_of_ids(path, read_options, read_options.task if targets is not False else "regression")
    elif read_options.find(path) == NO_ROWS:  # an empty file is detected as libsvm, but is a valid empty table too
        return
    elif entry.gives == ROWS:
        raise DataValueError(f"the model expects a table, but this looks like {entry.name}", path=str(path))
    elif targets and not encoder.spec.targets() and not loss_for(read_options.task).is_ranking:
        raise _no_label(path)
    else:
        absent = () if targets else encoder.spec.targets()  # not required, since a table to predict has no labels
        columns = _encoder_columns(encoder, entry.name, read_options)
        if encoder.spec.weight is not None:
            columns[encoder.spec.weight] = "weight"
        wanted = {name: kind for name, kind in columns.items() if name not in absent}
        if beside is not None:
            wanted |= {name: "text" for name in beside.names if wanted.get(name, "ignore") == "ignore"}
        table = read_table(path, format=entry.name, columns=wanted, others="text")  # which the model does not use
        if beside is not None:
            table = beside.taken(table, encoder)
        encoded = _encoded(path, entry.name, table, encoder, targets is not False, coverage)
        unlabelled = (check_of_file(rows, path, entry.name, row) for row, rows in with_first_rows(encoded))
        yield from unlabelled if targets is False else _labelled(encoded, read_options, path, targets is None)


@dataclass(frozen=True)
class ExtraColumns:
    """Takes columns of a table while it is encoded, to be written beside the results.

    cells: one record batch for each batch of rows, until it is popped.
    """

    names: tuple[str, ...]
    cells: deque[pa.RecordBatch] = field(default_factory=deque)

    def taken(self, batches: Iterable[pa.RecordBatch], encoder: TableEncoder) -> Iterator[pa.RecordBatch]:
        """Yield the batches, without columns that only this takes."""
        known = {column.name for column in encoder.columns}
        for batch in batches:
            self.cells.append(batch.select(self.names))
            yield batch.select([name for name in batch.schema.names if name in known or name not in self.names])


def _encoded(
    path: PathLike,
    format: str,
    batches: Iterator[pa.RecordBatch],
    encoder: TableEncoder,
    targets: bool,
    coverage: Coverage | None,
) -> Iterator[Batch]:
    row, weight = 0, encoder.spec.weight
    for block in batches:
        if targets and not row and weight is not None and weight not in block.schema.names:
            warnings.warn(
                f"{source_name(path)} has no weight column {weight!r}: every row counts with weight 1", stacklevel=2
            )
        with naming_file(path, format):
            rows = encoder.encode(block, targets=targets, coverage=coverage, first_row=row)
        yield rows
        row += block.num_rows
