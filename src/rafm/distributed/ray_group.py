"""Shards and workers as actors of a Ray cluster.

Calls are few and carry much: one per shard and phase, as flat arrays. Ray restarts an actor that died, without its
state: a worker is told again what it needs, and its call is repeated; what a lost shard means is for the driver to say.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from .. import errors
from ..errors import ClusterError, ConfigError, RafmError
from .config import INSTALL, ScalingConfig, check_address
from .group import Call
from .shard import Shard
from .sources import Source
from .spec import Hook, ModelSpec, ShardLost, WorkerLost, no_hook
from .worker import Worker

RETRIES, PAUSE_SECONDS = 60, 0.5  # while Ray restarts an actor
SEVERAL_MACHINES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
START_SECONDS = 900.0  # an autoscaler may have to start machines first


def import_ray() -> Any:
    """Return Ray, without its telemetry; name the extra if it is not installed."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise ConfigError(INSTALL, key="ray") from None
    return ray


def connect(address: str, scaling: ScalingConfig) -> bool:
    """Join a cluster, or start one on this machine if the address is "local"; return whether it was started."""
    check_address(address)
    ray = import_ray()
    if ray.is_initialized():
        return False
    quiet = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    try:
        if address != "local":
            ray.init(address=address, log_to_driver=False, configure_logging=False)
            return False
        wanted = scaling.num_workers * scaling.cpus_per_worker + scaling.n_shards * scaling.cpus_per_shard
        n_cpus = max(os.cpu_count() or 1, int(wanted + 1))
        with _on_loopback():
            ray.init(address="local", num_cpus=n_cpus, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ClusterError(f"cannot use the cluster {address}: {' '.join(str(error).split())[:300]}") from None
    return True


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Let a cluster listen on 127.0.0.1 alone; that it asks for tokens is Ray's default.

    Ray replaces a given address of this kind by one that other machines can reach; but where it expects no cluster of
    several machines, which is on macOS and Windows, it keeps to the loopback.
    """
    from ray._private import ray_constants

    before, given = ray_constants.ENABLE_RAY_CLUSTER, os.environ.get(SEVERAL_MACHINES)
    ray_constants.ENABLE_RAY_CLUSTER, os.environ[SEVERAL_MACHINES] = False, "0"  # the latter for its processes
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        os.environ.pop(SEVERAL_MACHINES)
        if given is not None:
            os.environ[SEVERAL_MACHINES] = given


class Raised(NamedTuple):
    """An error of ours, passed on from an actor; exceptions with custom arguments cannot be pickled."""

    kind: str
    message: str


def again(found: Any) -> Any:
    """Return a result, or raise the error that it stands for."""
    if not isinstance(found, Raised):
        return found
    error = RafmError.__new__(getattr(errors, found.kind))
    Exception.__init__(error, found.message)
    raise error


class _Host:
    """An actor: calls methods of the object that it holds."""

    held: Any = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method; errors of ours become results."""
        if self.held is None:
            raise WorkerLost("the process has not been set up")
        try:
            return getattr(self.held, method)(*arguments)
        except RafmError as error:
            return Raised(type(error).__name__, str(error))
        except OSError as error:  # a full disk, a folder that this machine cannot reach
            return Raised("ClusterError", f"{type(self.held).__name__.lower()}: {error}")

    def pid(self) -> int:
        """Return the id of the process."""
        return os.getpid()


class ShardHost(_Host):
    """The actor of a shard; it is empty after a restart and raises an error until it is set up."""

    def __init__(self) -> None:
        self.held = Shard()

    def start(self, number: int, n_shards: int, hook: Hook) -> None:
        """Begin with an empty shard."""
        self.held = Shard(number, n_shards, hook)


class WorkerHost(_Host):
    """The actor of a worker."""

    def start(self, shards: list[Any], sources: Sequence[Source], spec: ModelSpec | None, hook: Hook) -> None:
        """Begin to work for these shards."""
        if self.held is not None:
            self.held.pool.shutdown(wait=True)
        self.held = Worker(RayShards(shards), sources, len(shards), hook)
        if spec is not None:
            self.held.begin(spec)


class RayShards:
    """The shards, as the actor of a worker sees them."""

    def __init__(self, actors: list[Any]):
        self.actors = actors

    def send(self, shard: int, method: str, *arguments: Any) -> Any:
        """See Shards."""
        return self.actors[shard].call.remote(method, *arguments)

    def wait(self, calls: list[Any]) -> list[Any]:
        """See Shards."""
        import ray
        from ray.exceptions import RayActorError

        try:
            return [again(found) for found in ray.get(calls)]
        except RayActorError as error:
            raise ShardLost(f"a shard died ({type(error).__name__})") from None


class Actors(NamedTuple):
    """Processes of a cluster, which can serve one training after another."""

    workers: list[Any]
    shards: list[Any]


def make_actors(scaling: ScalingConfig) -> Actors:
    """Start the processes; Ray restarts those that die."""
    ray = import_ray()
    usual = {"max_restarts": -1, "max_task_retries": 0, "scheduling_strategy": "SPREAD"}
    of_worker = {"num_cpus": scaling.cpus_per_worker, "memory": scaling.memory_per_worker}
    of_shard = {"num_cpus": scaling.cpus_per_shard, "memory": scaling.memory_per_shard}
    own = [{**usual, **{name: one for name, one in each.items() if one is not None}} for each in (of_worker, of_shard)]
    worker, shard = ray.remote(WorkerHost), ray.remote(ShardHost)
    return Actors(
        [worker.options(**own[0]).remote() for _ in range(scaling.num_workers)],
        [shard.options(**own[1]).remote() for _ in range(scaling.n_shards)],
    )


class RayGroup:
    """Shards and workers as actors; see Group.

    Parameters
    ----------
    actors : Actors
        The processes.
    max_failures : int, default=3
        Workers that may die; -1 for any number.
    hook : callable, default=no_hook
        Passed on to shards and workers.
    """

    def __init__(self, actors: Actors, max_failures: int = 3, hook: Hook = no_hook):
        self.actors, self.max_failures, self.hook, self.failures = actors, max_failures, hook, 0
        self.n_workers, self.n_shards = len(actors.workers), len(actors.shards)
        self.sources: Sequence[Source] = ()
        self.spec: ModelSpec | None = None

    def start(self, sources: Sequence[Source]) -> None:
        """See Group."""
        ray = import_ray()
        self.spec, self.sources = None, ray.put(sources)  # once for all workers
        self._start_shards()
        for worker in range(self.n_workers):
            self._revive(worker)

    def _start_shards(self) -> None:
        for number, shard in enumerate(self.actors.shards):
            _until_alive(lambda: shard.start.remote(number, self.n_shards, self.hook))  # noqa: B023, called at once

    def begin(self, spec: ModelSpec) -> None:
        """See Group."""
        self.spec = spec
        self.ask_workers([(worker, "begin", (spec,)) for worker in range(self.n_workers)])

    def _revive(self, worker: int) -> None:
        """Tell a worker what it needs to know."""
        actor, shards = self.actors.workers[worker], self.actors.shards
        _until_alive(lambda: actor.start.remote(shards, self.sources, self.spec, self.hook))

    def ask_workers(self, calls: Sequence[Call]) -> list[Any]:
        """See Group."""
        ray = import_ray()
        from ray.exceptions import RayActorError

        refs = [self.actors.workers[worker].call.remote(method, *own) for worker, method, own in calls]
        results: list[Any] = []
        lost: ShardLost | None = None
        for (worker, method, own), ref in zip(calls, refs):
            while True:
                try:
                    results.append(ray.get(ref))
                    break
                except ShardLost as error:  # wait for the others before the shards go back
                    lost = error
                    break
                except (RayActorError, WorkerLost) as error:
                    self._note(worker, error)
                    self._revive(worker)
                    ref = self.actors.workers[worker].call.remote(method, *own)
        if lost is not None:
            raise ShardLost(str(lost.args[0] if lost.args else lost).splitlines()[-1])
        return [again(found) for found in results]

    def _note(self, worker: int, error: Exception) -> None:
        """Count a worker that died; give up after too many."""
        self.failures += 1
        if 0 <= self.max_failures < self.failures:
            message = f"worker {worker} died ({type(error).__name__}); gave up after {self.failures} failures"
            raise ClusterError(f"{message} (max_failures)") from None

    def ask_shards(self, method: str, arguments: Callable[[int], tuple[Any, ...]]) -> list[Any]:
        """See Group. A shard that was restarted is told its number before it loads a checkpoint or a model."""
        ray = import_ray()
        from ray.exceptions import RayActorError

        if method in ("load", "open_parts"):
            self._start_shards()
        shards = enumerate(self.actors.shards)
        refs = [shard.call.remote(method, *arguments(number)) for number, shard in shards]
        try:
            return [again(found) for found in ray.get(refs)]
        except RayActorError as error:
            raise ShardLost(f"a shard died ({type(error).__name__})") from None

    def close(self) -> None:
        """End the processes."""
        ray = import_ray()
        for actor in (*self.actors.workers, *self.actors.shards):
            ray.kill(actor)


def _until_alive(call: Callable[[], Any]) -> Any:
    """Call an actor; again as long as Ray is restarting it."""
    import ray
    from ray.exceptions import GetTimeoutError, RayActorError

    last: Exception | None = None
    for attempt in range(RETRIES):
        try:
            return ray.get(call(), timeout=START_SECONDS)
        except GetTimeoutError as error:
            last = error
            break
        except RayActorError as error:
            last = error
            time.sleep(PAUSE_SECONDS if attempt else 0)
    raise ClusterError(
        f"a process did not start ({type(last).__name__}); does the cluster have enough CPUs and memory?"
    )
