"""The Open Inference Protocol (v2): metadata, and tensors in and out.

A table has one input per column, of shape [rows], or [rows, elements] for a column of lists. A model of ids has the
inputs `ids` and `values` of shape [rows, entries]; an entry of value 0 or null is padding. With the extension for
binary tensors, the bytes of inputs and outputs follow the JSON.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
from starlette.responses import Response

from ..encode.id_lists import rows_of_padded
from ..rows.checked import CheckedRows, check_batch
from ..scorer import Scorer
from ..version import __version__
from .ranges import LARGEST
from .requests import RequestError, check_keys, json_response, parse_json
from .served import ServedModel
from .tensors import FLOATS, INTEGERS, Tensor

DATATYPES = {"text": "BYTES", "number": "FP64", "boolean": "BOOL", "time": "BYTES", "list": "BYTES", "nothing": "BYTES"}
PLATFORM = "rafm"
HEAD_LENGTH = "Inference-Header-Content-Length"  # of the extension for binary tensors
BINARY_SIZE, BINARY_OUTPUT = "binary_data_size", "binary_data_output"


def server_metadata() -> dict[str, Any]:
    """Return what the protocol says about a server."""
    return {"name": "rafm", "version": __version__, "extensions": ["binary_tensor_data"]}


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


def datatypes_of(found: dict[str, Any]) -> tuple[str, ...]:
    """Return the datatypes that an input may have; found: as model_inputs describes it."""
    kind = found["datatype"]
    if kind == "BYTES":
        return (kind, *INTEGERS) if len(found["shape"]) > 1 else (kind,)  # a list may have numbers
    return (kind,) if kind == "BOOL" else (*INTEGERS, *(FLOATS if kind in FLOATS else ()))


def output_names(model: ServedModel) -> tuple[str, str]:
    """Return the names of the outputs."""
    return "score", model.kind


def parse(body: bytes, head: str | None) -> dict[str, Any]:
    """Return the request; head: length of its JSON, if the bytes of tensors follow it."""
    if head is None:
        return _checked(parse_json(body))
    length = int(head) if head.isascii() and head.isdigit() and len(head) < 12 else -1
    if not 0 <= length <= len(body):
        raise RequestError(400, f"{HEAD_LENGTH} must be the length of the JSON before the tensors")
    found, at = _checked(parse_json(body[:length])), length
    for one in found["inputs"]:
        size = one.get("parameters", {}).get(BINARY_SIZE) if isinstance(one, dict) else None
        if size is not None:
            if type(size) is not int or not 0 <= size <= len(body) - at or "data" in one:
                raise RequestError(400, f"{BINARY_SIZE} must fit the body, and takes the place of data")
            one["data"] = memoryview(body)[at : at + size]
            at += size
    if at != len(body):
        raise RequestError(400, f"{len(body) - at} bytes of the body belong to no input")
    return found


def _checked(found: dict[str, Any]) -> dict[str, Any]:
    """Check what does not depend on the model."""
    check_keys(found, ("id", "parameters", "inputs", "outputs"), needed=("inputs",))
    if not isinstance(found["inputs"], list) or not isinstance(found.get("id", ""), str):
        raise RequestError(400, "inputs must be a list of tensors, and id text")
    outputs = found.get("outputs", [])
    if not isinstance(outputs, list) or not all(isinstance(one, dict) for one in outputs):
        raise RequestError(400, "outputs must be a list of objects")
    for one in (found, *found["inputs"], *outputs):
        if isinstance(one, dict) and not isinstance(one.get("parameters", {}), dict):
            raise RequestError(400, "parameters must be an object")
    return found


def score(found: dict[str, Any], model: ServedModel, max_rows: int) -> dict[str, Any]:
    """Return scores and predictions of the inputs of a request."""
    _wanted(found, model)  # first: what is wrong with the outputs need not wait for the scores
    tensors = {tensor.name: tensor for tensor in (Tensor.of(one, max_rows) for one in found["inputs"])}
    if len(tensors) < len(found["inputs"]):
        raise RequestError(422, "two inputs have the same name")
    if len({tensor.shape[0] for tensor in tensors.values()}) != 1:
        raise RequestError(422, "inputs must have the same number of rows, and there must be one at least")
    allowed = {one["name"]: datatypes_of(one) for one in model_inputs(model)}
    for name, tensor in tensors.items():
        if name not in allowed:
            raise RequestError(422, f"no input {name[:80]!r}; GET /v2/models/{model.name} lists them")
        if tensor.datatype not in allowed[name]:
            raise RequestError(422, f"input {name[:80]!r} must be {' or '.join(allowed[name])}, not {tensor.datatype}")
    encoder = model.scorer.saved.encoder
    if encoder is None:
        return model.score_checked(_rows_of_ids(tensors, model.scorer))
    lists = {column.name for column in encoder.columns if column.cell_type == "list"}
    return model.score_columns(
        {name: tensor.lists() if name in lists else tensor.cells() for name, tensor in tensors.items()}
    )


def _rows_of_ids(tensors: dict[str, Tensor], scorer: Scorer) -> CheckedRows:
    if "ids" not in tensors:
        raise RequestError(422, "the input ids is missing")
    ids, values = tensors["ids"], tensors.get("values")
    if values is not None and values.shape != ids.shape:
        raise RequestError(422, "ids and values must have the same shape")
    n_rows = ids.shape[0]
    shape = n_rows, len(ids.data) // max(n_rows, 1)
    numbers = None if values is None else values.python_values()
    n_inputs, base = scorer.saved.model.numbering.n_inputs, scorer.saved.index_base
    rows = check_batch(rows_of_padded(ids.python_values(), numbers, shape, n_inputs, base))
    if np.abs(rows.values).max(initial=0) > LARGEST:
        raise RequestError(422, f"values must be between {-LARGEST:g} and {LARGEST:g}")
    return rows


def answer(found: dict[str, Any], model: ServedModel, scored: dict[str, Any]) -> Response:
    """Return the answer to a request: all outputs, or those that it names, as JSON or as bytes after it."""
    outputs, parts = [], []
    for name, as_bytes in _wanted(found, model):
        output: dict[str, Any] = {"name": name, "shape": [len(scored[name])], "datatype": "FP64"}
        if as_bytes:
            parts.append(np.asarray(scored[name], "<f8").tobytes())
            output["parameters"] = {BINARY_SIZE: len(parts[-1])}
        outputs.append(output if as_bytes else {**output, "data": scored[name]})
    named = {"id": found["id"]} if "id" in found else {}
    content = {"model_name": model.name, "model_version": model.sha256, **named, "outputs": outputs}
    if not parts:
        return json_response(content)
    head = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    headers = {HEAD_LENGTH: str(len(head))}
    return Response(b"".join([head, *parts]), 200, headers, "application/octet-stream")


def _wanted(found: dict[str, Any], model: ServedModel) -> list[tuple[str, bool]]:
    """Return the names of the outputs, and whether each is wanted as bytes."""
    known, by_default = output_names(model), found.get("parameters", {}).get(BINARY_OUTPUT) is True
    outputs = found.get("outputs") or [{"name": name} for name in known]
    if not all(isinstance(one.get("name"), str) and one["name"] in known for one in outputs):
        raise RequestError(400, f"the outputs are {' and '.join(known)}")
    return [(one["name"], one.get("parameters", {}).get("binary_data", by_default) is True) for one in outputs]
