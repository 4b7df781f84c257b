"""Cut tables and streams of batches into blocks of rows, and take a sample of the first ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

import pyarrow as pa

from ..errors import RafmError
from ..rows.arrow import bytes_of_batch

BLOCK_ROWS = 1 << 16  # rows encoded at once, so that a column fits the cache
FEW_ROWS = 1 << 13  # smaller chunks of a table are joined
SAMPLE_ROWS, SAMPLE_BYTES = BLOCK_ROWS, 1 << 26  # of a file, used to choose the kinds of columns


def blocks_of(batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield non-empty blocks of at most BLOCK_ROWS rows."""
    if isinstance(batches, pa.Table):
        batches = _joined(batches)
    for batch in [batches] if isinstance(batches, pa.RecordBatch) else batches:
        for at in range(0, batch.num_rows, BLOCK_ROWS):
            yield batch.slice(at, BLOCK_ROWS)


def with_first_rows(blocks: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield every block with the number of its first row."""
    row = 0
    for block in blocks:
        yield row, block
        row += block.num_rows


def _joined(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table; join small ones, since each batch costs some calls per column."""
    n_chunks = max((column.num_chunks for column in table.columns), default=1)
    if n_chunks * FEW_ROWS <= table.num_rows:
        yield from table.to_batches()
        return
    for at in range(0, table.num_rows, BLOCK_ROWS):
        yield from table.slice(at, BLOCK_ROWS).combine_chunks().to_batches()


def take_sample(
    batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
) -> tuple[pa.Table | pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
    """Return the rows that kinds are chosen by, None without any, and an iterator of all rows in blocks.

    The sample of a table in memory has all its rows, that of a file the first ones.
    """
    blocks = blocks_of(batches)
    if isinstance(batches, pa.Table | pa.RecordBatch):
        return (batches if batches.num_rows else None), blocks
    taken: list[pa.RecordBatch] = []
    n_rows = n_bytes = 0
    try:
        for block in blocks:
            taken.append(block)
            n_rows, n_bytes = n_rows + block.num_rows, n_bytes + bytes_of_batch(block)
            if n_rows >= SAMPLE_ROWS or n_bytes >= SAMPLE_BYTES or block.schema != taken[0].schema:
                break
    except (RafmError, OSError) as error:
        if not taken:
            raise
        blocks = _failing(error)  # after the rows before it
    alike = [block for block in taken if block.schema == taken[0].schema]  # others are refused as they are learned
    return (pa.Table.from_batches(alike)[:SAMPLE_ROWS] if alike else None), chain(taken, blocks)


def _failing(error: Exception) -> Iterator[pa.RecordBatch]:
    raise error
    yield
