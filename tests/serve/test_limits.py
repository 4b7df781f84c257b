"""The queue of long work: bursts wait, overload is refused."""

import asyncio
import threading

import pytest

from rafm.serve.limits import BURST_SECONDS, CALM_SECONDS, MAX_PENDING, SHORT_QUEUE, Lane
from rafm.serve.requests import RequestError


class Queue:
    """A lane whose work waits for a word, and whose clock stands still until it is set."""

    def __init__(self):
        self.now, self.word, self.lane = 0.0, threading.Event(), None

    async def __aenter__(self):
        self.lane, self.tasks = Lane(lambda: self.now), []
        return self

    async def __aexit__(self, *_):
        await self.drain()

    async def admitted(self, n):
        """Return how many of n requests are let in."""
        before = self.lane.pending
        self.tasks += [asyncio.create_task(self.lane.run(self.word.wait)) for _ in range(n)]
        await asyncio.sleep(0)
        return self.lane.pending - before

    async def drain(self):
        """Let all work end; return the refusals."""
        self.word.set()
        ended = await asyncio.gather(*self.tasks, return_exceptions=True)
        self.word.clear(), self.tasks.clear()
        while self.lane.pending:
            await asyncio.sleep(0)
        return [each for each in ended if isinstance(each, RequestError)]


async def overload(queue):
    assert await queue.admitted(10) == 10
    queue.now += 2 * BURST_SECONDS
    assert await queue.admitted(1) == 0
    await queue.drain()


async def a_burst_waits():
    async with Queue() as queue:
        assert await queue.admitted(MAX_PENDING + 5) == MAX_PENDING
        refused = await queue.drain()
        assert [(each.status, each.headers) for each in refused] == [(503, {"Retry-After": "1"})] * 5


async def overload_keeps_the_queue_short():
    async with Queue() as queue:
        await overload(queue)
        queue.now += CALM_SECONDS / 2
        assert await queue.admitted(10) == SHORT_QUEUE


async def calm_ends_overload():
    async with Queue() as queue:
        await overload(queue)
        queue.now += 2 * CALM_SECONDS
        assert await queue.admitted(10) == 10


@pytest.mark.parametrize("story", [a_burst_waits, overload_keeps_the_queue_short, calm_ends_overload])
def test_the_queue_of_long_work(story):
    asyncio.run(story())
