"""Read Parquet into record batches: a file, a directory, or a pattern such as "day=*/part-*.parquet".

Text is read as dictionaries and becomes plain text in slices of limited size, since a few bytes of a dictionary can
stand for gigabytes of text.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ..encode.casts import cell_type, is_list
from ..errors import ConfigError, DataFormatError, DataValueError, ResourceLimitError
from ..files.atomic import PathLike
from ..rows.expansion import CELL_BYTES, in_pieces
from .compression import STDIN
from .csv.cell_types import NOT_REQUIRED, READ_AS

BATCH_BYTES = 8 * 2**20
LIST_ROWS = 2**10  # read at once if there are lists, whose lengths are not known before
SUFFIXES = (".parquet", ".parq", ".pq")


def read_parquet(
    path: PathLike, *, columns: Mapping[str, str] | None = None, batch_bytes: int = BATCH_BYTES, **text_options: Any
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of one schema, at most a row group at a time, files sorted by name.

    path: a file; a directory, searched recursively; or a pattern with * and **. In directories, hidden files and those
    that begin with "_" are skipped. All files must have the columns of the first, in any order.
    columns: {name: "ignore"} drops a column; any other kind but "weight" requires it. text_options: those of the text
    readers; delimiter and header are rejected, the others have no effect.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("b", "a"):
    ...         parquet.write_table(pa.table({"file": [name]}), f"{folder}/{name}.parquet")
    ...     [batch.to_pydict() for batch in read_parquet(folder)]
    [{'file': ['a']}, {'file': ['b']}]
    """
    for key in ("delimiter", "header"):
        if key in text_options:
            raise ConfigError("Parquet has neither delimiters nor a header", key=key)
    if os.fspath(path) == STDIN:
        raise ConfigError("Parquet cannot be read from standard input; give a file", key="path")
    if batch_bytes < 1:
        raise ConfigError(f"batch_bytes must be positive, found {batch_bytes}", key="batch_bytes")
    for name, kind in (columns or {}).items():
        if kind not in READ_AS:
            raise ConfigError(f"column {name!r} must be one of {', '.join(READ_AS)}; found {kind!r}", key="columns")
    return _batches(path, columns or {}, batch_bytes)  # a generator, so that options are checked when called


def parquet_files(path: PathLike) -> list[str]:
    """Return the files that a path refers to, sorted by name."""
    name = os.fspath(path)
    if os.path.isdir(name):
        found = [file for file in Path(name).rglob("*") if _is_data(file.relative_to(name)) and file.is_file()]
        files = sorted(str(file) for file in found)
    elif glob.has_magic(name) and not os.path.exists(name):  # "[1].parquet" may be the name of a file
        files = sorted(file for file in glob.glob(name, recursive=True) if os.path.isfile(file))
    else:
        return [name]
    if not files:
        raise DataFormatError("no Parquet files found", path=name)
    return files


def _is_data(file: Path) -> bool:
    # Spark leaves _SUCCESS, _temporary/ and .crc files beside its data
    return file.suffix in SUFFIXES and not any(part.startswith((".", "_")) for part in file.parts)


def _batches(path: PathLike, columns: Mapping[str, str], batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Compare the schemas of all files before reading the first."""
    files = parquet_files(path)
    schema = _kept(_schema(files[0]), columns, files[0])
    for file in files[1:]:
        _check_schema(_kept(_schema(file), columns, file), schema, file, files[0])
    for file in files:
        yield from _read(file, schema, batch_bytes)


def _open(file: str, texts: Sequence[str] = ()) -> parquet.ParquetFile:
    """Open a file without mapping it; verify page checksums where the writer left them. texts: read as dictionaries."""
    if os.path.isfile(file) and os.path.getsize(file) == 0:
        raise DataFormatError("the file is empty, so it is not Parquet", path=file)
    with _naming_damage(file):
        return parquet.ParquetFile(
            file, memory_map=False, pre_buffer=False, page_checksum_verification=True, read_dictionary=texts
        )


@contextmanager
def _naming_damage(file: str) -> Iterator[None]:
    """Turn errors of Arrow into errors that name the file."""
    try:
        yield
    except MemoryError as error:
        reason = error if isinstance(error, ResourceLimitError) else "reading it needs more memory than there is"
        raise ResourceLimitError(f"{file}: {reason}") from None
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _broken(file, error) from None
    except OSError as error:
        raise (error if error.errno is not None else _broken(file, error)) from None


def _broken(file: str, error: Exception) -> DataFormatError:
    return DataFormatError(f"broken Parquet file ({' '.join(str(error).split())}); copy or write it again", path=file)


def _schema(file: str) -> pa.Schema:
    with _open(file) as opened, _naming_damage(file):
        return opened.schema_arrow


def _kept(schema: pa.Schema, columns: Mapping[str, str], file: str) -> pa.Schema:
    """Return the schema of the columns to read; reject missing and duplicate names."""
    names = Counter(schema.names)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise DataFormatError(f"two columns have the same name {twice!r}", path=file)
    for name, kind in columns.items():
        if name not in names and kind not in NOT_REQUIRED:
            raise DataValueError(f"column {name!r} is missing; the columns are {', '.join([*names][:10])}", path=file)
    kept = [pa.field(field.name, _without_views(field.type)) for field in schema if columns.get(field.name) != "ignore"]
    if not kept:
        raise DataValueError("all columns are ignored", path=file)
    return pa.schema(kept)


def _check_schema(found: pa.Schema, wanted: pa.Schema, file: str, first: str) -> None:
    """Reject a file whose columns differ from those of the first."""
    own, others = ({field.name: field.type for field in schema} for schema in (found, wanted))
    for name, kind in others.items():
        if name not in own:
            raise DataFormatError(f"column {name!r} of {first} is missing", path=file)
        if own[name] != kind:
            raise DataFormatError(f"column {name!r} has type {own[name]}, but {kind} in {first}", path=file)
    for name in own:
        if name not in others:
            raise DataFormatError(f"column {name!r} is not in {first}", path=file)


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type of text that is no view, since Arrow cannot cast dictionaries to views."""
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if not is_list(kind) or (inner := _without_views(kind.value_type)) == kind.value_type:
        return kind
    return pa.large_list(inner) if pa.types.is_large_list(kind) else pa.list_(inner, getattr(kind, "list_size", -1))


def _read(file: str, schema: pa.Schema, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one file."""
    with _open(file) as opened, _naming_damage(file):
        n_rows = _batch_rows(opened, batch_bytes)
        texts = [leaf.path for leaf in _leaves(opened) if leaf.physical_type == "BYTE_ARRAY"]
    with _open(file, texts) as opened, _naming_damage(file):
        row = 0
        for batch in _stored(opened, n_rows, schema.names):
            batch.validate(full=True)  # offsets and UTF-8 come from the file, and kernels trust them
            kept = pa.RecordBatch.from_arrays([batch[name] for name in schema.names], schema.names)
            yield from (_plain(piece, schema) for piece in in_pieces(kept, batch_bytes, row))
            row += batch.num_rows


def _stored(opened: parquet.ParquetFile, n_rows: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield batches; Arrow cannot join dictionaries in lists and structs, and every row group has its own."""
    is_nested = _has_lists(opened) or any(leaf.path != leaf.name for leaf in _leaves(opened))
    groups = [[k] for k in range(opened.metadata.num_row_groups)] if is_nested else [None]
    for group in groups:
        yield from opened.iter_batches(n_rows, row_groups=group, columns=names)


def _has_lists(opened: parquet.ParquetFile) -> bool:
    return any(leaf.max_repetition_level for leaf in _leaves(opened))


def _leaves(opened: parquet.ParquetFile) -> list[parquet.ColumnSchema]:
    return [opened.schema.column(number) for number in range(len(opened.schema))]


def _plain(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of the schema; a type that nobody takes stays as it was read."""
    columns = [
        cells if cells.type == field.type or cell_type(field.type) == "other" else _cast(cells, field.type)
        for cells, field in zip(batch.columns, schema)
    ]
    return pa.RecordBatch.from_arrays(columns, schema.names)


def _cast(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    if is_list(kind):  # a cast would include the elements of all lists, not only of those in the slice
        cells = cells.take(pa.array(range(len(cells))))
    return cells.cast(kind)


def _batch_rows(opened: parquet.ParquetFile, batch_bytes: int) -> int:
    """Return how many rows take about batch_bytes, by the sizes in the metadata."""
    metadata, leaves = opened.metadata, _leaves(opened)
    sizes = [metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)]
    # equal values are stored once, but each takes its place in memory
    n_bytes = max(sum(sizes) / max(metadata.num_rows, 1), CELL_BYTES * len(leaves), 1)  # per row
    return int(min(max(batch_bytes / n_bytes, 1), LIST_ROWS if _has_lists(opened) else 2**20))
