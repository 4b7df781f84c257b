"""Tensors of the Open Inference Protocol, as JSON or as bytes, and the columns that they stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ..rows.arrow import array_of
from ..rows.texts import texts_of_bytes
from .requests import RequestError, as_integer, check_keys

KINDS = {  # datatypes of numbers, and their bytes
    **{
        f"{sign}INT{bits}": np.dtype(f"<{letter}{bits // 8}")
        for sign, letter in (("", "i"), ("U", "u"))
        for bits in (8, 16, 32, 64)
    },
    **{f"FP{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
}
FLOATS = ("FP16", "FP32", "FP64")
INTEGERS = tuple(name for name in KINDS if name not in FLOATS)
KNOWN = {**dict.fromkeys(INTEGERS, (int,)), **dict.fromkeys(FLOATS, (int, float)), "BOOL": (bool,), "BYTES": (str,)}


@dataclass(frozen=True)
class Tensor:
    """An input: its data, in row order, are Python values, or an Arrow array if they came as bytes."""

    name: str
    shape: tuple[int, ...]
    datatype: str
    data: list[Any] | pa.Array

    @classmethod
    def of(cls, found: Any, max_rows: int) -> Tensor:
        """Check an input; its data are a list, a list of lists, or bytes."""
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
        given = found["data"]
        data = _of_bytes(given, kind, name) if isinstance(given, memoryview) else _of_json(given, kind, name)
        if len(data) != math.prod(shape):
            raise RequestError(422, f"input {name[:80]!r}: the shape {[*shape]} does not fit {len(data)} values")
        return cls(name, shape, kind, data)

    def cells(self) -> list[Any] | pa.Array:
        """Return one value per row; a trailing dimension must be 1."""
        if len(self.data) != self.shape[0]:
            raise RequestError(422, f"input {self.name[:80]!r} must have one value per row")
        return self.data

    def lists(self) -> list[list[Any]]:
        """Return one list per row."""
        width, values = len(self.data) // max(self.shape[0], 1), self.python_values()
        return [values[row * width : (row + 1) * width] for row in range(self.shape[0])]

    def python_values(self) -> list[Any]:
        """Return the data as Python values."""
        return self.data.to_pylist() if isinstance(self.data, pa.Array) else self.data


def _shape(found: Any) -> tuple[int, ...] | None:
    numbers = [as_integer(number) for number in found] if isinstance(found, list) else []
    is_right = len(numbers) in (1, 2) and all(number is not None and 0 <= number < 2**31 for number in numbers)
    return tuple(numbers) if is_right else None  # type: ignore[arg-type]


def _of_json(data: Any, kind: str, name: str) -> list[Any]:
    """Return the values of a list, or of a list of lists, in order."""
    if not isinstance(data, list):
        raise RequestError(400, f"input {name[:80]!r}: data must be a list")
    if data and all(isinstance(part, list) for part in data):
        data = [value for part in data for value in part]
    if not {*map(type, data)} <= {*KNOWN[kind], type(None)}:  # by exact type: True is an int to Python
        raise RequestError(422, f"input {name[:80]!r} has values that are not {kind}")
    return data


def _of_bytes(data: memoryview, kind: str, name: str) -> pa.Array:
    """Return the values of a tensor's bytes, little-endian; texts have their lengths, in 4 bytes, before them."""
    try:
        if kind == "BYTES":
            return texts_of_bytes(data)
        if kind == "BOOL":
            return pa.array(np.frombuffer(data, np.uint8) != 0)
        return array_of(np.frombuffer(data, KINDS[kind]), KINDS[kind].type)
    except (ValueError, pa.ArrowException) as error:
        raise RequestError(422, f"input {name[:80]!r}: its bytes are not {kind}: {str(error)[:100]}") from None
