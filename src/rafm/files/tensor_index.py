"""The index of a container: name, type, shape and place of every tensor, none of which is trusted."""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import numpy as np

from ..errors import ModelFormatError

MAX_TENSORS = 4096
MAX_DIMENSIONS = 8
MAX_ITEMS = 2**56

_NAME = re.compile(r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*")
DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
}


class Place(NamedTuple):
    """Type, shape and byte range of a tensor in the data."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


def check_index(index: dict[str, Any]) -> dict[str, Place]:
    """Return the place of each tensor; they must follow each other without gaps or overlap."""
    if len(index) > MAX_TENSORS:
        raise ModelFormatError(f"lists {len(index)} tensors, but at most {MAX_TENSORS} are allowed.")
    places, position = {}, 0
    for name, entry in index.items():
        _check_name(name)
        places[name] = _place(name, entry, position)
        position = places[name].end
    return places


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or name == "__metadata__":
        raise ModelFormatError(f"invalid tensor name {name!r:.80}: names are letters, digits and _, joined by dots.")


def _place(name: str, entry: Any, begin: int) -> Place:
    """Return the place that an index entry describes; it must start at `begin`."""
    if not isinstance(entry, dict) or list(entry) != ["dtype", "shape", "data_offsets"]:
        raise ModelFormatError(f"tensor {name} must have dtype, shape and data_offsets, in this order.")
    dtype = _dtype(name, entry["dtype"])
    shape = _naturals(name, entry["shape"])
    _check_addressable(name, shape)
    end = begin + math.prod(shape) * dtype.itemsize
    _check_offsets(name, _naturals(name, entry["data_offsets"]), (begin, end), dtype.itemsize)
    return Place(dtype, shape, begin, end)


def _dtype(name: str, dtype: Any) -> np.dtype:
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ModelFormatError(f"tensor {name} has dtype {dtype!r:.80}; allowed are {', '.join(DTYPES)}.")
    return DTYPES[dtype]


def _naturals(name: str, numbers: Any) -> tuple[int, ...]:
    """Return a short list of non-negative integers as a tuple; True and 1.0 are not integers."""
    is_short = isinstance(numbers, list) and len(numbers) <= MAX_DIMENSIONS
    if not is_short or any(type(number) is not int or number < 0 for number in numbers):
        raise ModelFormatError(f"tensor {name}: {numbers!r:.80} must be at most {MAX_DIMENSIONS} integers >= 0.")
    return tuple(numbers)


def _check_addressable(name: str, shape: tuple[int, ...]) -> None:
    """Reject shapes that NumPy cannot index, even those of empty tensors."""
    if math.prod(max(n, 1) for n in shape) > MAX_ITEMS:  # NumPy skips zeros in its own check
        raise ModelFormatError(f"tensor {name} has shape {shape!r:.80}, but at most {MAX_ITEMS} items are allowed.")


def _check_offsets(name: str, found: tuple[int, ...], expected: tuple[int, int], alignment: int) -> None:
    if found != expected or expected[0] % alignment:
        raise ModelFormatError(
            f"tensor {name} has data_offsets {found!r:.80}, expected {expected} from its shape and the tensors before "
            f"it, starting at a multiple of {alignment}."
        )
