"""The OpenAPI document of a server, with the columns of its model."""

from __future__ import annotations

from typing import Any

from ..encode.column import NAME_TYPES, Column
from ..version import __version__
from .inference import datatypes_of, model_inputs, output_names
from .ranges import LARGEST, WHOLE, range_of
from .served import ServedModel
from .settings import Settings

MAX_TERMS, MAX_EXPLAINED, MAX_TOP, MAX_ITEM = 1000, 100, 1000, 2**31 - 1
TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}
SHA = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
ERRORS = {
    400: "Not a valid request",
    401: "Missing or wrong token",
    404: "No such model or address",
    408: "No answer in time",
    413: "Body too long",
    422: "Rows that the model cannot take, or too many",
    503: "Too many requests; see Retry-After",
}


def openapi(model: ServedModel, settings: Settings) -> dict[str, Any]:
    """Return the document."""
    needs_token = settings.token_file is not None
    return {
        "openapi": "3.1.0",
        "info": {"title": f"rafm: {model.name}", "version": __version__, "description": f"SHA-256 {model.sha256}"},
        "paths": _paths(model, settings),
        "components": {
            "schemas": {"Row": _row(model), "PartialRow": _row(model, partial=True), "Error": _object({"error": TEXT})},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}] if needs_token else [],
    }


def _paths(model: ServedModel, settings: Settings) -> dict[str, Any]:
    named = f"/v2/models/{model.name}"
    open_to_all: dict[str, Any] = {"security": []}
    return {
        "/": {
            "get": {"summary": "The page", **open_to_all, "responses": {"200": _content("A page", TEXT, "text/html")}}
        },
        "/score": {"post": _post("Score raw rows", _score_request(settings), _score_answer(model))},
        "/recommend": {"post": _post("Recommend items", _recommend_request(settings), _recommend_answer())},
        "/columns": {"get": _get("Columns of a row", _object({}, extra=True))},
        "/metrics": {
            "get": {
                "summary": "Prometheus metrics",
                "responses": {"200": _content("Text", TEXT, "text/plain"), **_errors(401)},
            }
        },
        "/openapi.json": {"get": _get("This document", _object({}, extra=True))},
        "/v2": {"get": _get("Metadata of the server", _object({"name": TEXT, "version": TEXT}, extra=True))},
        "/v2/health/live": {"get": {**_get("Whether the process is alive", _object({}, extra=True)), **open_to_all}},
        "/v2/health/ready": {
            "get": {**_get("Whether requests are welcome", _object({}, extra=True), 503), **open_to_all}
        },
        named: {"get": _get("Metadata of the model", _object({"name": TEXT}, extra=True))},
        f"{named}/ready": {"get": _get("Whether the model can be used", _object({}, extra=True), 503)},
        f"{named}/infer": {"post": _post("Score tensors", _infer_request(model), _infer_answer(model))},
    }


def _score_request(settings: Settings) -> dict[str, Any]:
    rows = _list({"$ref": "#/components/schemas/Row"}, settings.max_rows)
    explain = {
        **INTEGER,
        "minimum": 0,
        "maximum": MAX_TERMS,
        "description": f"Terms per row, of up to {MAX_EXPLAINED} rows",
    }
    return _object({"rows": rows, "explain": explain}, needed=["rows"])


def _score_answer(model: ServedModel) -> dict[str, Any]:
    known = {"model": TEXT, "sha256": SHA, **{name: _list(NUMBER) for name in output_names(model)}}
    optional = {"explanation": _list(_object({}, extra=True)), "ignored": _list(TEXT)}
    return _object({**known, **optional}, needed=[*known])


def _recommend_request(settings: Settings) -> dict[str, Any]:
    rows = _list({"$ref": "#/components/schemas/PartialRow"}, settings.max_rows)
    numbers = _list(_list({**INTEGER, "minimum": 1, "maximum": MAX_ITEM}))
    top = {**INTEGER, "minimum": 1, "maximum": MAX_TOP}
    return _object({"contexts": rows, "items": rows, "top": top, "exclude": numbers}, needed=["contexts"])


def _recommend_answer() -> dict[str, Any]:
    item = _object({"item": INTEGER, "score": NUMBER, "features": _list(TEXT)})
    return _object({"model": TEXT, "sha256": SHA, "contexts": _list(_object({"items": _list(item)}))})


def _infer_request(model: ServedModel) -> dict[str, Any]:
    parameters, names = _object({}, extra=True), {"enum": [*output_names(model)]}
    outputs = _list(_object({"name": names, "parameters": parameters}, needed=["name"], extra=True))
    tensors = {"type": "array", "items": {"anyOf": [_tensor(one) for one in model_inputs(model)]}, "minItems": 1}
    return _object({"id": TEXT, "parameters": parameters, "inputs": tensors, "outputs": outputs}, needed=["inputs"])


def _tensor(found: dict[str, Any]) -> dict[str, Any]:
    shape = {"type": "array", "items": {**INTEGER, "minimum": 0, "maximum": MAX_ITEM}, "minItems": 1, "maxItems": 2}
    kinds = {"enum": [*datatypes_of(found)]}
    known = {"name": {"const": found["name"]}, "shape": shape, "datatype": kinds, "data": {"type": "array"}}
    return _object({**known, "parameters": _object({}, extra=True)}, needed=[*known])


def _infer_answer(model: ServedModel) -> dict[str, Any]:
    output = _object({"name": TEXT, "shape": _list(INTEGER), "datatype": TEXT, "data": _list(NUMBER)})
    known = {"model_name": TEXT, "model_version": SHA, "outputs": _list(output)}
    return _object({**known, "id": TEXT}, needed=[*known])


def _row(model: ServedModel, partial: bool = False) -> dict[str, Any]:
    """Return the schema of a row: an object of cells, or of feature ids and values."""
    encoder = model.scorer.saved.encoder
    if encoder is None:
        base = model.scorer.saved.index_base
        # fewer digits than are accepted: what a document promises must hold
        pattern = "^(0|[1-9][0-9]{0,8})$" if base == 0 else "^[1-9][0-9]{0,8}$"
        names = {name: _bounded(-LARGEST, LARGEST) for name in model.scorer.columns}
        return {
            "type": "object",
            "properties": names,
            "patternProperties": {pattern: _bounded(-LARGEST, LARGEST)},
            "additionalProperties": False,
        }
    allows_missing = encoder.spec.missing != "error"
    cells = {column.name: _cell(column, allows_missing) for column in encoder.columns}
    return _object(cells, needed=[] if partial else [*cells], extra=True)


def _cell(column: Column, allows_missing: bool) -> dict[str, Any]:
    number = _bounded(*(range_of(column) or (-WHOLE, WHOLE)))
    kinds: dict[str, dict[str, Any]] = {
        "text": TEXT,
        "number": number,
        "boolean": {"type": "boolean"},
        "time": {**TEXT, "format": "date-time"},
        "list": {"anyOf": [_list({"anyOf": [one, {"type": "null"}]}) for one in (TEXT, number, {"type": "boolean"})]},
    }
    found = kinds.get(column.cell_type, {})
    if column.kind == "datetime":
        found = kinds["time"]
    if column.kind == "category" and column.cell_type in NAME_TYPES:
        found = {"anyOf": [kinds[column.cell_type], *(kinds[name] for name in NAME_TYPES - {column.cell_type})]}
    return {"anyOf": [found, {"type": "null"}]} if allows_missing else found


def _bounded(low: float, high: float) -> dict[str, Any]:
    return {"type": "number", "minimum": low, "maximum": high}


def _object(properties: dict[str, Any], needed: list[str] | None = None, extra: bool = False) -> dict[str, Any]:
    names = [*properties] if needed is None else needed
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": extra}


def _list(items: dict[str, Any], longest: int | None = None) -> dict[str, Any]:
    return {"type": "array", "items": items, **({} if longest is None else {"maxItems": longest})}


def _content(description: str, schema: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
    return {"description": description, "content": {kind: {"schema": schema}}}


def _errors(*codes: int) -> dict[str, Any]:
    return {str(code): _content(ERRORS[code], {"$ref": "#/components/schemas/Error"}) for code in codes}


def _get(summary: str, answer: dict[str, Any], *codes: int) -> dict[str, Any]:
    states = {str(code): _content(ERRORS[code], answer) for code in codes}
    return {"summary": summary, "responses": {"200": _content("The answer", answer), **_errors(401), **states}}


def _post(summary: str, request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    body = {"required": True, "content": {"application/json": {"schema": request}}}
    responses = {"200": _content("The answer", answer), **_errors(*(code for code in ERRORS if code != 404))}
    return {"summary": summary, "requestBody": body, "responses": responses}
