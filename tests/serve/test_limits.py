"""The queue of long work: bursts wait, overload is refused."""

import asyncio
import socket
import threading

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rafm.serve.limits import (
    BURST_SECONDS,
    CALM_SECONDS,
    LIGHT_BYTES,
    MAX_PENDING,
    SHORT_WAIT,
    TRIFLE_SECONDS,
    Gate,
    Lane,
)
from rafm.serve.metrics import SharedMetrics
from rafm.serve.protocol import GuardedProtocol
from rafm.serve.requests import RequestError


class Queue:
    """A lane whose work waits for a word, and whose clock stands still until it is set."""

    def __init__(self):
        self.now, self.word, self.lane = 0.0, threading.Event(), None
        self.has_begun = threading.Event()

    async def __aenter__(self):
        self.lane, self.tasks = Lane(lambda: self.now), []
        return self

    async def __aexit__(self, *_):
        await self.drain()

    async def admitted(self, n):
        """Return how many of n requests are let in."""
        before = self.lane.pending
        self.tasks += [asyncio.create_task(self.lane.run(self.work)) for _ in range(n)]
        await asyncio.sleep(0)
        return self.lane.pending - before

    def work(self):
        self.has_begun.set()
        self.word.wait()

    async def drain(self):
        """Let all work end; return the refusals."""
        self.word.set()
        ended = await asyncio.gather(*self.tasks, return_exceptions=True)
        self.word.clear(), self.has_begun.clear(), self.tasks.clear()
        while self.lane.pending:
            await asyncio.sleep(0)
        return [each for each in ended if isinstance(each, RequestError)]


async def overload(queue, mean_seconds=0.1):
    queue.lane.mean_seconds = mean_seconds
    assert await queue.admitted(10) == 10
    queue.now += 2 * BURST_SECONDS
    assert await queue.admitted(1) == 0
    await queue.drain()
    queue.lane.mean_seconds = mean_seconds


async def a_burst_waits():
    async with Queue() as queue:
        assert await queue.admitted(MAX_PENDING + 5) == MAX_PENDING
        refused = await queue.drain()
        assert [(each.status, each.headers) for each in refused] == [(503, {"Retry-After": "1"})] * 5


async def overload_keeps_the_queue_short():
    async with Queue() as queue:
        await overload(queue)
        queue.now += CALM_SECONDS / 2
        assert await queue.admitted(10) == 1


async def many_short_jobs_are_no_overload():
    async with Queue() as queue:
        await overload(queue)
        queue.lane.mean_seconds = TRIFLE_SECONDS / 4
        assert await queue.admitted(10) == 5  # the fifth waits for four
    async with Queue() as queue:
        queue.lane.mean_seconds = TRIFLE_SECONDS / 10
        assert await queue.admitted(10) == 10
        queue.now += 2 * BURST_SECONDS
        assert await queue.admitted(1) == 1


async def calm_ends_overload():
    async with Queue() as queue:
        await overload(queue)
        queue.now += 2 * CALM_SECONDS
        assert await queue.admitted(10) == 10


async def overload_lets_one_wait_for_a_part_of_a_job():
    async with Queue() as queue:
        await overload(queue)
        queue.now += 0.1
        assert await queue.admitted(1) == 1
        await asyncio.to_thread(queue.has_begun.wait)
        queue.now += (1 - SHORT_WAIT) * 0.1 - 0.01
        assert await queue.admitted(1) == 0
        queue.now += 0.02
        assert await queue.admitted(5) == 1


STORIES = [
    a_burst_waits,
    overload_keeps_the_queue_short,
    overload_lets_one_wait_for_a_part_of_a_job,
    many_short_jobs_are_no_overload,
    calm_ends_overload,
]


@pytest.mark.parametrize("story", STORIES)
def test_the_queue_of_long_work(story):
    asyncio.run(story())


def request(path, length, method="POST", token=b"Bearer right"):
    headers = [(b"content-length", b"%d" % length), (b"authorization", token)]
    return {"type": "http", "method": method, "path": path, "headers": headers}


async def statuses_when_the_queue_is_full(*scopes):
    """Return status, headers and body of the answers; an application that is reached answers 200."""
    answers = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def send(message):
        answers.append(message)

    async def receive():
        raise AssertionError("the body was read")

    async with Queue() as queue:
        await queue.admitted(MAX_PENDING)
        metrics = SharedMetrics.create(1)
        gate = Gate(app, metrics, queue.lane, "right", 10.0)
        for scope in scopes:
            await gate(scope, receive, send)
    return list(zip(answers[::2], answers[1::2])), metrics


@pytest.mark.parametrize("path", ["/score", "/recommend", "/v2/models/m/infer", "/v2/models/m/versions/1/infer"])
def test_long_work_is_refused_before_its_body_is_read(path):
    answers, metrics = asyncio.run(statuses_when_the_queue_is_full(request(path, LIGHT_BYTES + 1)))
    [(start, body)] = answers
    assert start["status"] == 503
    assert dict(start["headers"])[b"retry-after"] == b"1"
    assert int(dict(start["headers"])[b"content-length"]) == len(body["body"])
    assert b"try again later" in body["body"]
    assert metrics.total(f"requests {path.rpartition('/')[2]} 503") == 1


def test_a_full_queue_does_not_concern_other_requests():
    others = [
        request("/score", LIGHT_BYTES),
        request("/score", LIGHT_BYTES + 1, method="PUT"),
        request("/metrics", LIGHT_BYTES + 1),
        request("/else/score", LIGHT_BYTES + 1),
    ]
    answers, _ = asyncio.run(statuses_when_the_queue_is_full(*others))
    assert [start["status"] for start, _ in answers] == [200] * 4


def test_a_wrong_token_is_told_before_a_full_queue():
    wrong = request("/score", LIGHT_BYTES + 1, token=b"Bearer wrong")
    answers, _ = asyncio.run(statuses_when_the_queue_is_full(wrong))
    assert answers[0][0]["status"] == 401


async def answering(n_bytes, actions):
    """Let a client ask for an answer of some bytes, do things with it in turn, and return whether it is dropped."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": bytes(n_bytes)})

    made, config = [], uvicorn.Config(app, http=GuardedProtocol, lifespan="off", log_config=None)
    config.load()

    def protocol():
        made.append(GuardedProtocol(config, uvicorn.server.ServerState(), {}))
        return made[0]

    loop = asyncio.get_running_loop()
    server = await loop.create_server(protocol, sock=small_buffers(socket.create_server(("127.0.0.1", 0))))
    with small_buffers(socket.socket()) as client:
        client.connect(server.sockets[0].getsockname())
        client.setblocking(False)
        for action in actions:
            await action(client)
            await settled(lambda: made and made[0].transport.get_write_buffer_size())
            made[0].drop_unless_read()
        dropped = made[0].transport.is_closing()
        made[0].transport.abort()
    server.close()
    return dropped


def small_buffers(sock):
    """Keep the system from taking more and more of an answer."""
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, buffer, 1 << 13)
    return sock


async def settled(value):
    """Wait until a value has been the same for a while."""
    before, since = None, 0
    while since < 5:
        await asyncio.sleep(0.01)
        since = since + 1 if value() == before else 0
        before = value()


async def ask(client):
    await asyncio.get_running_loop().sock_sendall(client, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")


async def wait(client):
    pass


async def read(client):
    n_bytes = 0
    while n_bytes < HUGE // 4:
        n_bytes += len(await asyncio.get_running_loop().sock_recv(client, 1 << 14))
        await asyncio.sleep(0)  # for the server to send on


HUGE = 1 << 20  # more than the system keeps for the connection


@pytest.mark.parametrize(
    ("n_bytes", "actions", "is_dropped"),
    [
        (HUGE, (ask, wait), True),
        (HUGE, (ask, read, wait), True),
        (HUGE, (ask,), False),
        (HUGE, (ask, read, read, read), False),
        (100, (ask, wait, wait), False),
        (0, (wait, wait), False),
    ],
    ids=["never reads", "stops reading", "has no time yet", "reads on", "has it all", "asks for nothing"],
)
def test_a_client_that_takes_nothing_of_its_answer_is_dropped(n_bytes, actions, is_dropped):  # case 84
    assert asyncio.run(answering(n_bytes, actions)) == is_dropped


async def answer_without_memory():
    config = uvicorn.Config(None, http=GuardedProtocol, lifespan="off", log_config=None)
    config.load()
    loop, state = asyncio.get_running_loop(), uvicorn.server.ServerState()
    server = await loop.create_server(lambda: GuardedProtocol(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{'rows': ")
    answer = await reader.read()
    writer.close()
    server.close()
    return answer


def test_a_body_that_does_not_fit_into_memory_is_no_bad_request(monkeypatch):  # case 119
    def on_body(self, body):
        raise MemoryError

    monkeypatch.setattr(HttpToolsProtocol, "on_body", on_body)
    answer = asyncio.run(answer_without_memory())
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"too much memory" in answer
