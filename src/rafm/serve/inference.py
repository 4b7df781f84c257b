"""The Open Inference Protocol (v2): metadata, and tensors in and out.

A table has one input per column, of shape [rows], or [rows, elements] for a column of lists. A model of ids has the
inputs `ids` and `values` of shape [rows, entries]; an entry of value 0 or null is padding.
"""

from __future__ import annotations

import math
from typing import Any

from ..version import __version__
from .requests import RequestError, check_keys
from .served import ServedModel

DATATYPES = {"text": "BYTES", "number": "FP64", "boolean": "BOOL", "time": "BYTES", "list": "BYTES", "nothing": "BYTES"}
INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
FLOATS = ("FP16", "FP32", "FP64")
KNOWN = {**dict.fromkeys(INTEGERS, (int,)), **dict.fromkeys(FLOATS, (int, float)), "BOOL": (bool,), "BYTES": (str,)}
PLATFORM = "rafm"


def server_metadata() -> dict[str, Any]:
    """Return what the protocol says about a server."""
    return {"name": "rafm", "version": __version__, "extensions": []}


def model_metadata(model: ServedModel) -> dict[str, Any]:
    """Return what the protocol says about a model."""
    return {
        "name": model.name,
        "versions": [model.sha256],
        "platform": PLATFORM,
        "inputs": model_inputs(model),
        "outputs": [{"name": name, "datatype": "FP64", "shape": [-1]} for name in output_names(model)],
    }


def model_inputs(model: ServedModel) -> list[dict[str, Any]]:
    """Return name, type and shape of each input."""
    encoder = model.scorer.saved.encoder
    if encoder is None:
        shapes = (("ids", "INT64"), ("values", "FP32"))
        return [{"name": name, "datatype": kind, "shape": [-1, -1]} for name, kind in shapes]
    return [
        {
            "name": column.name,
            "datatype": DATATYPES[column.cell_type],
            "shape": [-1, -1] if column.cell_type == "list" else [-1],
        }
        for column in encoder.columns
    ]


def output_names(model: ServedModel) -> tuple[str, str]:
    """Return the names of the outputs."""
    return "score", model.kind


def rows_of_tensors(found: dict[str, Any], model: ServedModel, max_rows: int) -> list[dict[Any, Any]]:
    """Return the inputs of a request as rows."""
    check_keys(found, ("id", "parameters", "inputs", "outputs"), needed=("inputs",))
    if not isinstance(found["inputs"], list) or not isinstance(found.get("id", ""), str):
        raise RequestError(400, "inputs must be a list of tensors, and id text")
    tensors = [_Tensor(one, max_rows) for one in found["inputs"]]
    names = [tensor.name for tensor in tensors]
    if len({*names}) < len(names):
        raise RequestError(400, "two inputs have the same name")
    n_rows = {tensor.n_rows for tensor in tensors}
    if len(n_rows) != 1:
        raise RequestError(400, "inputs must have the same number of rows, and there must be one at least")
    encoder = model.scorer.saved.encoder
    if encoder is None:
        return _rows_of_ids({tensor.name: tensor for tensor in tensors})
    lists = {column.name for column in encoder.columns if column.cell_type == "list"}
    columns = [tensor.lists() if tensor.name in lists else tensor.cells() for tensor in tensors]
    return [dict(zip(names, cells)) for cells in zip(*columns)]


class _Tensor:
    """An input: name, shape, datatype and data."""

    def __init__(self, found: Any, max_rows: int):
        if not isinstance(found, dict):
            raise RequestError(400, "each input must be an object")
        check_keys(found, ("name", "shape", "datatype", "data", "parameters"), ("name", "shape", "datatype", "data"))
        self.name, self.shape, kind = found["name"], found["shape"], found["datatype"]
        if not isinstance(self.name, str) or not isinstance(kind, str) or kind not in KNOWN:
            raise RequestError(400, f"an input needs a name, and one of the datatypes {', '.join(KNOWN)}")
        if not _is_shape(self.shape):
            raise RequestError(400, f"input {self.name!r}: shape must be [rows] or [rows, elements]")
        self.n_rows = self.shape[0]
        if self.n_rows > max_rows:
            raise RequestError(422, f"input {self.name!r} has {self.n_rows} rows, the limit is {max_rows}")
        self.data = _flat(found["data"], self.name)
        if len(self.data) != math.prod(self.shape):
            raise RequestError(400, f"input {self.name!r}: the shape {self.shape} does not fit {len(self.data)} values")
        allowed = KNOWN[kind]  # by exact type: True is an int to Python
        if not all(value is None or type(value) in allowed for value in self.data):
            raise RequestError(400, f"input {self.name!r} has values that are not {kind}")

    def cells(self) -> list[Any]:
        """Return one value per row; a trailing dimension must be 1."""
        if len(self.data) != self.n_rows:
            raise RequestError(400, f"input {self.name!r} must have one value per row")
        return self.data

    def lists(self) -> list[list[Any]]:
        """Return one list per row."""
        width = len(self.data) // max(self.n_rows, 1)
        return [self.data[row * width : (row + 1) * width] for row in range(self.n_rows)]


def _is_shape(found: Any) -> bool:
    return isinstance(found, list) and len(found) in (1, 2) and all(type(n) is int and 0 <= n < 2**31 for n in found)


def _flat(data: Any, name: str) -> list[Any]:
    """Return the values of a list, or of a list of lists, in order."""
    if not isinstance(data, list):
        raise RequestError(400, f"input {name!r}: data must be a list")
    if data and all(isinstance(part, list) for part in data):
        return [value for part in data for value in part]
    return data


def _rows_of_ids(tensors: dict[str, _Tensor]) -> list[dict[Any, Any]]:
    if "ids" not in tensors or not {*tensors} <= {"ids", "values"}:
        raise RequestError(400, "the model has the inputs ids and values")
    ids = tensors["ids"]
    values = tensors["values"].data if "values" in tensors else [1.0] * len(ids.data)
    if "values" in tensors and tensors["values"].shape != ids.shape:
        raise RequestError(400, "ids and values must have the same shape")
    rows: list[dict[Any, Any]] = [{} for _ in range(ids.n_rows)]
    width = len(ids.data) // max(ids.n_rows, 1)
    for place, (id, value) in enumerate(zip(ids.data, values)):
        if id is None or not value:  # padding
            continue
        row = rows[place // width]
        if id in row:
            raise RequestError(400, f"the id {id} occurs twice in row {place // width}")
        row[id] = value
    return rows


def answer(found: dict[str, Any], model: ServedModel, scored: dict[str, list[float]]) -> dict[str, Any]:
    """Return the answer to a request: all outputs, or those that it names."""
    wanted = _wanted(found, output_names(model))
    outputs = [
        {"name": name, "shape": [len(scored[name])], "datatype": "FP64", "data": scored[name]} for name in wanted
    ]
    named = {"id": found["id"]} if "id" in found else {}
    return {"model_name": model.name, "model_version": model.sha256, **named, "outputs": outputs}


def _wanted(found: dict[str, Any], known: tuple[str, ...]) -> list[str]:
    outputs = found.get("outputs")
    if outputs is None:
        return list(known)
    if not isinstance(outputs, list) or not all(isinstance(one, dict) for one in outputs):
        raise RequestError(400, "outputs must be a list of objects")
    names = [one.get("name") for one in outputs]
    if not all(isinstance(name, str) and name in known for name in names):
        raise RequestError(400, f"the outputs are {' and '.join(known)}")
    return [str(name) for name in names] or list(known)
