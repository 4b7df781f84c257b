"""The one door for files: whatever the format, labelled rows for training and batches for scoring come out.

Row formats (libsvm, libffm) have feature ids; tables (CSV, TSV, Parquet, Criteo, Avazu) go through an encoder, which is
learnt in training and used again for scoring; converted files (Arrow) are mapped and bring their encoder along.
What reads tables and converted files is imported when there is one: rows of ids do without Arrow.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encode.coverage import Coverage
from ..encode.spec import ColumnSpec, TableSpec
from ..errors import ConfigError, DataValueError
from ..files.atomic import PathLike
from ..rows.checked import Batch, CheckedRows, check_batch
from ..rows.source import Source
from ..rows.spill import Room, SpilledRows
from .compression import source_name
from .detect import NO_ROWS, detect_format
from .libsvm.libsvm import Limits
from .presets import PRESETS, TABLE_FORMATS
from .rows import READERS, open_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from ..encode.encoder import TableEncoder
    from .converted import ArrowRows
    from .csv.reader import OnBad


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
    room: Room = field(default_factory=Room)

    def format_of(self, path: PathLike) -> str:
        """Return the format that was given, or what the file looks like."""
        known = (*READERS, *TABLE_FORMATS, "arrow")
        if self.format not in ("auto", *known):
            raise ConfigError(f"format must be auto, {', '.join(known)}; found {self.format!r}", key="format")
        return detect_format(path).format if self.format == "auto" else self.format

    def row_options(self, format: str) -> dict[str, Any]:
        """Return the options of the readers of rows."""
        return {
            "task": self.task,
            "format": format,
            "index_base": self.index_base,
            "duplicates": self.duplicates,
            "limits": self.limits,
        }

    def table_spec(self, format: str) -> TableSpec:
        """Return the specification for a table: the given one, completed by what a preset knows."""
        spec = self.spec or TableSpec()
        if format in PRESETS:
            spec = _with_preset(spec, format)
        if not spec.targets():
            raise ConfigError("name the column that holds the labels: --label COLUMN", key="label")
        return spec


def _with_preset(spec: TableSpec, format: str) -> TableSpec:
    preset = PRESETS[format]
    given = {column.name for column in spec.columns}
    formats = preset.datetime_format
    columns = [
        ColumnSpec(name, kind, format=formats.get(name)) for name, kind in preset.kinds.items() if name not in given
    ]
    spec = replace(spec, columns=(*spec.columns, *columns))
    return spec if spec.targets() else replace(spec, label=preset.label)


def _converted(path: PathLike) -> ArrowRows:
    from .converted import ArrowRows

    return ArrowRows(path)


def _table(
    path: PathLike, format: str, columns: dict[str, str], on_bad: OnBad | None = None
) -> Iterator[pa.RecordBatch]:
    from .tables import read_table

    return read_table(path, format=format, columns=columns, on_bad=on_bad)


def _read_as(path: PathLike, format: str, spec: TableSpec, on_bad: OnBad | None = None) -> Iterator[pa.RecordBatch]:
    """Read a table with columns of the types that their kinds want; labels and weights are numbers."""
    kinds = {column.name: column.kind for column in spec.columns}
    columns = kinds | dict.fromkeys(spec.targets(), "number")
    return _table(path, format, columns, on_bad)


@contextmanager
def _naming(path: PathLike) -> Iterator[None]:
    """Let errors about cells, which know column and row, name the file too."""
    try:
        yield
    except DataValueError as error:
        raise (error if error.path else DataValueError(str(error), path=source_name(path))) from None


def training_rows(
    path: PathLike, opening: Opening, report: Callable[[str], Any] | None = None
) -> tuple[Source, TableEncoder | None]:
    """Return labelled rows and, for tables, the encoder learnt from them; report is told which column became what."""
    format = opening.format_of(path)
    if format == "arrow":
        source = _converted(path)
        return source, source.encoder
    if format in READERS:
        return _keep(open_rows(path, **opening.row_options(format)), path, opening, None), None
    encoder, rows = _learn(path, format, opening, report)
    return _keep(rows, path, opening, encoder), encoder


def labelled_rows(path: PathLike, opening: Opening, encoder: TableEncoder | None) -> Source:
    """Return the rows of a file as a trained model wants them, to be visited many times."""
    if opening.format_of(path) == "arrow":
        return _converted(path)
    return _keep(batches_of(path, opening, encoder), path, opening, encoder)


def further_rows(path: PathLike, opening: Opening, encoder: TableEncoder | None) -> tuple[Source, TableEncoder | None]:
    """Return labelled rows to train a model further, and its encoder, which takes in new values of a table."""
    format = opening.format_of(path)
    if format == "arrow":
        _check_converted(_converted(path), opening, encoder)
    if encoder is None or format == "arrow" or format in READERS:
        return labelled_rows(path, opening, encoder), encoder
    with _naming(path):
        batches = _table(path, format, encoder.reader_columns())
        encoder, rows = encoder.grow_then_encode(batches, room=opening.room)
    checked = map(check_batch, _for_task(_named(rows, path), opening.task, path))
    return _keep(checked, path, opening, encoder), encoder


def _check_converted(source: ArrowRows, opening: Opening, encoder: TableEncoder | None) -> None:
    """Refuse converted rows whose ids mean something else than the model's."""
    base = source.info["index_base"]
    if source.encoder != encoder:
        raise DataValueError(
            "converted by another encoder than the model's; give the table itself", path=os.fspath(source.path)
        )
    if encoder is None and base != opening.index_base:
        raise DataValueError(
            f"its ids count from {base}, those of the model from {opening.index_base}", path=os.fspath(source.path)
        )


def _keep(
    batches: Iterator[CheckedRows], path: PathLike, opening: Opening, encoder: TableEncoder | None
) -> SpilledRows:
    rows = SpilledRows(batches, opening.room, encoder.n_features if encoder else None)
    if rows.n_rows == 0:
        raise DataValueError("no rows", path=str(path))
    return rows


def _learn(
    path: PathLike, format: str, opening: Opening, report: Callable[[str], Any] | None
) -> tuple[TableEncoder, Iterator[CheckedRows]]:
    """Return the encoder of a table and its labelled rows, which are read once."""
    from ..encode.encoder import TableEncoder

    spec = opening.table_spec(format)
    with _naming(path):
        batches = _read_as(path, format, spec)
        encoder, rows = TableEncoder.learn_then_encode(batches, spec, report, room=opening.room)
    return encoder, map(check_batch, _for_task(_named(rows, path), opening.task, path))


def _named(rows: Iterator[Batch], path: PathLike) -> Iterator[Batch]:
    with _naming(path):
        yield from rows


def raw_table(
    path: PathLike, opening: Opening, format: str, on_bad: OnBad
) -> tuple[TableSpec, Iterator[pa.RecordBatch]]:
    """Return what is known of a table and its cells, to be looked at: labels need not be named, bad rows are told."""
    spec = opening.spec or TableSpec()
    spec = _with_preset(spec, format) if format in PRESETS else spec
    return spec, _read_as(path, format, spec, on_bad)


def convert(path: PathLike, out: PathLike, opening: Opening, report: Callable[[str], Any] | None = None) -> int:
    """Write the rows of a file as an Arrow file, in bounded memory; return its size in bytes.

    A table is read once, and its codes wait on the disk until all its values are known. The encoder goes into the file.
    """
    from .converted import write_arrow

    format = opening.format_of(path)
    info = {"source": stamp(path), "index_base": opening.index_base, "task": opening.task}
    if format in READERS:
        return write_arrow(out, batches_of(path, opening, None), info)
    if format == "arrow":
        raise ConfigError("the input is an Arrow file already", key="data")
    encoder, rows = _learn(path, format, opening, report)
    return write_arrow(out, rows, info, encoder=encoder)


def stamp(path: PathLike) -> dict[str, Any]:
    """Return what tells one state of a source from another: size, time, and a digest of its first megabyte."""
    if not os.path.isfile(path):
        return {}
    facts = os.stat(path)
    with open(path, "rb") as file:
        head = hashlib.sha256(file.read(1 << 20)).hexdigest()
    return {"size": facts.st_size, "time": facts.st_mtime_ns, "head": head}


def is_current(path: PathLike, out: PathLike, opening: Opening) -> bool:
    """Tell whether a conversion of this source, as it is now, with these settings, is already there."""
    from .converted import is_arrow

    if not is_arrow(out) or not (now := stamp(path)) or opening.spec is not None:
        return False
    known = _converted(out).info
    wanted = {"source": now, "index_base": opening.index_base, "task": opening.task}
    return {name: known.get(name) for name in wanted} == wanted


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
    format = opening.format_of(path)
    if format == "arrow":
        source = _converted(path)
        yield from (source.block(number) for number in range(source.n_blocks))
    elif encoder is None:
        if format not in READERS:
            raise DataValueError(f"the model takes feature ids, but this looks like {format}", path=str(path))
        yield from open_rows(path, **opening.row_options(format))
    else:
        if opening.format == "auto" and detect_format(path) == NO_ROWS:
            return
        if format in READERS:
            raise DataValueError(f"the model takes tables, but this looks like {format}", path=str(path))
        absent = () if targets else encoder.spec.targets()  # a table to predict may lack its labels
        columns = {name: kind for name, kind in encoder.reader_columns().items() if name not in absent}
        encoded = _encoded(path, _table(path, format, columns), encoder, targets, coverage)
        yield from map(check_batch, _for_task(encoded, opening.task, path) if targets else encoded)


def _encoded(
    path: PathLike, batches: Iterator[pa.RecordBatch], encoder: TableEncoder, targets: bool, coverage: Coverage | None
) -> Iterator[Batch]:
    row = 0
    for block in batches:
        with _naming(path):
            rows = encoder.encode(block, targets=targets, coverage=coverage, first_row=row)
        yield rows
        row += block.num_rows


def _for_task(batches: Iterable[Batch], task: str, path: PathLike) -> Iterator[Batch]:
    """Yield rows of a table with labels as the task wants them: 0 and 1 for binary."""
    seen: set[float] = set()
    for rows in batches:
        if rows.labels is None:
            raise DataValueError("the table has no label column", path=str(path))
        if task == "binary":
            seen.update(np.unique(rows.labels).tolist())
            _check_binary(seen, path)
            rows = replace(rows, labels=np.maximum(rows.labels, 0).astype(np.float32))
        yield rows


def _check_binary(labels: set[float], path: PathLike) -> None:
    bad, mixed = labels - {-1, 0, 1}, {-1, 0} <= labels
    if bad or mixed:
        found = f"{min(bad):g}" if bad else "a mix of 0 and -1"
        raise DataValueError(f"binary labels are 0 and 1, or -1 and 1; found {found}", path=str(path))
