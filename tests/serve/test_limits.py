"""The queue of long work: bursts wait, overload is refused."""

import asyncio
import threading

import pytest

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
