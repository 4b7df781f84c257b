"""What every request passes: token, time-out, counting; and the queue of long work."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .metrics import SharedMetrics
from .requests import RequestError, error_response

OPEN_PATHS = ("/", "/v2/health/live", "/v2/health/ready")  # without a token: probes, and the page, which has no data
MAX_PENDING, PATIENCE_SECONDS = 16, 2.0  # of the queue: longer ones are refused at once
SHORT_QUEUE, BURST_SECONDS, CALM_SECONDS = 2, 0.05, 1.0  # a queue longer than short may last for a burst, not for ever
SHORT_WAIT, TRIFLE_SECONDS = 0.2, 0.001  # of the mean time of a job: the longest wait in overload; if it is no trifle
MEMORY = 0.2  # share of the latest job in the mean time of jobs
LONG_WORK = re.compile(r"/(?:score|recommend|v2/models/[^/]+(?:/versions/[^/]+)?/infer)")
LIGHT_BYTES = 1 << 13  # requests up to this size are answered at once, larger ones in their turn
BUSY = orjson.dumps({"error": "too many requests are waiting; try again later"})
BUSY_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BUSY))]
LOG = logging.getLogger("rafm.serve")


class Gate:
    """Lets requests with the right token in, for a limited time, and counts them."""

    def __init__(self, app: ASGIApp, metrics: SharedMetrics, lane: Lane, token: str | None, timeout_seconds: float):
        self.app, self.metrics, self.lane, self.timeout_seconds = app, metrics, lane, timeout_seconds
        self.expected = None if token is None else f"Bearer {token}".encode()
        self.is_draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer, begin = _Answer(send, self), time.perf_counter()
        self.metrics.add("in_flight")
        try:
            await self._answered(scope, receive, answer)
        finally:
            self.metrics.add("in_flight", -1)
            route = getattr(scope.get("endpoint"), "__name__", None) or _long_work(scope) or "other"
            self.metrics.count_request(route, answer.status, time.perf_counter() - begin)

    async def _answered(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        try:
            self._check_token(scope)
            # a request that would be refused after its body costs least if nobody reads that
            if self.lane.pending and _long_work(scope) and (seconds := self.lane.refusal()):
                return await _refuse(answer, seconds)
            async with asyncio.timeout(self.timeout_seconds):
                await self.app(scope, receive, answer)
        except RequestError as error:
            await error_response(error)(scope, receive, answer)
        except TimeoutError:
            if answer.status:
                raise  # uvicorn closes the connection in the middle of the answer
            late = RequestError(408, f"no answer within {self.timeout_seconds:g} s", {"Connection": "close"})
            await error_response(late)(scope, receive, answer)

    def _check_token(self, scope: Scope) -> None:
        if self.expected is None or scope["path"] in OPEN_PATHS:
            return
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        # in constant time, so that answers do not tell how much of a token was right
        if not hmac.compare_digest(given, self.expected):
            raise RequestError(401, "this needs the header Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})


def _long_work(scope: Scope) -> str | None:
    """Return the route of a request if its head says that it has to wait for its turn."""
    if scope["method"] != "POST" or not LONG_WORK.fullmatch(scope["path"]):
        return None
    route: str = scope["path"].rpartition("/")[2]
    if route == "recommend":
        return route
    size = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    return route if size.isdigit() and int(size) > LIGHT_BYTES else None


async def _refuse(answer: _Answer, seconds: int) -> None:
    headers = [*BUSY_HEADERS, (b"retry-after", b"%d" % seconds)]
    await answer({"type": "http.response.start", "status": 503, "headers": headers})
    await answer({"type": "http.response.body", "body": BUSY})


class _Answer:
    """Notes the status of an answer, and announces that the connection will close if the server is stopping."""

    def __init__(self, send: Send, gate: Gate):
        self.send, self.gate, self.status = send, gate, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.gate.is_draining:
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
        await self.send(message)


class Lane:
    """One thread for work that would delay other requests, with a queue that is limited in waiting time.

    A burst may fill the queue. If it stays long for BURST_SECONDS, requests come faster than they are answered, and a
    long queue only makes all of them late: until CALM_SECONDS without a refusal, a request is let in only if its turn
    comes within SHORT_WAIT of the time that it takes, or at once by any measure.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool, self._clock = ThreadPoolExecutor(1, "rafm"), clock
        self.pending, self.mean_seconds = 0, 0.0
        self.was_short, self.overload_ends = clock(), -math.inf  # when the queue was short; when overload ends
        self.began = clock()  # when the work at hand began

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run the work in its turn; refuse it at once if the turn is far away."""
        if seconds := self.refusal():
            message = f"{self.pending} requests are waiting; try again later"
            raise RequestError(503, message, {"Retry-After": str(seconds)})
        if not self.pending:
            self.began = self._clock()  # or soon: the thread may have to wait for its turn to run
        self.pending += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, self._timed, work, arguments)
        future.add_done_callback(self._finish)  # also if the client leaves, which cancels what has not begun
        return await future

    def refusal(self) -> int:
        """Return 0 if a request may come in, else after how many seconds it should come back."""
        now, mean = self._clock(), self.mean_seconds
        wait = self.pending * mean - min(now - self.began, mean) if self.pending else 0.0
        if self.pending <= SHORT_QUEUE or wait <= TRIFLE_SECONDS:
            self.was_short = now
        is_full = self.pending >= MAX_PENDING or wait > PATIENCE_SECONDS
        if now < self.overload_ends or now - self.was_short > BURST_SECONDS:
            is_full |= wait > max(SHORT_WAIT * mean, TRIFLE_SECONDS)
        if not is_full:
            return 0
        self.overload_ends = now + CALM_SECONDS
        return max(1, math.ceil(wait))

    def _timed(self, work: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        begin = self.began = self._clock()
        try:
            return work(*arguments)
        finally:
            self.mean_seconds += MEMORY * (self._clock() - begin - self.mean_seconds)

    def _finish(self, _: Any) -> None:
        self.pending -= 1
