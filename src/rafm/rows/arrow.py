"""Convert arrays and rows to Arrow and back. Arrow is imported on first use, because importing it is slow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from .checked import Batch
from .expansion import expanded_bytes
from .memory import OwnedMemory

if TYPE_CHECKING:
    import pyarrow as pa

# Arrow's names of its types of numbers. Its own translation, `to_pandas_dtype`, imports pandas before version 26.
KINDS = {f"{sign}int{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
KINDS |= {"halffloat": np.dtype(np.float16), "float": np.dtype(np.float32), "double": np.dtype(np.float64)}


def array_of(numbers: np.ndarray, kind: type = np.float32) -> pa.Array:
    """Return numbers as an Arrow array, without a copy if they already have the type."""
    import pyarrow as pa

    # Not `pa.array`: it imports pandas.
    numbers = np.ascontiguousarray(numbers, kind)
    return pa.Array.from_buffers(pa.from_numpy_dtype(kind), numbers.size, [None, pa.py_buffer(numbers)])


def new_array(shape: tuple[int, ...], kind: type) -> np.ndarray:
    """Return an uninitialised array in memory from Arrow's pool."""
    import pyarrow as pa

    # The system's allocator keeps freed memory per thread; Arrow's pool is shared and can be released.
    memory = pa.allocate_buffer(max(math.prod(shape), 1) * np.dtype(kind).itemsize)
    return np.asarray(OwnedMemory(memory, memory.address, shape, kind))


def numbers_of(cells: pa.Array) -> np.ndarray:
    """Return an Arrow array of numbers without nulls as a NumPy array, without a copy.

    >>> numbers_of(array_of(np.array([1, 2, 3]), np.int32)[1:])
    array([2, 3], dtype=int32)
    """
    kind = KINDS[str(cells.type)]  # not `to_numpy`: it imports pandas
    if not len(cells):
        return np.zeros(0, kind)
    return np.frombuffer(cells.buffers()[1], kind, len(cells), cells.offset * kind.itemsize)


def bytes_of_batch(batch: pa.RecordBatch) -> int:
    """Return the size of a record batch."""
    try:
        size: int = batch.nbytes
    except TypeError:  # before version 24 Arrow cannot tell for text views
        size = expanded_bytes(batch)
    return size


def arrays_of_batch(batch: pa.RecordBatch) -> list[np.ndarray | None]:
    """Return a record batch as one array of bytes."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return [np.frombuffer(sink.getvalue(), np.uint8)]


def batch_of_arrays(arrays: list[np.ndarray | None]) -> pa.RecordBatch:
    """Return the record batch that `arrays_of_batch` took apart."""
    import pyarrow as pa

    return pa.ipc.open_stream(pa.py_buffer(arrays[0])).read_next_batch()


def record_batch_of(block: Batch, id_type: type) -> pa.RecordBatch:
    """Return rows as a record batch, without copies if the arrays have the right types."""
    import pyarrow as pa

    offsets = array_of(block.indptr, np.int32)
    columns = {
        "label": None if block.labels is None else array_of(block.labels),
        "weight": None if block.weights is None else array_of(block.weights),
        "ids": pa.ListArray.from_arrays(offsets, array_of(block.indices, id_type)),
        "values": pa.ListArray.from_arrays(offsets, array_of(block.values)),
    }
    return pa.record_batch({name: column for name, column in columns.items() if column is not None})
