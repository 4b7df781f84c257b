"""Round the vectors of a trained model to integers of few bits, with one scale per vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..errors import ConfigError
from ..model.model import Model
from ..model.packed import BITS, CHUNK, FULL_WEIGHTS, PackedVectors, from_halves, pack_codes, upper_halves

SHRINKS = np.arange(1.0, 0.6, -0.05)  # of the scale: cutting the largest coordinates may round the others better
SHRUNK_BITS = 6  # up to which this pays


def check_bits(bits: int) -> None:
    """Reject a number of bits that files cannot have."""
    if isinstance(bits, bool) or bits not in BITS:
        raise ConfigError(f"bits must be one of {', '.join(map(str, BITS))}, found {bits!r}", key="bits")


def quantise(model: Model, bits: int) -> Model:
    """Return the model with vectors of the given number of bits; weights of half the precision with less than 16."""
    check_bits(bits)
    model.plan.traits.check("be quantised", key="bits")
    floats = model.as_floats().parameters
    weights = floats.weights if bits >= FULL_WEIGHTS else from_halves(upper_halves(floats.weights))
    factors = [quantised(block, bits) for block in floats.factors]
    return replace(model, parameters=replace(floats, weights=weights, factors=factors, states=None, bits=bits))


def quantised(vectors: np.ndarray, bits: int) -> PackedVectors:
    """Return vectors as codes and scales."""
    parts = [*_parts(vectors, bits)] or [_rounded(vectors, bits, 1.0)]
    codes, halves = (np.concatenate(part) for part in zip(*parts))
    return PackedVectors(codes, halves, vectors.shape[1], bits)


def _parts(vectors: np.ndarray, bits: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield packed codes and scales, some vectors at a time; of the scales tried, the one with the least error."""
    for first in range(0, len(vectors), CHUNK):
        some = vectors[first : first + CHUNK]
        tried = [_rounded(some, bits, shrink) for shrink in (SHRINKS if bits <= SHRUNK_BITS else (1.0,))]
        errors = [np.square(PackedVectors(*one, some.shape[1], bits)[:] - some).sum(axis=1) for one in tried]
        best, lines = np.argmin(errors, axis=0), np.arange(len(some))
        yield tuple(np.stack(one)[best, lines] for one in zip(*tried))


def _rounded(vectors: np.ndarray, bits: int, shrink: float) -> tuple[np.ndarray, np.ndarray]:
    """Return packed codes and scales; the largest coordinate gets the largest code, or more if the scale shrinks."""
    top = (1 << (bits - 1)) - 1
    largest = np.abs(vectors).max(axis=1, initial=0).astype(float)
    halves = upper_halves((largest * shrink / top).astype(np.float32), up=True)
    scales = from_halves(halves)
    codes = np.rint(vectors / np.where(scales == 0, 1, scales)[:, None]).clip(-top, top)
    return pack_codes(codes, bits), halves
