"""The Open Inference Protocol (v2): metadata, and tensors in and out.

A table has one input per column, of shape [rows], or [rows, elements] for a column of lists. A model of ids has the
inputs `ids` and `values` of shape [rows, entries]; an entry of value 0 or null is padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
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


def datatypes_of(found: dict[str, Any]) -> tuple[str, ...]:
    """Return the datatypes that an input may have; found: as model_inputs describes it."""
    kind = found["datatype"]
    if kind == "BYTES":
        return (kind, *INTEGERS) if len(found["shape"]) > 1 else (kind,)  # a list may have numbers
    return (kind,) if kind == "BOOL" else (*INTEGERS, *(FLOATS if kind in FLOATS else ()))


def output_names(model: ServedModel) -> tuple[str, str]:
    """Return the names of the outputs."""
    return "score", model.kind


def parse(body: bytes) -> dict[str, Any]:
    """Return the request, after checking what does not depend on the model."""
    found = parse_json(body)
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
    numbers = None if values is None else values.data
    n_inputs, base = scorer.saved.model.numbering.n_inputs, scorer.saved.index_base
    rows = check_batch(rows_of_padded(ids.data, numbers, shape, n_inputs, base))
    if np.abs(rows.values).max(initial=0) > LARGEST:
        raise RequestError(422, f"values must be between {-LARGEST:g} and {LARGEST:g}")
    return rows


def answer(found: dict[str, Any], model: ServedModel, scored: dict[str, Any]) -> Response:
    """Return the answer to a request: all outputs, or those that it names."""
    shape = [len(scored["score"])]
    outputs = [
        {"name": name, "shape": shape, "datatype": "FP64", "data": scored[name]} for name in _wanted(found, model)
    ]
    named = {"id": found["id"]} if "id" in found else {}
    return json_response({"model_name": model.name, "model_version": model.sha256, **named, "outputs": outputs})


def _wanted(found: dict[str, Any], model: ServedModel) -> list[str]:
    """Return the names of the outputs."""
    known = output_names(model)
    outputs = found.get("outputs") or [{"name": name} for name in known]
    if not all(isinstance(one.get("name"), str) and one["name"] in known for one in outputs):
        raise RequestError(400, f"the outputs are {' and '.join(known)}")
    return [one["name"] for one in outputs]
