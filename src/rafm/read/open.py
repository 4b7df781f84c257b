"""The one door for files: whatever the format, labelled rows for training and batches for scoring come out.

Row formats (libsvm, libffm) have feature ids; tables (CSV, TSV, Parquet, Criteo, Avazu) go through an encoder, which is
learnt in training and used again for scoring; converted files (Arrow) bring their encoder along. All rows that come
out are checked. What reads tables and converted files is imported when there is one: rows of ids do without Arrow.
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
from ..rows.source import RowSource
from ..rows.spill import SpilledRows, SpillOptions
from .compression import source_name
from .detect import NO_ROWS, Found, detect_format
from .formats import CONVERTED, FORMATS, ROWS, TABLE, Format, format_named
from .labels import BinaryLabels
from .libsvm.reader import Limits

if TYPE_CHECKING:
    import pyarrow as pa

    from ..encode.encoder import TableEncoder
    from .converted.reader import ArrowRows
    from .csv.reader import Header, OnBad

MODEL, TRAINING = "the model", "the training rows"  # what converted rows are compared with


@dataclass(frozen=True)
class Opening:
    """How files are to be read. Ids and duplicates matter for row formats, the specification for tables.

    room: where rows wait that are needed more than once.
    """

    task: str
    format: str = "auto"
    index_base: int = 0
    duplicates: str = "error"
    limits: Limits = field(default_factory=Limits)
    spec: TableSpec | None = None
    room: SpillOptions = field(default_factory=SpillOptions)
    _found: dict[Any, Found] = field(default_factory=dict, repr=False, compare=False)

    def find(self, path: PathLike) -> Found:
        """Return the format that was given, or what the file looks like; a file is looked at once."""
        if self.format != "auto":
            return Found(format_named(self.format).name, "as given")
        state = os.stat(path) if os.path.isfile(path) else None
        key = (os.fspath(path), state and (state.st_ino, state.st_size, state.st_mtime_ns))
        if key not in self._found:
            self._found[key] = detect_format(path)
        return self._found[key]

    def format_of(self, path: PathLike) -> Format:
        """Return the format of a file."""
        return FORMATS[self.find(path).format]

    def row_options(self) -> dict[str, Any]:
        """Return the options of the readers of rows."""
        return {"index_base": self.index_base, "duplicates": self.duplicates, "limits": self.limits}

    def table_spec(self, format: str) -> TableSpec:
        """Return the specification for a table: the given one, completed by what a preset knows."""
        spec = self.completed_spec(format)
        if not spec.targets():
            raise ConfigError("name the column that holds the labels: --label COLUMN", key="label")
        return spec

    def completed_spec(self, format: str) -> TableSpec:
        """Return the same, but without labels if nobody named them."""
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
    """Yield the rows of a file of ids in pieces of bounded size, with labels as the task wants them.

    options: those of `Opening`.
    """
    return _rows_of_ids(path, Opening(task, **options), task)


def read_rows(path: PathLike, *, task: str, **options: Any) -> CheckedRows:
    """Read a whole file of ids; n_features is the largest id plus one."""
    batches = list(open_rows(path, task=task, **options))
    if not batches:
        empty = np.zeros(0, np.float32)
        return check_batch(Batch(np.zeros(1, np.int64), np.zeros(0, np.int64), empty, 0, empty))
    rows = join_rows(batches)
    return rows.with_n_features(rows.largest_id + 1)


def _rows_of_ids(path: PathLike, opening: Opening, task: str) -> Iterator[CheckedRows]:
    entry = opening.format_of(path)
    if entry.gives != ROWS:
        raise DataValueError(f"the model takes feature ids, but this looks like {entry.name}", path=str(path))
    binary, n_features = BinaryLabels(path), opening.limits.max_features
    for rows in entry.read(path, **opening.row_options()):
        labels = binary.check(rows.labels, rows.lines) if task == "binary" else rows.labels
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
    """Yield the rows of a table in batches of one schema; called again, it reads again.

    format: auto (see detect_format) or that of a table. The other options are those of read_delimited; what is given
    here is stronger than what a preset says.

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
    options["columns"] = {**entry.options.get("columns", {}), **(columns or {})}
    return entry.read(path, **options)


def raw_table(
    path: PathLike, opening: Opening, format: str, on_bad: OnBad
) -> tuple[TableSpec, Iterator[pa.RecordBatch]]:
    """Return what is known of a table and its cells, to be looked at: labels need not be named, bad rows are told."""
    spec = opening.completed_spec(format)
    return spec, _read_as(path, format, spec, on_bad)


def _read_as(path: PathLike, format: str, spec: TableSpec, on_bad: OnBad | None = None) -> Iterator[pa.RecordBatch]:
    """Read a table with columns of the types that their kinds want; labels and weights are numbers."""
    kinds = {column.name: column.kind for column in spec.columns}
    columns = kinds | dict.fromkeys(spec.targets(), "number")
    return read_table(path, format=format, columns=columns, on_bad=on_bad)


@contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Let errors about cells, which know column and row, name the file too."""
    try:
        yield
    except DataValueError as error:
        raise (error if error.path else DataValueError(str(error), path=source_name(path))) from None


def learn_table(
    path: PathLike, opening: Opening, report: Callable[[str], Any] | None = None
) -> tuple[TableEncoder, Iterator[CheckedRows]]:
    """Return the encoder of a table and its labelled rows, which are read once; report is told what columns become."""
    from ..encode.encoder import TableEncoder

    format = opening.find(path).format
    spec = opening.table_spec(format)
    with _naming(path):
        batches = _read_as(path, format, spec)
        encoder, rows = TableEncoder.learn_then_encode(batches, spec, report, room=opening.room)
    return encoder, _labelled(_named(rows, path), opening.task, path)


def _named(rows: Iterator[Batch], path: PathLike) -> Iterator[Batch]:
    with _naming(path):
        yield from rows


def _labelled(batches: Iterable[Batch], task: str, path: PathLike) -> Iterator[CheckedRows]:
    """Check the rows of a table, with labels as the task wants them."""
    binary = BinaryLabels(path)
    for rows in batches:
        if rows.labels is None:
            raise DataValueError("the table has no label column", path=str(path))
        yield check_batch(replace(rows, labels=binary.check(rows.labels)) if task == "binary" else rows)


# ---- Converted files


def _converted(path: PathLike) -> ArrowRows:
    return FORMATS["arrow"].read(path)


def _fitting(path: PathLike, opening: Opening, encoder: TableEncoder | None, whose: str) -> ArrowRows:
    """Open a converted file whose ids and labels mean what those of the model or the training rows do."""
    from .converted.matching import check_match

    rows = _converted(path)
    check_match(rows, opening.task, opening.index_base, encoder, whose)
    return rows


def facts_of_converted(
    path: PathLike, format: str, task: str, index_base: int, given: Collection[str]
) -> tuple[str, int]:
    """Return task and index base of a converted file, of any other file what is asked for.

    given: which of "task" and "index_base" somebody asked for; these must agree with the file.
    """
    if format not in ("auto", "arrow") or not FORMATS["arrow"].starts(path):
        return task, index_base
    rows = _converted(path)
    found = rows.conversion
    if "task" in given and task != found.task:
        raise ConfigError(
            f"{path} was converted for --task {found.task}, not {task}; "
            f"leave --task out, or convert its source with --task {task}",
            key="task",
        )
    if "index_base" in given and index_base != found.index_base and rows.encoder is None:
        raise ConfigError(
            f"{path} was converted from ids that count from {found.index_base}, not from {index_base}; "
            f"leave --index-base out, or convert its source with --index-base {index_base}",
            key="index_base",
        )
    return found.task, found.index_base


# ---- Any format


def training_rows(
    path: PathLike, opening: Opening, report: Callable[[str], Any] | None = None
) -> tuple[RowSource, TableEncoder | None]:
    """Return labelled rows and, for tables, the encoder learnt from them; report is told which column became what."""
    gives = opening.format_of(path).gives
    if gives == CONVERTED:
        facts_of_converted(path, "arrow", opening.task, opening.index_base, ("task", "index_base"))
        source = _converted(path)
        return source, source.encoder
    if gives == ROWS:
        return _keep(_rows_of_ids(path, opening, opening.task), path, opening, None), None
    encoder, rows = learn_table(path, opening, report)
    return _keep(rows, path, opening, encoder), encoder


def labelled_rows(path: PathLike, opening: Opening, encoder: TableEncoder | None, whose: str = TRAINING) -> RowSource:
    """Return the rows of a file as a model wants them, to be visited many times; whose: what they are used with."""
    if opening.format_of(path).gives == CONVERTED:
        return _fitting(path, opening, encoder, whose)
    return _keep(batches_of(path, opening, encoder), path, opening, encoder)


def further_rows(
    path: PathLike, opening: Opening, encoder: TableEncoder | None
) -> tuple[RowSource, TableEncoder | None]:
    """Return labelled rows to train a model further, and its encoder, which takes in new values of a table."""
    entry = opening.format_of(path)
    if encoder is None or entry.gives != TABLE:
        return labelled_rows(path, opening, encoder, MODEL), encoder
    with _naming(path):
        batches = read_table(path, format=entry.name, columns=encoder.reader_columns())
        encoder, rows = encoder.grow_then_encode(batches, room=opening.room)
    return _keep(_labelled(_named(rows, path), opening.task, path), path, opening, encoder), encoder


def _keep(
    batches: Iterator[CheckedRows], path: PathLike, opening: Opening, encoder: TableEncoder | None
) -> SpilledRows:
    rows = SpilledRows(batches, opening.room, encoder.n_features if encoder else None)
    if rows.n_rows == 0:
        raise DataValueError("no rows", path=str(path))
    return rows


def batches_of(
    path: PathLike,
    opening: Opening,
    encoder: TableEncoder | None,
    targets: bool = True,
    coverage: Coverage | None = None,
) -> Iterator[CheckedRows]:
    """Yield the rows of a file as a trained model wants them, in pieces of bounded size.

    targets: whether labels are wanted. A table must have the columns of the encoder; a model without one takes ids.
    coverage: where values of tables are counted that training has seen or not.
    """
    entry = opening.format_of(path)
    if entry.gives == CONVERTED:
        source = _fitting(path, opening, encoder, MODEL)
        yield from (source.block(number) for number in range(source.n_blocks))
    elif encoder is None:  # any number will do for a label that nobody uses
        yield from _rows_of_ids(path, opening, opening.task if targets else "regression")
    elif opening.find(path) == NO_ROWS:
        return
    elif entry.gives == ROWS:
        raise DataValueError(f"the model takes tables, but this looks like {entry.name}", path=str(path))
    else:
        absent = () if targets else encoder.spec.targets()  # a table to predict may lack its labels
        columns = {name: kind for name, kind in encoder.reader_columns().items() if name not in absent}
        table = read_table(path, format=entry.name, columns=columns)
        encoded = _encoded(path, table, encoder, targets, coverage)
        yield from _labelled(encoded, opening.task, path) if targets else map(check_batch, encoded)


def _encoded(
    path: PathLike, batches: Iterator[pa.RecordBatch], encoder: TableEncoder, targets: bool, coverage: Coverage | None
) -> Iterator[Batch]:
    row = 0
    for block in batches:
        with _naming(path):
            rows = encoder.encode(block, targets=targets, coverage=coverage, first_row=row)
        yield rows
        row += block.num_rows
