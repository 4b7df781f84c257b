"""Train on a cluster: join or start one, train, and write a model that one process can load."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import ConfigError
from ..files.lock import lock_file
from ..model.file import Saved, save
from ..model.folder import begin_folder
from ..options import Options, resolve
from ..read.open import ReadOptions
from ..rows.classes import BinaryLabels
from ..train.checkpoint import plain_value
from ..train.events import Event, Finished
from ..version import __version__
from .config import RunConfig, ScalingConfig, check_address
from .export import FolderExport, gather_model
from .group import Group, LocalGroup
from .inputs import Input, check_options, choose_units, open_like, open_training
from .manifest import Checkpoints
from .planning import SLOTS, plan_slots
from .reservations import check_room, with_reservations
from .run import ClusterJob, ClusterRun
from .spec import Hook, no_hook

MODEL_FILE, MODEL_FOLDER = "model.rafm", "model"


@dataclass(frozen=True)
class Result:
    """Results of a training run.

    Attributes
    ----------
    checkpoint : str
        Path of the model file or folder; `rafm.load` opens it.
    path : str
        The directory that it is in.
    metrics : dict
        Those of the best epoch.
    history : list of dict
        One entry per epoch.
    """

    checkpoint: str
    path: str
    metrics: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


def train(
    data: str,
    *,
    valid: str | None = None,
    task: str = "binary",
    label: str | None = None,
    address: str = "local",
    slots: int = SLOTS,
    scaling_config: ScalingConfig | None = None,
    run_config: RunConfig | None = None,
    callback: Callable[[Event], Any] | None = None,
    **options: Any,
) -> Result:
    """Train a model on a Ray cluster and write it to `storage_path`/model.rafm, or by parts to `storage_path`/model.

    Parameters
    ----------
    data : str
        Parquet or Arrow IPC: a file, a directory, a pattern, or a URI such as s3://bucket/folder.
    valid : str, default=None
        Validation rows, used to choose the best epoch. Without them a share of the units of `data` is held out.
    task : str, default="binary"
        Kind of labels.
    label : str, default=None
        Label column of a table.
    address : str, default="local"
        "local" starts a cluster on this machine; "auto" or HOST:PORT joins one.
    slots : int, default=8
        Parts of a step that workers share. Unlike the number of workers it is part of what a model depends on.
    scaling_config : ScalingConfig, default=None
        Number and size of processes.
    run_config : RunConfig, default=None
        Where checkpoints and the model go, and what may fail.
    callback : callable, default=None
        Called with every event.
    **options
        Training options, as those of `rafm train`: ranks, optimizer, n_epochs, ...
    """
    from ..encode.spec import TableSpec

    run_config, scaling_config = run_config or RunConfig(), scaling_config or ScalingConfig()
    if scaling_config.num_workers:
        check_address(address)
    if run_config.storage_path is None:
        raise ConfigError("run_config needs a storage_path, the directory for checkpoints and the model", key="ray")
    chosen = resolve(task=task, **options)
    check_options(chosen)
    spec = None if label is None else TableSpec.from_arguments((), label=label)
    files = ReadOptions(chosen.loss.task, spec=spec, labels=BinaryLabels())
    given = open_training(data, files)
    classes = given.classes if chosen.loss.is_classification else None
    os.makedirs(run_config.storage_path, exist_ok=True)
    path = os.path.join(run_config.storage_path, MODEL_FOLDER if run_config.sharded_model else MODEL_FILE)
    export = FolderExport(os.path.abspath(path), given.encoder, classes) if run_config.sharded_model else None
    if export is not None:
        begin_folder(path)  # before training: it may be refused
    for event in train_events(given, chosen, valid, address, slots, scaling_config, run_config, export=export):
        if callback is not None:
            callback(event)
    assert isinstance(event, Finished)
    if export is None:
        save(path, Saved(event.model, given.encoder, 0, classes))
    best = next((entry for entry in event.model.history if entry["epoch"] == event.model.best_epoch), {})
    return Result(path, run_config.storage_path, best, event.model.history)


def train_events(
    given: Input,
    options: Options,
    valid: str | None = None,
    address: str = "local",
    slots: int = SLOTS,
    scaling: ScalingConfig | None = None,
    run_config: RunConfig | None = None,
    hook: Hook = no_hook,
    group: Group | None = None,
    export: FolderExport | None = None,
) -> Iterator[Event]:
    """Train on opened rows, yielding events; the last one holds the model. See `train`.

    group: processes that are running already, which are left running; by default they are started for this training.
    export: lets the shards write the model; then that of the last event is without its features.
    """
    scaling, run_config = scaling or ScalingConfig(), run_config or RunConfig()
    check_options(options)
    if not 1 <= slots <= 1024:
        raise ConfigError(f"slots must be between 1 and 1024, found {slots}", key="ray")
    held_out = None if valid is None else open_like(valid, given)
    chosen, held = choose_units(given.source, options, valid is not None)
    n_rows = sum(given.source.units[unit].rows for unit in chosen)
    plan = plan_slots(options, n_rows, slots)
    storage = run_config.storage_path
    failures = run_config.failure_config.max_failures
    if group is None:
        scaling = with_reservations(scaling, given.source, chosen, options, given.n_inputs)
    processes = group_of(address, scaling, failures, hook) if group is None else nullcontext(group)
    with processes as ready, _storage(storage, address, scaling) as folder:
        states = None if folder is None else Checkpoints(folder, identity(given, options, valid, slots))
        seconds = run_config.checkpoint_seconds
        job = ClusterJob(
            given.source, options, plan, chosen, held, held_out, given.n_inputs, states, seconds, failures, hook
        )
        yield from ClusterRun(ready, replace(job, collect=export or gather_model)).events()


def identity(given: Input, options: Options, valid: str | None, slots: int) -> dict[str, Any]:
    """Return what determines the result of a run, under names that messages can show."""
    chosen = {name: plain_value(value) for name, value in options.identity().items()}
    source = given.source
    rows = {
        "training rows": source.n_rows,
        "files": len(source.files),
        "row groups": len({u[:2] for u in source.units}),
    }
    return {"rafm": __version__, **chosen, **rows, "validation rows": valid, "slots": slots}


@contextmanager
def _storage(path: str | None, address: str, scaling: ScalingConfig) -> Iterator[str | None]:
    """Return the folder of checkpoints; here a temporary one will do, but shards elsewhere could not reach it."""
    if path is not None:
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "lock"), "ab") as lock:
            lock_file(lock.fileno(), f"{path}: another run is writing its checkpoints here. Use another directory.")
            yield path
        return
    if address != "local" or not scaling.num_workers:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="rafm-") as folder:
        yield folder


@contextmanager
def group_of(address: str, scaling: ScalingConfig, max_failures: int = 3, hook: Hook = no_hook) -> Iterator[Group]:
    """Return the processes, in this one if there are no workers."""
    if not scaling.num_workers:
        local = LocalGroup(scaling.n_shards, hook)
        yield local
        local.close()
        return
    from .ray_group import RayGroup, connect, import_ray, make_actors

    is_started, group = connect(address, scaling), None
    try:
        if is_started:
            check_room(scaling, import_ray().available_resources().get("memory", 0.0), "this machine")
        group = RayGroup(make_actors(scaling), max_failures, hook)
        yield group
    finally:
        if group is not None:
            group.close()
        if is_started:
            import_ray().shutdown()
