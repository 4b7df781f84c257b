"""Vectors of few bits: integer codes, packed bit by bit, times one scale per vector. See docs/file-format.md.

Codes are two's complement integers of `bits` bits. A scale, and with less than 16 bits a weight, is a float32 without
its lower half: its range is that of a float32, its precision 8 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ModelFormatError
from ..plan.ranks import RankPlan

BITS = (16, 8, 6, 4)
FULL_WEIGHTS = 16  # bits from which on weights stay float32
CHUNK = 1 << 12  # vectors packed or unpacked at a time
Shapes = dict[str, tuple[tuple[int, ...], tuple[str, ...]]]  # shape and types of each tensor
INFINITE = 0x7F80  # exponent of infinity and NaN in the upper half of a float32


def code_bytes(rank: int, bits: int) -> int:
    """Return the bytes of one packed vector.

    >>> code_bytes(10, 6)
    8
    """
    return -(-rank * bits // 8)


def pack_codes(codes: np.ndarray, bits: int) -> np.ndarray:
    """Return integer codes as bytes: `bits` bits of each, the lowest first, line by line.

    >>> pack_codes(np.array([[1, -1, 2]]), 4)
    array([[241,   2]], dtype=uint8)
    """
    low = np.ascontiguousarray(codes.astype("<i2")).view(np.uint8).reshape(*codes.shape, 2)
    single = np.unpackbits(low, axis=2, bitorder="little")[:, :, :bits]
    return np.packbits(single.reshape(len(codes), codes.shape[1] * bits), axis=1, bitorder="little")


def unpack_codes(packed: np.ndarray, rank: int, bits: int) -> np.ndarray:
    """Return packed codes as integers; the inverse of `pack_codes`.

    >>> unpack_codes(np.array([[241, 2]], np.uint8), rank=3, bits=4)
    array([[ 1, -1,  2]], dtype=int16)
    """
    if bits == 16:
        return np.ascontiguousarray(packed).view("<i2").astype(np.int16)
    if bits == 8:
        return packed.view(np.int8).astype(np.int16)
    found = np.stack(_halves(packed) if bits == 4 else _sixes(packed), axis=2)
    sign = np.int16(1 << (bits - 1))
    return (found.reshape(len(packed), found.shape[1] * found.shape[2])[:, :rank] ^ sign) - sign


def _halves(packed: np.ndarray) -> list[np.ndarray]:
    """Return lower and upper halves of bytes."""
    return [(packed & np.uint8(15)).astype(np.int16), (packed >> np.uint8(4)).astype(np.int16)]


def _sixes(packed: np.ndarray) -> list[np.ndarray]:
    """Return the first, second, third and fourth numbers of 6 bits in every three bytes."""
    wide = np.pad(packed, ((0, 0), (0, -packed.shape[1] % 3))).astype(np.int16)
    a, b, c = (wide[:, place::3] for place in range(3))
    return [a & 63, a >> 6 | (b & 15) << 2, b >> 4 | (c & 3) << 4, c >> 2]


def upper_halves(numbers: np.ndarray, up: bool = False) -> np.ndarray:
    """Return the upper halves of float32 numbers as pairs of bytes, rounded to nearest, or away from 0 if `up`."""
    whole = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    # adding below the kept bits carries into them; ties go to even
    above = np.uint32(0xFFFF) if up else np.uint32(0x7FFF) + ((whole >> np.uint32(16)) & np.uint32(1))
    halves = ((whole + above) >> np.uint32(16)).astype("<u2")
    return np.ascontiguousarray(halves).view(np.uint8).reshape(-1, 2)


def from_halves(halves: np.ndarray) -> np.ndarray:
    """Return pairs of bytes as float32 numbers; the inverse of `upper_halves`.

    >>> from_halves(upper_halves(np.float32([1, -2.5, 3.14159])))
    array([ 1.      , -2.5     ,  3.140625], dtype=float32)
    """
    whole = np.ascontiguousarray(halves).view("<u2").reshape(-1).astype(np.uint32) << np.uint32(16)
    return whole.view(np.float32)


@dataclass(frozen=True)
class PackedVectors:
    """The vectors of a block as codes and scales; reads like a float32 array, without being one.

    codes: the bytes of each vector. halves: the scale of each vector, as `upper_halves`.
    """

    codes: np.ndarray
    halves: np.ndarray
    rank: int
    bits: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.codes), self.rank

    @property
    def size(self) -> int:
        return len(self.codes) * self.rank

    def __len__(self) -> int:
        return len(self.codes)

    def integers(self, key: Any = slice(None)) -> np.ndarray:
        """Return the codes of some vectors as integers."""
        return unpack_codes(self.codes[key], self.rank, self.bits)

    def scales(self, key: Any = slice(None)) -> np.ndarray:
        """Return the scales of some vectors."""
        return from_halves(self.halves[key])

    def __getitem__(self, key: Any) -> np.ndarray:
        """Return some vectors as floats; key: a slice, or an array of numbers."""
        return self.integers(key) * self.scales(key)[:, None]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = np.empty(self.shape, np.float32)
        for first in range(0, len(self), CHUNK):
            found[first : first + CHUNK] = self[first : first + CHUNK]
        return found if dtype is None else found.astype(dtype)

    def any(self, axis: int) -> np.ndarray:
        """Return whether each vector has a coordinate that is not 0."""
        return self.codes.any(axis=axis) & (self.scales() != 0)


def packed_arrays(weights: np.ndarray, factors: Sequence[PackedVectors], bits: int) -> dict[str, np.ndarray]:
    """Return weights and vectors as they are stored."""
    found = {"weights": weights if bits >= FULL_WEIGHTS else upper_halves(weights)}
    for level, block in enumerate(factors, start=1):
        found |= {f"codes.{level}": block.codes, f"scales.{level}": block.halves}
    return found


def stored_shapes(plan: RankPlan, bits: int) -> Shapes:
    """Return shape and types of the tensors that `packed_arrays` returns."""
    n, raw = plan.n_features, ("uint8",)
    found: Shapes = {"weights": ((n,), ("float32",)) if bits >= FULL_WEIGHTS else ((n, 2), raw)}
    for level, (size, rank) in enumerate(zip(plan.sizes[1:], plan.block_ranks), start=1):
        found |= {f"codes.{level}": ((size, code_bytes(rank, bits)), raw), f"scales.{level}": ((size, 2), raw)}
    return found


def read_packed(plan: RankPlan, bits: int, tensors: dict[str, np.ndarray]) -> tuple[np.ndarray, list[PackedVectors]]:
    """Return weights and vectors from tensors of the right shapes; the inverse of `packed_arrays`."""
    weights = tensors["weights"]
    if bits < FULL_WEIGHTS:
        weights = _finite("weights", weights)
    factors = []
    for level, rank in enumerate(plan.block_ranks, start=1):
        if (_finite(f"scales.{level}", halves := tensors[f"scales.{level}"]) < 0).any():
            raise ModelFormatError(f"tensor 'scales.{level}': scales must be at least 0")
        factors.append(PackedVectors(tensors[f"codes.{level}"], halves, rank, bits))
    return weights, factors


def _finite(name: str, halves: np.ndarray) -> np.ndarray:
    """Return halves as floats, which must be finite; the container checks those of its own types only."""
    if ((np.ascontiguousarray(halves).view("<u2") & INFINITE) == INFINITE).any():
        raise ModelFormatError(f"tensor {name!r} must hold finite numbers")
    return from_halves(halves)
