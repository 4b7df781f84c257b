"""Layout of a converted file: an Arrow IPC file with a description before its footer.

    ARROW1 and two zeros, schema      head
    record batch                      one per block of rows
    end of stream                     8 bytes
    description                       a container (files/container.py)
    length of the description         8 bytes, little-endian
    footer of Arrow                   with its length and ARROW1 behind it

Columns are `label` and `weight` (float32, optional), `ids` (list of int32, or int64 with wide ids) and `values` (list
of float32), without nulls; ids and values have the same offsets. Any Arrow reader can read the file: it finds the
footer at the end, or stops at the end of the stream.

The description holds the `Conversion`, the encoder as in a model file, the fields of ids if they are known and there is
no encoder (names in the header, runs of ids in tensors; see rows/fields.py), where head and blocks end (`ends`), the
number of rows in each block (`rows`), and the CRC-32 of the head, of each block and of what follows them except the
description (`checksums`), which has its own digest. So no bit of the file can change unnoticed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...files.container import container_chunks
from ...rows.fields import Fields

if TYPE_CHECKING:
    from ...encode.encoder import TableEncoder
    from ...files.atomic import Chunk

KIND, VERSION = "converted rows", 2
KEY = b"rafm"  # in the metadata of the schema
MAGIC = b"ARROW1"
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
LENGTH_BYTES, FOOTER_BYTES = 8, 10  # length of the description; Arrow's footer length (4) and ARROW1 (6)


@dataclass(frozen=True)
class Conversion:
    """What a converted file records about its rows: task, source and options.

    index_base: the smallest id in the source; ids in the file start from 0. source: see `stamp`. options: everything
    else that decides the content. classes: the labels that are stored as 0 and 1, None if they are these numbers.
    coverage: per column, the values that were seen, known, rare and missing, if the encoder was fitted to other rows.
    """

    task: str = "regression"
    index_base: int = 0
    source: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    classes: list[Any] | None = None
    coverage: dict[str, list[int]] | None = None


@dataclass(frozen=True)
class Blocks:
    """Where head and blocks end, the rows per block, and the checksums of head, blocks and tail."""

    ends: np.ndarray
    rows: np.ndarray
    checksums: np.ndarray


def description(
    conversion: Conversion,
    encoder: TableEncoder | None,
    n_features: int,
    blocks: Blocks,
    fields: Fields | None = None,
) -> list[Chunk]:
    """Return the description as bytes; fields are those of ids, as an encoder knows its own."""
    header: dict[str, Any] = {"kind": KIND, "version": VERSION, "n_features": n_features, **asdict(conversion)}
    for name in ("classes", "coverage"):  # optional fields are absent if unused
        if header[name] is None:
            del header[name]
    header["encoder"], tensors = None, dict(vars(blocks))
    if encoder is not None:
        from ...encode.serialize import encoder_parts

        header["encoder"], more = encoder_parts(encoder)
        tensors |= more
    if fields is not None:
        header["fields"] = list(fields.names)
        tensors |= {"fields.starts": fields.starts, "fields.numbers": fields.numbers}
    return container_chunks(tensors, header)
