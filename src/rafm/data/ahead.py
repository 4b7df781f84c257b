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
    with ThreadPoolExecutor(threads) as pool:
        failure = None
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
