"""Routes of the server."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pyarrow as pa
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..errors import RafmError
from . import inference
from .arrow_bodies import is_arrow, read_table, write_scores
from .describe import PAGE, PAGE_HEADERS, columns_of
from .limits import LIGHT_BYTES, Gate, Lane
from .metrics import SharedMetrics
from .openapi import MAX_EXPLAINED, MAX_ITEM, MAX_TERMS, MAX_TOP, openapi
from .requests import (
    BodyReader,
    RequestError,
    as_integer,
    check_keys,
    error_response,
    json_response,
    parse_json,
    take_number,
    take_rows,
    too_large,
)
from .served import ModelStore, ServedModel
from .settings import Settings

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Application:
    """The answers of one worker."""

    def __init__(self, settings: Settings, models: ModelStore, metrics: SharedMetrics, token: str | None = None):
        self.settings, self.models, self.metrics = settings, models, metrics
        self.bodies, self.lane = BodyReader(settings.max_body_bytes), Lane()
        handlers: dict[Any, Any] = {
            HTTPException: _on_http_error,
            RequestError: _on_request_error,
            Exception: _on_crash,
        }
        self._app = Starlette(routes=self._routes(), exception_handlers=handlers)
        self._app.router.redirect_slashes = False
        self.gate = Gate(self._answer, metrics, self.lane, token, settings.timeout_seconds)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let Starlette answer; but scores at once, since its layers take as long as scoring a row."""
        if scope["path"] != "/score" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        scope["endpoint"] = self.score
        try:
            response = await self.score(Request(scope, receive))
        except RequestError:
            raise  # the gate answers it
        except Exception as error:
            await (await _on_crash(Request(scope), error))(scope, receive, send)
            raise  # to the log, as Starlette does
        await response(scope, receive, send)

    def _routes(self) -> list[Route]:
        model = "/v2/models/{name}"
        versioned = model + "/versions/{version}"
        return [
            Route("/", page),
            Route("/score", self.score, methods=["POST"]),
            Route("/recommend", self.recommend, methods=["POST"]),
            Route("/columns", self.columns),
            Route("/metrics", self.show_metrics),
            Route("/openapi.json", self.show_openapi),
            Route("/v2", self.server),
            Route("/v2/health/live", self.live),
            Route("/v2/health/ready", self.ready),
            *(Route(path, self.model) for path in (model, versioned)),
            *(Route(f"{path}/ready", self.model_ready) for path in (model, versioned)),
            *(Route(f"{path}/infer", self.infer, methods=["POST"]) for path in (model, versioned)),
        ]

    async def score(self, request: Request) -> Response:
        """Score raw rows."""
        if is_arrow(request.headers.get("content-type", "")):
            as_arrow = is_arrow(request.headers.get("accept", ""))
            return await self.work(request, lambda model, body: self._score_arrow(model, body, as_arrow))
        return await self.work(request, self._score)

    async def recommend(self, request: Request) -> Response:
        """Recommend items for contexts."""
        return await self.work(request, self._recommend)

    async def infer(self, request: Request) -> Response:
        """Score tensors."""
        self._named(request)
        if "Inference-Header-Content-Length" in request.headers:
            raise RequestError(400, "tensors must be JSON, not bytes; for speed, send an Arrow stream to /score")
        return await self.work(request, self._infer)

    async def work(self, request: Request, answer: Callable[[ServedModel, bytes], Response]) -> Response:
        """Answer a request: at once if it is small, else in its turn."""
        begin, cpu = time.perf_counter(), time.process_time()
        model, body = self.models.current, await self.bodies.read(request)  # one model from here on
        times = [begin, time.perf_counter()]

        def job() -> Response:
            times.append(time.perf_counter())
            try:
                return answer(model, body)
            except (MemoryError, pa.ArrowCapacityError) as error:
                raise too_large(error) from None
            except RafmError as error:
                raise RequestError(422, str(error)) from None

        # an explanation, or the best of many items, takes milliseconds even for one row
        if len(body) <= LIGHT_BYTES and answer != self._recommend and b'"explain"' not in body:
            return job()
        response: Response = await self.lane.run(job)
        seconds = [b - a for a, b in pairwise([*times, time.perf_counter()])] + [time.process_time() - cpu]
        parts = zip(("read", "wait", "work", "cpu"), seconds)
        response.headers["Server-Timing"] = ", ".join(f"{name};dur={1e3 * each:.2f}" for name, each in parts)
        return response

    def _score(self, model: ServedModel, body: bytes) -> Response:
        found = parse_json(body)
        check_keys(found, ("rows", "explain"), needed=("rows",))
        rows = take_rows(found, "rows", self.settings.max_rows)
        terms = take_number(found, "explain", 0, 0, MAX_TERMS)
        if terms and len(rows) > MAX_EXPLAINED:
            raise RequestError(422, f"at most {MAX_EXPLAINED} rows can be explained at a time")
        answer: dict[str, Any] = {"model": model.name, "sha256": model.sha256, **model.score(rows)}
        self.metrics.add("rows", len(rows))
        if terms:
            answer["explanation"] = model.explain(rows, terms)
        # a misspelt column is easily overlooked, so the answer names it
        if ignored := _ignored(model, rows):
            answer["ignored"] = ignored
        return json_response(answer)

    def _score_arrow(self, model: ServedModel, body: bytes, as_arrow: bool) -> Response:
        table = read_table(body, self.settings.max_rows)
        scored = model.score_table(table)
        self.metrics.add("rows", table.num_rows)
        if as_arrow:
            return write_scores(model, scored)
        ignored = sorted(model.scorer.raw_rows.ignored(dict.fromkeys(table.column_names)))
        named = {"model": model.name, "sha256": model.sha256}
        return json_response({**named, **scored, **({"ignored": ignored} if ignored else {})})

    def _recommend(self, model: ServedModel, body: bytes) -> Response:
        found = parse_json(body)
        check_keys(found, ("contexts", "items", "top", "exclude"), needed=("contexts",))
        contexts = take_rows(found, "contexts", self.settings.max_rows)
        items = take_rows(found, "items", self.settings.max_rows) if "items" in found else None
        top = take_number(found, "top", 10, 1, MAX_TOP)
        exclude = _take_excluded(found, len(contexts)) if "exclude" in found else None
        best = model.recommend(contexts, items, top, exclude)
        named = {"model": model.name, "sha256": model.sha256}
        return json_response({**named, "contexts": [{"items": one} for one in best]})

    def _infer(self, model: ServedModel, body: bytes) -> Response:
        found = inference.parse(body)
        scored = inference.score(found, model, self.settings.max_rows)
        self.metrics.add("rows", len(scored["score"]))
        return inference.answer(found, model, scored)

    async def columns(self, _: Request) -> Response:
        """Describe the columns of a row."""
        return json_response(columns_of(self.models.current))

    async def show_metrics(self, _: Request) -> Response:
        """Return the counters of all workers."""
        return PlainTextResponse(self.metrics.text(), media_type=METRICS_TYPE)

    async def show_openapi(self, _: Request) -> Response:
        """Return the OpenAPI document."""
        return json_response(openapi(self.models.current, self.settings))

    async def server(self, _: Request) -> Response:
        """Return metadata of the server."""
        return json_response(inference.server_metadata())

    async def live(self, _: Request) -> Response:
        """Tell that the process is alive."""
        return json_response({"live": True})

    async def ready(self, _: Request) -> Response:
        """Tell whether requests are welcome: not any more once the server is stopping."""
        return json_response({"ready": not self.gate.is_draining}, 503 if self.gate.is_draining else 200)

    async def model(self, request: Request) -> Response:
        """Return metadata of the model."""
        return json_response(inference.model_metadata(self._named(request)))

    async def model_ready(self, request: Request) -> Response:
        """Tell whether the model can be used."""
        model, is_ready = self._named(request), not self.gate.is_draining
        return json_response({"name": model.name, "ready": is_ready}, 200 if is_ready else 503)

    def _named(self, request: Request) -> ServedModel:
        """Return the model of the address, if it is the one that is served."""
        model, wanted = self.models.current, request.path_params
        if wanted["name"] != model.name:
            raise RequestError(404, f"no model {wanted['name'][:80]!r}; the model is {model.name!r}")
        if wanted.get("version", model.sha256) != model.sha256:
            raise RequestError(404, f"no version {wanted['version'][:80]!r}; the version is {model.sha256!r}")
        return model


def _ignored(model: ServedModel, rows: list[Any]) -> list[str]:
    """Return names of columns that were given, but that the model does not know."""
    n_columns = len(model.scorer.columns)
    if max(map(len, rows), default=0) <= n_columns:
        return []
    extra = (row for row in rows if isinstance(row, dict) and len(row) > n_columns)
    return sorted({name for row in extra for name in model.scorer.raw_rows.ignored(row)})


def _take_excluded(found: dict[str, Any], n_contexts: int) -> list[list[int]]:
    lists = found["exclude"]
    if not isinstance(lists, list) or not all(isinstance(one, list) for one in lists):
        raise RequestError(400, "exclude must have a list of item numbers for each context")
    numbers = [[as_integer(number) for number in one] for one in lists]
    if not all(number is not None and 0 < number <= MAX_ITEM for one in numbers for number in one):
        raise RequestError(400, f"exclude must have numbers of items, from 1 to {MAX_ITEM}")
    if len(numbers) != n_contexts:
        raise RequestError(422, f"exclude has {len(numbers)} lists, but there are {n_contexts} contexts")
    return numbers  # type: ignore[return-value]


async def page(_: Request) -> Response:
    """Return the page to try the model."""
    return HTMLResponse(PAGE, headers=PAGE_HEADERS)


async def _on_http_error(_: Request, error: Any) -> Response:
    message = {404: "no such address", 405: "this address has no such method"}.get(error.status_code, error.detail)
    return json_response({"error": message}, error.status_code, error.headers)


async def _on_request_error(_: Request, error: Any) -> Response:
    return error_response(error)


async def _on_crash(_: Request, error: Exception) -> Response:
    return json_response({"error": f"internal error: {type(error).__name__}; see the server's log"}, 500)
