"""Requests and answers as Arrow streams: columns reach the encoder as they are, without a Python object per cell."""

from __future__ import annotations

from struct import error as StructError
from struct import unpack_from

import numpy as np
import pyarrow as pa
from starlette.responses import Response

from ..encode.casts import cell_type, is_list
from ..rows.arrow import array_of
from .requests import RequestError
from .served import ServedModel

ARROW_TYPE = "application/vnd.apache.arrow.stream"
HEADER_TYPE, HEADER = 1, 2  # fields of a message in Arrow's flatbuffers
RECORD_BATCH, DICTIONARY_BATCH = 3, 2  # kinds of headers
COMPRESSION, DICTIONARY_DATA = 3, 1  # fields of these two


def is_arrow(media_type: str) -> bool:
    """Tell whether a header names Arrow streams."""
    return ARROW_TYPE in media_type.lower()


def read_table(body: bytes, max_rows: int) -> pa.Table:
    """Return the table in a stream, after all that a stranger may have written into it was checked."""
    try:
        _refuse_compression(body)
        with pa.ipc.open_stream(body) as stream:
            _check_types(stream.schema)
            batches, n_rows = [], 0
            for batch in stream:
                n_rows += batch.num_rows
                if n_rows > max_rows:  # before anything is computed: rows of nulls need no bytes
                    raise RequestError(422, f"the table has more rows than the limit of {max_rows}")
                batch.validate(full=True)  # offsets within their buffers, text in UTF-8
                _check_elements(batch, len(body))
                batches.append(batch)
            return pa.Table.from_batches(batches, stream.schema)
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


def _check_elements(batch: pa.RecordBatch, limit: int) -> None:
    """Refuse lists with more elements than the body has bytes: nulls need none."""
    for column in batch.columns:
        if is_list(column.type) and len(column.flatten()) > limit:
            raise RequestError(422, "the lists of a column have too many elements")


def _refuse_compression(body: bytes) -> None:
    """Refuse compressed buffers, since a few bytes of them may expand to gigabytes before any check."""
    for message in pa.ipc.MessageReader.open_stream(body):
        found = message.metadata.to_pybytes()
        kind, header = _field(found, _table(found, 0), HEADER_TYPE), _field(found, _table(found, 0), HEADER)
        if not kind or not header or found[kind] not in (RECORD_BATCH, DICTIONARY_BATCH):
            continue
        batch = _table(found, header)
        if found[kind] == DICTIONARY_BATCH:
            batch = _table(found, _field(found, batch, DICTIONARY_DATA))
        if _field(found, batch, COMPRESSION):
            raise RequestError(400, "the Arrow stream is compressed; write it without compression")


def _table(data: bytes, at: int) -> int:
    """Return the place of the flatbuffer table that is referred to at a place."""
    return at + int(unpack_from("<I", data, at)[0])


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field of a table, 0 if it is not there."""
    names = table - int(unpack_from("<i", data, table)[0])
    size = int(unpack_from("<H", data, names)[0])
    place = 4 + 2 * number
    offset = int(unpack_from("<H", data, names + place)[0]) if place < size else 0
    return table + offset if offset else 0
