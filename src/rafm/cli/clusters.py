"""`rafm train --ray` and `rafm ray`."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files.terminal import counted
from ..flag_values import flag_name
from .arguments import Json, print_json, print_safely
from .groups import in_flags
from .outputs import check_output

if TYPE_CHECKING:
    from ..distributed.config import ScalingConfig
    from ..model.folder import Manifest

ray = typer.Typer(help="Plan training on a Ray cluster.", rich_markup_mode=None, no_args_is_help=True)
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help='Use a Ray cluster: "local" starts one here, "auto" or HOST:PORT joins one; "none": the same without Ray.',
    ),
]
Workers = Annotated[int, typer.Option(min=1, help="With --ray: processes that read rows. No effect on results.")]


@dataclass(frozen=True)
class RayFlags:
    """Address and size of a cluster."""

    ray: RayAddress = None
    workers: Workers = 2
    shards: Annotated[
        int | None, typer.Option(min=1, help="With --ray: processes that hold features (default: half the workers).")
    ] = None
    slots: Annotated[
        int, typer.Option(min=1, help="With --ray: parts of a step, divided among workers. Models depend on it.")
    ] = 8
    worker_memory: Annotated[
        float | None,
        typer.Option(metavar="MB", help="With --ray: memory that Ray reserves for each worker (default: 600)."),
    ] = None
    shard_memory: Annotated[
        float | None,
        typer.Option(metavar="MB", help="With --ray: memory that Ray reserves for each shard (default: estimated)."),
    ] = None

    def scaling(self) -> ScalingConfig:
        """Return number and size of processes; none for the address "none"."""
        found = scaling_of(self.ray, self.workers, self.shards)
        reserved = [None if one is None else int(one * 1e6) for one in (self.worker_memory, self.shard_memory)]
        return replace(found, memory_per_worker=reserved[0], memory_per_shard=reserved[1])


def scaling_of(address: str | None, workers: int, shards: int | None = None) -> ScalingConfig:
    """Return the number of processes."""
    from ..distributed.config import ScalingConfig

    return ScalingConfig(0 if address == "none" else workers, shards)


def check_ray_flags(address: str | None, given: set[str]) -> None:
    """Reject flags of a cluster without one."""
    from ..errors import ConfigError

    for name in ("workers", "shards", "slots", "worker_memory", "shard_memory"):
        if address is None and name in given:
            raise ConfigError(f"{flag_name(name)} is for a cluster: add --ray, or use --threads", key=name)


def check_cluster_flags(address: str, data: str, files: Any, given: set[str]) -> None:
    """Reject options and formats that training on a cluster has no use for."""
    from ..distributed.config import check_address
    from ..errors import ConfigError
    from ..read.formats import FORMATS

    check_address(address)
    for name in ("resume_from", "replan", "memory", "spill", "duplicates", "threads", "fields"):
        if name in given:
            raise ConfigError(f"{flag_name(name)} cannot be combined with --ray: drop it", key=name)
    if "://" in data:
        return
    found = files.find(data).format
    if found not in ("parquet", "arrow"):
        raise ConfigError(
            f"--ray reads Parquet and Arrow, but {data} is {FORMATS[found].name}: rafm convert {data} OUT.arrow",
            key="format",
        )


def is_folder(out: str) -> bool:
    """Return whether a model is to be written as a folder of parts."""
    return out.endswith(("/", os.sep)) or os.path.isdir(out)


def check_model_output(out: str, address: str | None) -> None:
    """Reject a model's path that cannot be written; a folder is checked when its shards are known to write it."""
    from ..errors import ConfigError

    if address is None and is_folder(out) and not os.path.isdir(out):
        raise ConfigError(f"{out}: folders are written with --ray; give a file name, or add --ray none", key="out")
    if address is None or not is_folder(out):
        check_output(out)


def train_on_cluster(
    data: str,
    valid: str | None,
    options: Any,
    files: Any,
    flags: RayFlags,
    running: Any,
    stream: Any,
    log: Any,
    folder: str | None = None,
) -> tuple[Any, Any, Manifest | None]:
    """Train on a cluster, showing progress; return the last event, the rows trained on, and the parts of a folder."""
    from ..distributed.config import RunConfig
    from ..distributed.export import FolderExport
    from ..distributed.inputs import check_options, open_training
    from ..distributed.training import train_events
    from ..model.folder import begin_folder
    from ..rows.classes import BinaryLabels
    from ..train.event_log import log_events
    from ..train.progress import show_events

    report = print_safely(stream)
    check_options(options)
    given = open_training(data, files, report)
    if options.loss.is_classification and (line := BinaryLabels.known(given.classes).describe()):
        report(line)
    kept, export = RunConfig(running.checkpoint, running.checkpoint_seconds), None
    if folder is not None:
        begin_folder(folder)  # before training: it may be refused
        classes = given.classes if options.loss.is_classification else None
        export = FolderExport(os.path.abspath(folder), given.encoder, classes, files.index_base)
    where = (str(flags.ray), flags.slots, flags.scaling(), kept)
    events = train_events(given, options, valid, *where, export=export)
    for event in show_events(log_events(events, log), options, stream=stream, spell=in_flags):
        last = event
    return last, given, None if export is None else export.written


@ray.command(epilog="Add --debug to see where an error came from.")
def plan(
    rows: Annotated[float, typer.Option(help="Training rows.")] = 1.7e9,
    features: Annotated[float, typer.Option(help="Distinct features.")] = 120e6,
    nonzeros: Annotated[float, typer.Option(help="Nonzeros per row.")] = 39,
    zipf: Annotated[float, typer.Option(help="Zipf exponent of feature frequencies.")] = 1.05,
    data: Annotated[
        str | None, typer.Option(metavar="DATA", help="Take rows, features and counts from these data instead.")
    ] = None,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="Tables: label column.")] = None,
    model: Annotated[str, typer.Option(help="Model family.")] = "rafm",
    ranks: Annotated[str, typer.Option(help="Increasing ranks.")] = "1,2,4,8",
    rank_scale: Annotated[float | None, typer.Option(help="See `rafm train`.")] = None,
    optimizer: Annotated[str, typer.Option(help="Optimiser.")] = "ftrl",
    step_rows: Annotated[int, typer.Option(help="Rows per step.")] = 65536,
    slots: Annotated[int, typer.Option(help="Slots per step.")] = 64,
    machines: Annotated[int, typer.Option(min=1, help="Largest number of machines to show.")] = 64,
    cores: Annotated[int, typer.Option(min=1, help="Cores per machine.")] = 16,
    network: Annotated[float, typer.Option(help="Network bandwidth per machine in Gbit/s.")] = 25.0,
    speed: Annotated[
        float, typer.Option(help="Rows per second and core; measure yours with benchmarks/bench_ray.py.")
    ] = 20000.0,
    json: Json = False,
) -> None:
    """Estimate memory, traffic and time of training on a cluster.

    Prints one line for 1, 2, 4, ... machines; nothing is started. Memory and traffic follow from counts; the time is
    estimated from the speed of a core and of the network.
    """
    from ..distributed.capacity import Cluster, capacity, counts_of_data, zipf_counts
    from ..options import resolve

    counts = zipf_counts(rows, features, nonzeros, zipf) if data is None else counts_of_data(data, label)
    wanted = None if model == "lr" else tuple(int(rank) for rank in ranks.split(","))
    options = resolve(task="binary", model=model, ranks=wanted, rank_scale=rank_scale, optimizer=optimizer)
    found = capacity(counts, options, step_rows, slots, Cluster(machines, cores, network, speed))
    print_json(found) if json else _print_plan(found)


def _print_plan(found: dict[str, Any]) -> None:
    print(", ".join(counted(found[f"{noun}s"], noun, ",.0f") for noun in ("row", "feature", "parameter")))
    print(f"features in a slot of {found['slot_rows']:,} rows: {found['features_per_slot']:,.0f}")
    print(
        f"bytes per row: {found['pulled']:.0f} pulled, {found['pushed']:.0f} pushed, {found['looked_up']:.0f} looked up"
    )
    print("machines   memory per machine   network per machine   hours per epoch   bound by")
    for line in found["machines"]:
        print(
            f"{line['machines']:8d} {line['gigabytes']:17.1f} GB {line['megabytes_per_second']:14.0f} MB/s "
            f"{line['hours']:17.2f}   {line['bound']}"
        )
