"""Read and check request bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

BUFFER_BYTES = 64 << 20  # of bodies that a worker holds at a time
NO_BUFFER = "Not enough memory"  # in what orjson says of such a body, as if that were no JSON
DISCARDED = 4  # times the limit: what is read of a body that is too long, so that its sender sees the answer


class RequestError(Exception):
    """A request cannot be answered; status and message are the answer."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


def too_large(error: Exception) -> RequestError:
    """Return the answer to a request for which there is not enough memory."""
    reason = " ".join(str(error).split())[:200] or "out of memory"
    return RequestError(413, f"the request needs too much memory ({reason}); send fewer rows")


class BodyReader:
    """Reads bodies of limited size, and of limited size together."""

    def __init__(self, max_bytes: int):
        self.max_bytes, self.held = max_bytes, 0

    async def read(self, request: Request) -> bytes:
        """Return the body; its length is counted, not believed."""
        parts: list[bytes] = []
        size = 0
        try:
            async for part in request.stream():
                size += len(part)
                self.held += len(part)
                if self.held > BUFFER_BYTES:
                    raise RequestError(503, "too many bytes of requests at a time", {"Retry-After": "1"})
                if size <= self.max_bytes:
                    parts.append(part)  # below: read on for a while, since a reset would lose the answer
                elif size > DISCARDED * self.max_bytes:
                    break
                else:
                    parts.clear()
            body = b"".join(parts)
        except ClientDisconnect:
            raise RequestError(400, "the client left") from None
        except MemoryError as error:
            raise too_large(error) from None
        finally:
            self.held -= size
        if size > self.max_bytes:
            message = f"the body has over {self.max_bytes} bytes; send fewer rows at a time"
            raise RequestError(413, message, {"Connection": "close"})
        return body


def parse_json(body: bytes) -> dict[str, Any]:
    """Parse a JSON object strictly: no NaN, no text that is not UTF-8, no nesting that is absurdly deep."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if NO_BUFFER in str(error):
            raise MemoryError(str(error)) from None
        raise RequestError(400, f"the body is not JSON: {str(error)[:200]}") from None
    if not isinstance(found, dict):
        raise RequestError(400, f"expected a JSON object, found {type(found).__name__}")
    return found


def check_keys(found: dict[str, Any], allowed: tuple[str, ...], needed: tuple[str, ...] = ()) -> None:
    """Reject keys that are not allowed, and missing ones."""
    for key in found:
        if key not in allowed:
            raise RequestError(400, f"unknown key {key[:80]!r}; the keys are {', '.join(allowed)}")
    for key in needed:
        if key not in found:
            raise RequestError(400, f"the key {key!r} is missing")


def take_rows(found: dict[str, Any], key: str, max_rows: int) -> list[Any]:
    """Return a list of rows, each an object or a list of cells."""
    rows = found[key]
    if not isinstance(rows, list) or not {*map(type, rows)} <= {dict, list}:
        raise RequestError(400, f"{key} must be a list of rows, each an object of cells or a list of them")
    if len(rows) > max_rows:
        raise RequestError(422, f"{key} has {len(rows)} rows, the limit is {max_rows}")
    return rows


def take_number(found: dict[str, Any], key: str, default: int, low: int, high: int) -> int:
    """Return an integer within limits."""
    number = as_integer(found.get(key, default))
    if number is None:
        raise RequestError(400, f"{key} must be an integer")
    if not low <= number <= high:
        raise RequestError(422, f"{key} must be between {low} and {high}")
    return number


def as_integer(found: Any) -> int | None:
    """Return an integer, None if it is none; JSON has one kind of number, so 2.0 is one."""
    if type(found) is float and found.is_integer():
        return int(found)
    return found if type(found) is int else None


def json_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    # NaN and infinity would become null, but no score is one of them
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, status, headers, "application/json")


def error_response(error: RequestError) -> Response:
    """Return an error as the Open Inference Protocol has it."""
    return json_response({"error": error.message}, error.status, error.headers)
