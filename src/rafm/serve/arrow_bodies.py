"""Requests and answers as Arrow streams: columns reach the encoder as they are, without a Python object per cell."""

from __future__ import annotations

from struct import error as StructError

import numpy as np
import pyarrow as pa
from starlette.responses import Response

from ..encode.casts import cell_type
from ..rows.arrow import array_of
from ..rows.expansion import allowed_bytes, expanded_bytes, is_compressed
from .requests import RequestError
from .served import ServedModel

ARROW_TYPE = "application/vnd.apache.arrow.stream"


def is_arrow(media_type: str) -> bool:
    """Tell whether a header names Arrow streams."""
    return ARROW_TYPE in media_type.lower()


def read_table(body: bytes, max_rows: int) -> pa.Table:
    """Return the table in a stream, after all that a stranger may have written into it was checked."""
    try:
        _refuse_compression(body)
        with pa.ipc.open_stream(body) as stream:
            _check_types(stream.schema)
            batches, n_rows, needed = [], 0, 0
            for batch in stream:
                n_rows += batch.num_rows
                if n_rows > max_rows:  # before anything is computed: rows of nulls need no bytes
                    raise RequestError(422, f"the table has more rows than the limit of {max_rows}")
                batch.validate()  # not yet all of it, which takes as long as the cells are, not the body
                needed += expanded_bytes(batch)
                _check_size(needed, len(body))
                batch.validate(full=True)  # offsets within their buffers, text in UTF-8
                batches.append(batch)
            return pa.Table.from_batches(batches, stream.schema)
    except (MemoryError, pa.ArrowCapacityError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, IndexError, StructError) as error:
        reason = " ".join(str(error).split())[:200]
        raise RequestError(400, f"the body is not a valid Arrow stream: {reason}") from None


def write_scores(model: ServedModel, scored: dict[str, np.ndarray]) -> Response:
    """Return scores as a stream; the metadata of its schema name the model and its SHA-256."""
    columns = [array_of(numbers, np.float64) for numbers in scored.values()]
    table = pa.table(columns, [*scored]).replace_schema_metadata({"model": model.name, "sha256": model.sha256})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW_TYPE)


def _check_types(schema: pa.Schema) -> None:
    if len({*schema.names}) < len(schema.names):
        raise RequestError(422, "two columns have the same name")
    for field in schema:
        if cell_type(field.type) == "other":
            raise RequestError(
                422, f"column {field.name[:80]!r} has type {str(field.type)[:80]}, which is not supported"
            )


def _check_size(needed: int, received: int) -> None:
    if needed > (allowed := allowed_bytes(received)):
        raise RequestError(
            413,
            f"the table needs {needed} bytes once every cell has its own, but {allowed} are allowed for a body of "
            f"{received}; send fewer rows at a time, or shorter values",
        )


def _refuse_compression(body: bytes) -> None:
    """Refuse compressed buffers, since a few bytes of them may expand to gigabytes before any check."""
    if any(map(is_compressed, pa.ipc.MessageReader.open_stream(body))):
        raise RequestError(400, "the Arrow stream is compressed; write it without compression")
