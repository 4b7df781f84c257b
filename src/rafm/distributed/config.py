"""Settings of a training on a cluster, in the idiom of Ray Train: how large, where results go, what may fail."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec

from ..errors import ConfigError

INSTALL = "a cluster needs Ray: pip install '.[ray]' in a checkout of rafm"


@dataclass(frozen=True)
class ScalingConfig:
    """Number and size of the processes. Models are bit-identical for any values.

    Parameters
    ----------
    num_workers : int, default=2
        Processes that read rows and compute gradients; 0 trains in this process, without Ray.
    num_shards : int, default=None
        Processes that hold features; one per two workers by default.
    cpus_per_worker, cpus_per_shard : float, default=1.0 and 0.5
        CPUs that Ray reserves for each.
    memory_per_worker, memory_per_shard : int, default=None
        Bytes of memory that Ray reserves for each; by default 600 MB, and what `rafm ray plan` computes, from counts
        of features in some of the rows.
    """

    num_workers: int = 2
    num_shards: int | None = None
    cpus_per_worker: float = 1.0
    cpus_per_shard: float = 0.5
    memory_per_worker: int | None = None
    memory_per_shard: int | None = None

    def __post_init__(self) -> None:
        if self.num_workers < 0 or (self.num_shards is not None and not 1 <= self.num_shards <= 1024):
            raise ConfigError(
                f"num_workers must be at least 0 and num_shards between 1 and 1024, found {self.num_workers} and "
                f"{self.num_shards}",
                key="ray",
            )

    @property
    def n_shards(self) -> int:
        return max(1, -(-self.num_workers // 2)) if self.num_shards is None else self.num_shards


def check_address(address: str) -> None:
    """Refuse the client protocol of Ray, and any cluster if Ray is not installed; before anything is read."""
    if address.startswith("ray://"):
        raise ConfigError(
            f"{address}: the client protocol of Ray is not supported, as every call would pass through one process. "
            "Run the command on a machine of the cluster with --ray auto",
            key="ray",
        )
    if address != "none" and find_spec("ray") is None:
        raise ConfigError(INSTALL, key="ray")


@dataclass(frozen=True)
class FailureConfig:
    """How many failures to tolerate.

    Parameters
    ----------
    max_failures : int, default=3
        Processes that may die before training gives up; -1 for any number.
    """

    max_failures: int = 3


@dataclass(frozen=True)
class RunConfig:
    """Where checkpoints go.

    Parameters
    ----------
    storage_path : str, default=None
        Directory for checkpoints, which all machines must share. The same call resumes from it.
    checkpoint_seconds : float, default=60.0
        Minimum time between two checkpoints within an epoch.
    failure_config : FailureConfig
        How many failures to tolerate.
    sharded_model : bool, default=False
        Write the model as a folder of parts, by the processes that hold its features, instead of one file.
    """

    storage_path: str | None = None
    checkpoint_seconds: float = 60.0
    failure_config: FailureConfig = field(default_factory=FailureConfig)
    sharded_model: bool = False
