"""A worker process: load the model, report that it is ready, answer requests until it is stopped.

    python -m rafm.serve.worker '{"settings": {...}, "worker": 0, "listener": 3, "metrics": 4, "parent": 5}'

The supervisor starts it; the numbers are file descriptors. The end of file on `parent` means that the supervisor is
gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from ..errors import ModelFileError, RafmError
from ..files.terminal import one_line, print_to_open_stream
from ..read.without_pandas import WithoutPandas
from .app import Application
from .limits import LOG
from .metrics import SharedMetrics
from .protocol import GuardedProtocol
from .served import ModelStore, ServedModel
from .settings import Settings
from .supervisor import UNTIL_READY

KEEP_ALIVE_SECONDS = 30
LINGER_SECONDS = 1.0  # for connections that were accepted just before the end
SWITCH_SECONDS = 0.001  # a long batch must not hold up short requests


class Worker(uvicorn.Server):
    """Serves requests on the supervisor's socket; stops in two steps, so that no request is lost."""

    def __init__(self, application: Application, parent: int):
        settings, self.application, self.parent = application.settings, application, parent
        self._stopping: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        limits = {"max_connections": settings.max_connections, "head_seconds": settings.timeout_seconds}
        config = uvicorn.Config(
            application.gate,
            http=type("Protocol", (GuardedProtocol,), limits),
            ws="none",
            lifespan="off",  # the model is loaded before, so that errors are one line
            log_config=None,
            access_log=False,  # tokens and rows stay out of the log
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, int(settings.timeout_seconds) + 1),
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections, and say so."""
        await super().startup(sockets)
        self._loop, metrics = asyncio.get_running_loop(), self.application.metrics
        self._loop.add_signal_handler(signal.SIGHUP, self._start, self._refresh)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, UNTIL_READY)  # uvicorn handles Ctrl-C by now
        self._loop.add_reader(self.parent, self._orphaned)
        self._start(self._watch)  # each worker by itself: nothing to agree on
        self._start(self._beat)
        self._start(self._drop_who_do_not_read)
        _note_model(metrics, self.application.models.current)
        metrics.set("in_flight", 0)  # what a killed predecessor had open
        metrics.beat()
        metrics.set("ready", 1)

    def _start(self, work: Any, *arguments: Any) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(self._loop.create_task(work(*arguments)))

    async def _beat(self) -> None:
        while True:
            self.application.metrics.beat()
            await asyncio.sleep(1)

    async def _drop_who_do_not_read(self) -> None:
        while True:
            await asyncio.sleep(self.application.settings.timeout_seconds)
            for connection in list(self.server_state.connections):
                connection.drop_unless_read()  # type: ignore[union-attr]

    async def _watch(self) -> None:
        seconds = self.application.settings.reload_seconds
        while seconds > 0:
            await asyncio.sleep(seconds)
            await self._refresh()

    async def _refresh(self) -> None:
        """Load the model file if it was replaced."""
        models, metrics = self.application.models, self.application.metrics
        if (outcome := await models.refresh()) is None:
            return
        level, text = outcome
        metrics.add("reloads" if level == logging.INFO else "failed_reloads")
        _note_model(metrics, models.current)
        LOG.log(level, "worker %d: %s", metrics.worker, text)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: at once if interrupted, else after telling everybody."""
        if not self.started:
            self.should_exit = True  # nobody was served yet
            return
        seconds = 0.0 if sig == signal.SIGINT else self.application.settings.drain_seconds
        self._loop.call_soon_threadsafe(self._stop_after, seconds)

    def _orphaned(self) -> None:
        self._loop.remove_reader(self.parent)
        self._stop_after(0.0)

    def _stop_after(self, seconds: float) -> None:
        self.application.gate.is_draining = True  # from now on, answers close their connections
        self.application.metrics.set("ready", 0)
        if self._stopping is None or seconds == 0:
            self._stopping = self._loop.create_task(self._stop(seconds))

    async def _stop(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close the listener, wait for requests on the way, then let uvicorn finish the others."""
        # Connections that were accepted a moment ago may not have sent their request yet; uvicorn would close them.
        # Those that wait to be accepted would be reset with the listener.
        waiting = [connection for listener in sockets or [] for connection in accept_waiting(listener)]
        for server in self.servers:
            server.close()
        for connection in waiting:
            await self._loop.connect_accepted_socket(self._protocol, connection)
        for _ in range(int(LINGER_SECONDS / 0.05)):
            if not self.server_state.connections:
                break
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)
        for task in self._tasks:
            task.cancel()

    def _protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        protocol: asyncio.Protocol = kind(self.config, self.server_state, self.lifespan.state)
        return protocol


def _note_model(metrics: SharedMetrics, model: ServedModel) -> None:
    metrics.set_digest("sha256", model.sha256)
    metrics.set_digest("contract", model.contract.digest())


def check_unchanged(settings: Settings, metrics: SharedMetrics, model: ServedModel) -> None:
    """Refuse a model that takes other requests than the workers do, or than this one did before it was killed."""
    digests = (metrics.digest("contract", worker) for worker in range(settings.workers))
    if not settings.allow_change and {*filter(None, digests)} - {model.contract.digest()}:
        raise ModelFileError(
            f"{settings.model}: has other columns, task or classes than the model served so far; put that back, or "
            "start the server with --allow-change"
        )


def accept_waiting(listener: socket.socket) -> Iterator[socket.socket]:
    """Yield the connections that the system has made and nobody has accepted."""
    with contextlib.suppress(BlockingIOError):
        while True:
            connection, _ = listener.accept()
            connection.setblocking(False)
            yield connection


def read_token(path: str | None) -> str | None:
    """Return the token in a file, without the white space around it."""
    if path is None:
        return None
    token = Path(path).read_text(encoding="utf-8").strip()
    if not token:
        raise OSError(f"{path}: the file has no token")
    return token


def main(text: str) -> int:
    """Run a worker; return its exit code."""
    given = json.loads(text)
    settings, number = Settings(**given["settings"]), given["worker"]
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # a line for each malformed request would fill the disk
    warnings.simplefilter("ignore")  # answers say which columns are ignored
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()  # modules stay; looking for garbage among them would stop all requests for a tenth of a second
    metrics = SharedMetrics(given["metrics"], settings.workers, number)
    metrics.add("starts")
    listener = socket.socket(fileno=given["listener"])
    try:
        token = read_token(settings.token_file)
        models = ModelStore(settings)
        check_unchanged(settings, metrics, models.current)
        application = Application(settings, models, metrics, token)
    except (RafmError, OSError, MemoryError) as error:
        print_to_open_stream(f"error: {one_line(str(error))}")
        return error.exit_code if isinstance(error, RafmError) else 6
    Worker(application, given["parent"]).run([listener])
    return 0


if __name__ == "__main__":
    with WithoutPandas():
        code = main(sys.argv[1])
    logging.shutdown()
    sys.stderr.flush()
    os._exit(code)  # not waiting for a thread whose request timed out
