"""The layout of a converted file: an Arrow IPC file with a description in front of its footer.

    ARROW1 and two zeros, schema      head
    record batch                      one per block of rows, as `cut_blocks` makes them
    end of stream                     8 bytes
    description                       a container (files/container.py)
    length of the description         8 bytes, little-endian
    footer of Arrow                   with its length and ARROW1 behind it

Columns are `label` and `weight` (float32, if there are any), `ids` (list of int32; of int64 if asked for) and `values`
(list of float32), without nulls; ids and values have the same offsets. Any reader of Arrow can read the file: it finds
the footer at the end, or stops at the end of the stream.

The description says what the rows are (`Conversion`), holds the encoder as a model file does, and where head and
blocks end (`ends`), how many rows each block has (`rows`), and the CRC-32 of head, blocks and what follows them, but
for the description (`checksums`), which has a digest of its own. So no bit of the file can change unnoticed.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...files.container import container_chunks

if TYPE_CHECKING:
    from ...encode.encoder import TableEncoder
    from ...files.atomic import Chunk

KIND, VERSION = "converted rows", 2
KEY = b"rafm"  # in the metadata of the schema
MAGIC = b"ARROW1"
END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
LENGTH_BYTES, FOOTER_BYTES = 8, 10  # of the description's length; of what follows Arrow's footer


@dataclass(frozen=True)
class Conversion:
    """What a converted file says of its rows: what they are for, and what they were made of and how.

    index_base: the smallest id of the source; ids of the file count from 0. source: see `stamp`. options: all that
    decides what is made of the source.
    """

    task: str = "regression"
    index_base: int = 0
    source: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Blocks:
    """Where head and blocks end, the rows of each block, and the checksums of head, blocks and what follows them."""

    ends: np.ndarray
    rows: np.ndarray
    checksums: np.ndarray


def description(conversion: Conversion, encoder: TableEncoder | None, n_features: int, blocks: Blocks) -> list[Chunk]:
    """Return the bytes of a description."""
    header: dict[str, Any] = {"kind": KIND, "version": VERSION, "n_features": n_features, **asdict(conversion)}
    header["encoder"], tensors = None, dict(vars(blocks))
    if encoder is not None:
        from ...encode.serialize import encoder_parts

        header["encoder"], more = encoder_parts(encoder)
        tensors |= more
    return container_chunks(tensors, header)
