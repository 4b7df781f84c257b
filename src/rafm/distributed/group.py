"""Shards and workers: in this process, or as actors of a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from .shard import Shard
from .sources import Source
from .spec import Hook, ModelSpec, no_hook
from .worker import Worker

Call = tuple[int, str, tuple[Any, ...]]  # worker, method, arguments


class Group(Protocol):
    """Shards and workers, as the driver sees them."""

    n_workers: int
    n_shards: int

    def start(self, sources: Sequence[Source]) -> None:
        """Start from scratch: empty shards, and workers that read these sources."""

    def begin(self, spec: ModelSpec) -> None:
        """Tell the workers which model is in training."""

    def ask_workers(self, calls: Sequence[Call]) -> list[Any]:
        """Return the results of calls, which run at the same time; calls to a worker that died are repeated."""

    def ask_shards(self, method: str, arguments: Callable[[int], tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard, with the arguments of its number; raise ShardLost if one died."""

    def close(self) -> None:
        """End the processes."""


class _LocalShards:
    """The shards of this process."""

    def __init__(self, shards: list[Shard]):
        self.shards = shards

    def send(self, shard: int, method: str, *arguments: Any) -> Any:
        return getattr(self.shards[shard], method)(*arguments)

    def wait(self, calls: list[Any]) -> list[Any]:
        return calls


class LocalGroup:
    """One worker and its shards in this process: the same plan, the same kernels and the same bytes, without Ray."""

    n_workers = 1

    def __init__(self, n_shards: int = 1, hook: Hook = no_hook):
        self.n_shards, self.hook = n_shards, hook

    def start(self, sources: Sequence[Source]) -> None:
        """See Group."""
        self.shards = [Shard(number, self.n_shards, self.hook) for number in range(self.n_shards)]
        self.worker = Worker(_LocalShards(self.shards), sources, self.n_shards, self.hook)

    def begin(self, spec: ModelSpec) -> None:
        """See Group."""
        self.worker.begin(spec)

    def ask_workers(self, calls: Sequence[Call]) -> list[Any]:
        """See Group."""
        return [getattr(self.worker, method)(*arguments) for _, method, arguments in calls]

    def ask_shards(self, method: str, arguments: Callable[[int], tuple[Any, ...]]) -> list[Any]:
        """See Group."""
        return [getattr(shard, method)(*arguments(number)) for number, shard in enumerate(self.shards)]

    def close(self) -> None:
        """See Group."""
        self.worker.pool.shutdown(wait=True)
