"""HTTP connections with limits that uvicorn lacks: on their number, on the head of a request, and on its time.

After a request that wants to upgrade the connection, or that is none, nothing more is read from a connection: bytes
that two programs take for different things could be another request for one of them.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES, MAX_HEADERS = 1 << 15, 100
REFUSED_SECONDS = 1.0  # for a client to read that it is refused
TAKEN_BYTES = 1 << 14  # what a client must take of a waiting answer within the time-out
TOO_LARGE = "413 Content Too Large"
NO_MEMORY = "the request needs too much memory; send fewer rows"
UPGRADE = "a request with a body cannot upgrade the connection; send it without the header Upgrade"
LONG_HEAD = f"the head of the request has over {MAX_HEAD_BYTES} bytes or {MAX_HEADERS} headers"


class GuardedProtocol(HttpToolsProtocol):
    """Closes connections that are too many, whose head of a request is too long or too slow, or that do not read."""

    max_connections, head_seconds = 1000, 10.0  # set by the worker

    def connection_made(self, transport: Any) -> None:
        """Take a connection, or refuse it."""
        super().connection_made(transport)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._takes_requests, self._status, self._reason = True, "400 Bad Request", ""
        self._answered: tuple[Any, bool] | None = None
        self._waiting = 0
        if len(self.connections) > self.max_connections:
            self._refuse("503 Service Unavailable", "too many connections", "retry-after: 1\r\n")
        else:
            self._await_head()

    def _refuse(self, status: str, reason: str, headers: str = "") -> None:
        """Say what is wrong, and close when the client has read it."""
        self._takes_requests = False
        self._end_head()
        body = json.dumps({"error": reason})
        head = f"HTTP/1.1 {status}\r\n{headers}content-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n{body}".encode())
        # Closing at once, with the request unread, would reset the connection, and the answer might be lost.
        if len(self.connections) <= 2 * self.max_connections and self.transport.can_write_eof():
            self.transport.write_eof()
            self._head_timer = self.loop.call_later(REFUSED_SECONDS, self.transport.close)
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request; but first come the answers to the requests before it."""
        self._takes_requests = False
        pending = None if self.cycle is None or self.cycle.response_complete else self.cycle
        if pending is None or (pending.more_body and not pending.response_started and not self.pipeline):
            if pending is not None:  # its body does not end: as if the client had left
                pending.disconnected = True
                pending.message_event.set()
            self._refuse(self._status, self._reason or msg)
        elif pending.more_body:
            self.transport.close()
        else:
            self.shutdown()  # closes after the answer

    def data_received(self, data: bytes) -> None:
        """Read on, and expect the whole head of a request in time."""
        if not self._takes_requests or self.transport.is_closing():
            return  # still sending
        # also for bytes before a head, which would end the time-out of an idle connection
        if self._head_timer is None and (self.cycle is None or self.cycle.response_complete):
            self._await_head()
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer."""
        self._end_head()
        super().connection_lost(exc)

    def drop_unless_read(self) -> None:
        """Drop the connection if its client has taken next to nothing of an answer since the last call.

        Neither the time-out of idle connections nor the end of the server would close it before all is sent.
        """
        waiting = self.transport.get_write_buffer_size()
        answered = None if self.cycle is None else (self.cycle, self.cycle.response_complete)
        had_time = answered == self._answered and self._waiting > 0
        if had_time and waiting > max(0, self._waiting - TAKEN_BYTES):
            self.transport.abort()
        self._answered, self._waiting = answered, waiting

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
            self._invalid(LONG_HEAD)

    def on_headers_complete(self) -> None:
        """Start the request; ignore that it wants to upgrade, as the parser takes its body for another protocol."""
        self._end_head()
        if not self.parser.should_upgrade():
            return super().on_headers_complete()
        if any(_has_body(name, value) for name, value in self.headers):
            self._invalid(UPGRADE)
        super().on_headers_complete()
        self._takes_requests = False
        self.shutdown()  # closes after the answer

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, or say that there is no memory for it."""
        try:
            super().on_body(body)
        except MemoryError:
            self._status = TOO_LARGE
            self._invalid(NO_MEMORY)

    def _invalid(self, reason: str) -> NoReturn:
        self._reason = reason
        raise ValueError(reason)  # uvicorn then calls send_400_response


def _has_body(name: bytes, value: bytes) -> bool:
    return name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0") != b"")
