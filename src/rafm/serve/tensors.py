"""Tensors of the Open Inference Protocol, and the columns that they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .requests import RequestError, as_integer, check_keys

FLOATS = ("FP16", "FP32", "FP64")
INTEGERS = tuple(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64))
KNOWN = {**dict.fromkeys(INTEGERS, (int,)), **dict.fromkeys(FLOATS, (int, float)), "BOOL": (bool,), "BYTES": (str,)}


@dataclass(frozen=True)
class Tensor:
    """An input: its data are Python values, in row order."""

    name: str
    shape: tuple[int, ...]
    datatype: str
    data: list[Any]

    @classmethod
    def of(cls, found: Any, max_rows: int) -> Tensor:
        """Check an input; its data are a list, or a list of lists."""
        if not isinstance(found, dict):
            raise RequestError(400, "each input must be an object")
        check_keys(found, ("name", "shape", "datatype", "data", "parameters"), ("name", "shape", "datatype", "data"))
        name, shape, kind = found["name"], _shape(found["shape"]), found["datatype"]
        if not isinstance(name, str) or not isinstance(kind, str) or kind not in KNOWN:
            raise RequestError(400, f"an input needs a name, and one of the datatypes {', '.join(KNOWN)}")
        if shape is None:
            raise RequestError(400, f"input {name[:80]!r}: shape must be [rows] or [rows, elements]")
        if shape[0] > max_rows:
            raise RequestError(422, f"input {name[:80]!r} has {shape[0]} rows, the limit is {max_rows}")
        data = _values(found["data"], kind, name)
        if len(data) != math.prod(shape):
            raise RequestError(422, f"input {name[:80]!r}: the shape {[*shape]} does not fit {len(data)} values")
        return cls(name, shape, kind, data)

    def cells(self) -> list[Any]:
        """Return one value per row; a trailing dimension must be 1."""
        if len(self.data) != self.shape[0]:
            raise RequestError(422, f"input {self.name[:80]!r} must have one value per row")
        return self.data

    def lists(self) -> list[list[Any]]:
        """Return one list per row."""
        width = len(self.data) // max(self.shape[0], 1)
        return [self.data[row * width : (row + 1) * width] for row in range(self.shape[0])]


def _shape(found: Any) -> tuple[int, ...] | None:
    numbers = [as_integer(number) for number in found] if isinstance(found, list) else []
    is_right = len(numbers) in (1, 2) and all(number is not None and 0 <= number < 2**31 for number in numbers)
    return tuple(numbers) if is_right else None  # type: ignore[arg-type]


def _values(data: Any, kind: str, name: str) -> list[Any]:
    """Return the values of a list, or of a list of lists, in order."""
    if not isinstance(data, list):
        raise RequestError(400, f"input {name[:80]!r}: data must be a list")
    if data and all(isinstance(part, list) for part in data):
        data = [value for part in data for value in part]
    if not {*map(type, data)} <= {*KNOWN[kind], type(None)}:  # by exact type: True is an int to Python
        raise RequestError(422, f"input {name[:80]!r} has values that are not {kind}")
    return data
