"""Read Parquet into record batches: a file, a directory, or a pattern such as "day=*/part-*.parquet"."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from ..errors import ConfigError, DataFormatError, DataValueError
from ..files.atomic import PathLike
from .compression import STDIN
from .csv.cell_types import NOT_REQUIRED, READ_AS

BATCH_BYTES = 8 * 2**20
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


def _open(file: str) -> parquet.ParquetFile:
    """Open a file without mapping it; verify page checksums where the writer left them."""
    if os.path.isfile(file) and os.path.getsize(file) == 0:
        raise DataFormatError("the file is empty, so it is not Parquet", path=file)
    try:
        return parquet.ParquetFile(file, memory_map=False, pre_buffer=False, page_checksum_verification=True)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _broken(file, error) from None
    except OSError as error:
        raise (error if error.errno is not None else _broken(file, error)) from None


def _broken(file: str, error: Exception) -> DataFormatError:
    return DataFormatError(f"broken Parquet file ({' '.join(str(error).split())}); copy or write it again", path=file)


def _schema(file: str) -> pa.Schema:
    with _open(file) as opened:
        try:
            return opened.schema_arrow
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            raise _broken(file, error) from None


def _kept(schema: pa.Schema, columns: Mapping[str, str], file: str) -> pa.Schema:
    """Return the schema of the columns to read; reject missing and duplicate names."""
    names = Counter(schema.names)
    twice = next((name for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise DataFormatError(f"two columns have the same name {twice!r}", path=file)
    for name, kind in columns.items():
        if name not in names and kind not in NOT_REQUIRED:
            raise DataValueError(f"column {name!r} is missing; the columns are {', '.join([*names][:10])}", path=file)
    kept = [pa.field(field.name, field.type) for field in schema if columns.get(field.name) != "ignore"]
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


def _read(file: str, schema: pa.Schema, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches of one file."""
    with _open(file) as opened:
        try:
            n_rows = _batch_rows(opened.metadata, batch_bytes)
            for batch in opened.iter_batches(n_rows, columns=schema.names):
                batch.validate(full=True)  # offsets and UTF-8 come from the file, and kernels trust them
                yield pa.RecordBatch.from_arrays([batch[name] for name in schema.names], schema=schema)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise _broken(file, error) from None
        except OSError as error:
            raise (error if error.errno is not None else _broken(file, error)) from None


def _batch_rows(metadata: parquet.FileMetaData, batch_bytes: int) -> int:
    """Return how many rows take about batch_bytes, by the sizes in the metadata."""
    sizes = [metadata.row_group(k).total_byte_size for k in range(metadata.num_row_groups)]
    n_bytes = max(sum(sizes) / max(metadata.num_rows, 1), 1)  # per row
    return int(min(max(batch_bytes / n_bytes, 1), 2**20))
