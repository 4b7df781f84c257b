"""Read tables of any format as record batches, with types that suit their kinds; name the lines of bad rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..encode.spec import TableSpec
from ..errors import ConfigError, DataValueError, RowError
from ..files.atomic import PathLike
from ..losses import loss_for
from ..rows.checked import Batch, CheckedRows, check_batch
from ..rows.classes import BinaryLabels
from .compression import source_name
from .detect import detect_format
from .formats import FORMATS, TABLE, format_named

if TYPE_CHECKING:
    import pyarrow as pa

    from .csv.reader import Header, OnBad


def read_table(
    path: PathLike,
    *,
    format: str = "auto",
    delimiter: str | None = None,
    header: Header | None = None,
    columns: Mapping[str, str] | None = None,
    others: str | None = None,
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
    given = {"delimiter": delimiter, "header": header, "others": others, "batch_bytes": batch_bytes, "on_bad": on_bad}
    options = {key: value for key, value in given.items() if value is not None}
    wanted = {**entry.options.get("columns", {}), **(columns or {})}  # column by column
    return entry.read(path, columns=wanted, **options)


def read_as(
    path: PathLike, format: str, spec: TableSpec, task: str, on_bad: OnBad | None = None
) -> Iterator[pa.RecordBatch]:
    """Read a table with column types that suit their kinds; weights are numbers."""
    kinds = {column.name: column.kind for column in spec.columns}
    columns = kinds | target_kinds(spec, format, task, None)
    return read_table(path, format=format, columns=columns, on_bad=on_bad)


def target_kinds(spec: TableSpec, format: str, task: str, labels: BinaryLabels | None) -> dict[str, str]:
    """Return how to read labels and weights: as numbers, unless two words may be the labels."""
    found = dict.fromkeys(spec.targets(), "number")
    has_words = labels is None or not labels.is_known or labels.are_words
    if spec.label is not None and loss_for(task).is_classification and has_words and not FORMATS[format].preset:
        found[spec.label] = "label"
    return found


def line_finder(path: PathLike, format: str) -> Callable[[int], int | None] | None:
    """Return a function that finds the line of a row of a table; None if its rows have no lines."""
    entry = FORMATS[format]
    if not entry.reader.startswith(".csv"):
        return None
    from .csv.reader import line_of_row

    settings = {name: value for name, value in entry.options.items() if name != "columns"}
    return lambda row: line_of_row(path, row, **settings)


@contextmanager
def naming_file(path: PathLike, format: str, first_row: int = 0) -> Iterator[None]:
    """Add the file name, and the line if there is one, to errors about cells, which know only column and row.

    first_row: what errors count their rows from.
    """
    try:
        yield
    except DataValueError as error:
        if error.path:
            raise
        name, find = source_name(path), line_finder(path, format)
        if isinstance(error, RowError):
            if find is not None and (line := find(first_row + error.row)) is not None:
                raise DataValueError(error.message, path=name, line=line) from None
            error = RowError(error.message, first_row + error.row)
        raise DataValueError(str(error), path=name) from None


def with_first_rows(batches: Iterable[Batch]) -> Iterator[tuple[int, Batch]]:
    """Yield batches with the number of their first row."""
    row = 0
    for rows in batches:
        yield row, rows
        row += rows.n_rows


def check_of_file(rows: Batch, path: PathLike, format: str, first_row: int) -> CheckedRows:
    """Check a batch of a table; errors name the file, and the line or row in it."""
    with naming_file(path, format, first_row):
        return check_batch(rows)
