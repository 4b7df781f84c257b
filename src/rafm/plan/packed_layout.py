"""Memory layout of packed vectors: records of float32 elements, some of which hold several codes each.

A record is [weight, field if fields have weights, then per block: scale, codes]. Codes have 4, 8 or 16
bits; vectors are padded with zeros. Codes of 6 bits have 8 here, because unpacking them would cost more than reading
them. Neither vectors nor records are ever expanded to floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .layout import FirstSlot, RecordLayout, _record_size, round_up

ELEMENT_BITS = 32
CHUNK_CODES = 1 << 18  # codes unpacked at a time
AHEAD = 1  # the scale precedes the codes
KINDS = {4: np.uint8, 6: np.int8, 8: np.int8, 16: np.int16}


@dataclass(frozen=True)
class PackedLayout(RecordLayout):
    """Positions of weights, scales and codes within records; bits: those of a code in the file."""

    bits: int = 8

    @cached_property
    def code_bits(self) -> int:
        """Bits of a code in memory."""
        return 8 if self.bits == 6 else self.bits

    @cached_property
    def widths(self) -> list[int]:
        """Padded length of each block's vectors."""
        return [round_up(rank, 8 if self.code_bits == 4 else 4) for rank in self.plan.block_ranks]

    @cached_property
    def _sizes(self) -> list[int]:
        """Elements that the codes of each block take."""
        return [width * self.code_bits // ELEMENT_BITS for width in self.widths]

    @cached_property
    def offsets(self) -> list[int]:
        """Position of each block's codes within a record."""
        ends = np.cumsum([self.first_state, *(AHEAD + size for size in self._sizes)])
        return [int(end) + AHEAD for end in ends[:-1]]

    @cached_property
    def strides(self) -> list[int]:
        """Record size of a feature of level k, for k = 0 .. m."""
        ends = (offset + size for offset, size in zip(self.offsets, self._sizes))
        return [_record_size(end) for end in (self.first_state, *ends)]

    def codes(self, records: np.ndarray) -> np.ndarray:
        """Return the memory of the records as codes, or for 4 bits as pairs of codes."""
        return records.view(KINDS[self.bits])

    def pack(
        self, weights: np.ndarray, factors: Sequence[Any], state: float = 0.0, first_slot: FirstSlot | None = None
    ) -> np.ndarray:
        """Return records with these weights and, per block, these PackedVectors."""
        records, step = self._empty(state, np.float32), max(1, CHUNK_CODES // max(self.widths, default=1))
        for level, ids, view in self.views(records):
            view[:, 0] = weights[ids]
            for first in range(ids.start, ids.stop, step):
                some = slice(first, min(first + step, ids.stop))
                own = view[some.start - ids.start : some.stop - ids.start]
                for number, block in enumerate(factors[:level]):
                    self._put_codes(own, number, block.integers(some), block.scales(some))
        return records

    def _put_codes(self, own: np.ndarray, number: int, codes: np.ndarray, scales: np.ndarray) -> None:
        """Write scales and codes of one block into some records."""
        offset, size, width = self.offsets[number], self._sizes[number], self.widths[number]
        own[:, offset - 1] = scales
        padded = np.pad(codes, ((0, 0), (0, width - codes.shape[1])))
        if self.code_bits == 4:
            low, high = padded[:, : width // 2] & 15, padded[:, width // 2 :] & 15
            padded = low | (high << 4)
        own[:, offset : offset + size] = padded.astype(KINDS[self.bits]).view(np.float32)
