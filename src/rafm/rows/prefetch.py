"""Work on what comes next while what came before is used: results in order, whatever the number of threads."""

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
    """Yield what the work makes of every item, in order, while threads are busy with the next ones.

    Items are taken by the caller's thread. A failure to take one is raised after the results of those before it.

    >>> list(map_ahead(len, ["a", "bc", ""]))
    [1, 2, 0]
    """
    pending: deque[Future[Result]] = deque()
    pool, failure = ThreadPoolExecutor(threads), None
    try:
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                if len(pending) > threads:
                    yield pending.popleft().result()
        except (RafmError, OSError) as error:
            failure = error
        while pending:
            yield pending.popleft().result()
        if failure:
            raise failure
    finally:  # without waiting: a generator may be closed by the collector of garbage, while its thread starts another
        pool.shutdown(wait=False, cancel_futures=True)


def share_out(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item], threads: int = THREADS
) -> list[Result]:
    """Return what the work makes of every item, or raise the first failure by the order of items.

    Like `pool.map`, but each thread is asked once and takes one item after the other, which is quicker for small ones.

    >>> with ThreadPoolExecutor(2) as pool:
    ...     share_out(pool, len, ["a", "bc", ""])
    [1, 2, 0]
    """
    waiting, results = deque(enumerate(items)), {}
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
