"""Process items ahead of their use on threads; results come in order for any number of threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from ..errors import RafmError

THREADS = min(2, os.cpu_count() or 1)
Item = TypeVar("Item")
Result = TypeVar("Result")


def map_ahead(work: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS) -> Iterator[Result]:
    """Yield work(item) for every item, in order, while threads process the next ones.

    The caller's thread iterates over the items. If that fails, the results of earlier items are yielded first.

    >>> list(map_ahead(len, ["a", "bc", ""]))
    [1, 2, 0]
    """
    pending: deque[Future[Result]] = deque()
    pool, failure = ThreadPoolExecutor(threads), None
    try:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > threads:  # bounds memory: at most one result per thread waits
                    yield pending.popleft().result()
        except (RafmError, OSError) as error:
            failure = error
        while pending:
            yield pending.popleft().result()
        if failure:
            raise failure
    finally:  # do not wait: the garbage collector may close this generator on a thread that the pool is starting
        pool.shutdown(wait=False, cancel_futures=True)


def share_out(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS
) -> list[Result]:
    """Return work(item) for every item, or raise the error of the first item that failed.

    Like `pool.map`, but with one task per thread that takes items from a queue, which is faster for small items.

    >>> with ThreadPoolExecutor(2) as pool:
    ...     share_out(pool, len, ["a", "bc", ""])
    [1, 2, 0]
    """
    waiting, results = deque(enumerate(items)), {}  # deque.popleft is atomic, so threads need no lock
    failures: dict[int, Exception] = {}

    def take_turns() -> None:
        while not failures:
            try:
                place, item = waiting.popleft()
            except IndexError:
                return
            try:
                results[place] = work(item)
            except Exception as failure:
                failures[place] = failure

    for task in [pool.submit(take_turns) for _ in range(threads)]:
        task.result()
    if failures:
        raise failures[min(failures)]
    return [results[place] for place in range(len(results))]
