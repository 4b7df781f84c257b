"""Files of tables -> record batches: one door for CSV, TSV, Parquet and the presets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from ..errors import ConfigError
from ..files.atomic import PathLike
from .csv.reader import BATCH_BYTES, Header, OnBad, read_delimited
from .detect import detect_format
from .parquet import read_parquet
from .presets import PRESETS, TABLE_FORMATS


def read_table(
    path: PathLike,
    *,
    format: str = "auto",
    delimiter: str | None = None,
    header: Header | None = None,
    columns: Mapping[str, str] | None = None,
    batch_bytes: int = BATCH_BYTES,
    on_bad: OnBad | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file in batches of one schema; called again, it reads again.

    format: auto (see detect_format), csv, tsv, criteo, avazu or parquet. The other options are those of
    read_delimited; what is given here is stronger than what a preset says.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "train.tsv")
    ...     _ = path.write_text("click\\tcity\\n1\\tRome\\n")
    ...     [batch.to_pydict() for batch in read_table(path)]
    [{'click': [1], 'city': ['Rome']}]
    """
    if format == "auto":
        format = detect_format(path).format
    if format not in TABLE_FORMATS:
        raise ConfigError(f"a table must be one of {', '.join(TABLE_FORMATS)}; found {format!r}", key="format")
    if format == "parquet":
        if delimiter is not None or header is not None:
            raise ConfigError("Parquet has neither delimiters nor a header", key="delimiter" if delimiter else "header")
        return read_parquet(path, columns=columns, batch_bytes=batch_bytes)
    options: dict[str, Any] = {"delimiter": "\t"} if format == "tsv" else {}
    if format in PRESETS:
        options = PRESETS[format].read_options()
    given = {"delimiter": delimiter, "header": header}
    options |= {key: value for key, value in given.items() if value is not None}
    options["columns"] = {**options.get("columns", {}), **(columns or {})}
    return read_delimited(path, batch_bytes=batch_bytes, on_bad=on_bad, **options)
