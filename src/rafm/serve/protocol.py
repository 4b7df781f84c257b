"""HTTP connections with limits that uvicorn lacks: on their number, on the head of a request, and on its time."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES, MAX_HEADERS = 1 << 15, 100
REFUSED_SECONDS = 1.0  # for a client to read that it is refused
BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-type: application/json\r\n"
    b'connection: close\r\ncontent-length: 32\r\n\r\n{"error":"too many connections"}'
)


class GuardedProtocol(HttpToolsProtocol):
    """Closes connections that are too many, or whose head of a request is too long or too slow."""

    max_connections, head_seconds = 1000, 10.0  # set by the worker

    def connection_made(self, transport: Any) -> None:
        """Take a connection, or refuse it."""
        super().connection_made(transport)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._is_refused = len(self.connections) > self.max_connections
        if self._is_refused:
            self._refuse()
        else:
            self._await_head()

    def _refuse(self) -> None:
        """Say that there are too many connections, and close when the client has read it."""
        self.transport.write(BUSY)
        # Closing at once, with the request unread, would reset the connection, and the answer might be lost.
        if len(self.connections) <= 2 * self.max_connections and self.transport.can_write_eof():
            self.transport.write_eof()
            self._head_timer = self.loop.call_later(REFUSED_SECONDS, self.transport.close)
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Read on, and expect the whole head of a request in time."""
        if self._is_refused or self.transport.is_closing():
            return  # still sending
        # also for bytes before a head, which would end the time-out of an idle connection
        if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._end_head()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(self.head_seconds, self.transport.close)

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def on_message_begin(self) -> None:
        """Count the bytes of a new head."""
        self._head_bytes = 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def _count(self, n_bytes: int) -> None:
        self._head_bytes += n_bytes
        if self._head_bytes > MAX_HEAD_BYTES or len(self.headers) >= MAX_HEADERS:
            raise ValueError("the head of the request is too long")  # uvicorn answers 400 and closes

    def on_headers_complete(self) -> None:
        """Start the request."""
        self._end_head()
        super().on_headers_complete()
