"""Execute tasks in a pool of single-threaded processes, and store their results."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rafm.checks import effective
from rafm.errors import ConfigError
from rafm.families import family_of
from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train.dispatch import train_model

from ..datasets.prepared import digest, part_paths
from .store import Store, key_of
from .tasks import Result, execute, warm_up

Task = dict[str, Any]
PINNED = {"averaging": False, "init_scale": 0.01, "learning_rate": 0.2, "l2": 0.005, "rank_scale": 1.0}


Cases = tuple[tuple[str, dict[str, Any]], ...]  # models and options
CASES: Cases = (
    ("fm", {"ranks": 8}),
    ("rafm", {}),
    ("rafm", {"update": "algorithm1"}),
    ("difacto", {}),
    ("mrma", {}),
)
FIELD_AWARE_CASES: Cases = (("ffm", {"ranks": 4}),)  # apart, so that keys of other models stay what they were


def behaviour(cases: Cases = CASES) -> str:
    """Return a fingerprint of the training algorithm: losses of tiny runs, rounded to five digits.

    It is part of every key, so that results of versions that train differently are not mixed.
    """
    draw = np.random.default_rng(0)
    users, items = draw.integers(0, 40, 3000) ** 2 // 40, 40 + draw.integers(0, 30, 3000)
    labels = ((users + items) % 3 == 0).astype(np.float32)
    indices = np.stack([users, items], axis=1).ravel()
    rows = check_batch(Batch(np.arange(0, 6001, 2), indices, np.ones(6000, np.float32), 70, labels))
    fields, losses = Fields.of_ranges(("user", "item"), (0, 40, 70)), []
    for model, more in cases:
        settings = {"model": model, "n_epochs": 3, "ranks": (2, 8, 32), **PINNED, **more}  # not the defaults of today
        source = InMemory(rows, fields) if family_of(model).has_field_vectors else rows
        model_of = train_model(source, resolve(task="binary", **effective(settings)), rows)
        losses.append(round(model_of.history[-1]["valid_log_loss"], 5))
    return key_of(losses)


class NotStored(ConfigError):
    """A result is not in the store, and nothing may be run."""


class Lab:
    """Executes tasks that are not in the store yet, and stores their results; if `stored`, it executes none.

    execute: what executes a task in this process, if there is one worker.
    """

    def __init__(
        self,
        folder: Path,
        store: Store,
        workers: int = 1,
        tell: Callable[[str], Any] = print,
        stored: bool = False,
        execute: Callable[[Task, Path], Result] = execute,
    ):
        self.execute = execute
        self.folder, self.store, self.workers, self.tell, self.stored = folder, store, workers, tell, stored
        self.data: dict[str, list[str]] = {}
        self.pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Lab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is not None:
            self.pool.shutdown(wait=True, cancel_futures=True)

    @cached_property
    def engine(self) -> str:
        return behaviour()

    @cached_property
    def field_aware_engine(self) -> str:
        return behaviour(FIELD_AWARE_CASES)

    def key(self, task: Task) -> str:
        """Return the key of a task: its parameters, the digests of its data, and the engine's fingerprint."""
        name = task.get("data")
        if name is not None and name not in self.data:
            self.data[name] = [digest(path) for path in part_paths(self.folder, name)]
        is_field_aware = "model" in task and family_of(task["model"]).has_field_vectors
        engine = self.field_aware_engine if is_field_aware else self.engine
        return key_of(engine, task, self.data.get(name or "", []))

    def results(self, tasks: Sequence[Task]) -> list[Result]:
        """Return the results of tasks in order, after executing those that are missing."""
        keys = [self.key(task) for task in tasks]  # equal tasks have one key and are executed once
        missing = {key: task for key, task in zip(keys, tasks) if key not in self.store}
        if missing and self.stored:
            raise NotStored(f"{len(missing)} runs are not stored; run them without --stored", key="stored")
        if missing:
            self._do(missing)
        return [self.store[key] for key in keys]

    def _do(self, missing: dict[str, Task]) -> None:
        if self.workers == 1:
            for done, (key, task) in enumerate(missing.items(), start=1):
                self._keep(key, task, self.execute(task, self.folder), f"{done}/{len(missing)}")
            return
        running = {self._pool().submit(execute, task, self.folder): key for key, task in missing.items()}
        done = 0
        waiting: set[Future[Result]] = set(running)
        while waiting:
            finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in finished:
                done += 1
                self._keep(running[future], missing[running[future]], future.result(), f"{done}/{len(missing)}")

    def _keep(self, key: str, task: Task, result: Result, progress: str) -> None:
        self.store.add(key, task, result)
        shown = {
            name: value
            for name, value in task.items()
            if name not in ("kind", "epochs", "patience") and value is not None
        }
        text = " ".join(f"{name}={value}" for name, value in shown.items())
        valid = result.get("valid")
        self.tell(f"[{progress}] {task['kind']} {text}" + (f": {valid:.5f}" if isinstance(valid, float) else ""))

    def _pool(self) -> ProcessPoolExecutor:
        """Start the workers on first use; each uses one thread."""
        if self.pool is None:
            os.environ.setdefault("NUMBA_NUM_THREADS", "1")
            context = multiprocessing.get_context("spawn")  # forking is unsafe once there are threads
            self.pool = ProcessPoolExecutor(self.workers, context, initializer=warm_up)
        return self.pool
