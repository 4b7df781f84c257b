"""Score files with a saved model on many workers, unit by unit and in input order.

Every worker holds a model file; a folder of parts is divided among shards, which workers ask for the features that they
need, as in training.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..errors import ClusterError, DataValueError, RafmError
from ..metrics.evaluation import Evaluation
from ..model.file import Saved, load
from ..model.folder import load_common, read_manifest
from ..options import resolve
from ..train.recipe import Recipe
from .capacity import SHARD_BYTES, WORKER_BYTES
from .config import FailureConfig, ScalingConfig
from .group import Group
from .inputs import Input, open_like
from .ray_group import Raised, again, connect, import_ray
from .reservations import check_room
from .shard import CURRENT
from .sources import Reader, Source
from .spec import ModelSpec, ShardLost
from .training import group_of

LOADED = 3  # bytes of memory for each byte of a model file: parameters, records, and the file while it is read
AHEAD = 2  # units per worker that are scored before they are taken


class Scored(NamedTuple):
    """Scores of a unit; labels and weights if they were asked for."""

    scores: np.ndarray
    labels: np.ndarray | None
    weights: np.ndarray | None


class Scorer:
    """Scores units with a model file, which every machine must be able to read."""

    def __init__(self, path: str, source: Source):
        self.model, self.reader = load(path).model, Reader(source)

    def score(self, unit: int, targets: bool) -> Scored:
        """Return the scores of a unit."""
        rows = self.reader.rows(unit, targets=targets)
        return Scored(self.model.scores(rows), rows.labels, rows.weights)


class _ScorerHost:
    """The actor of a scorer."""

    def __init__(self, path: str, source: Source):
        self.scorer = Scorer(path, source)

    def score(self, unit: int, targets: bool) -> Any:
        try:
            return self.scorer.score(unit, targets)
        except RafmError as error:
            return Raised(type(error).__name__, str(error))


def rows_for(saved: Saved, data: str) -> Source:
    """Return the rows of a path or URI for a saved model."""
    task = saved.model.loss.task
    classes = None if saved.classes is None else tuple(saved.classes)
    like = Input(Source((), (), 1, task, saved.encoder, classes), saved.encoder, saved.classes)
    return open_like(data, like, saved.index_base)


def score_units(path: str, source: Source, address: str, scaling: ScalingConfig, targets: bool) -> Iterator[Scored]:
    """Yield the scores of all units, in their order."""
    if os.path.isdir(path):
        yield from _score_by_parts(path, source, address, scaling, targets)
        return
    units = range(len(source.units))
    if not scaling.num_workers:
        scorer = Scorer(path, source)
        yield from (scorer.score(unit, targets) for unit in units)
        return
    is_started, ray = connect(address, scaling), import_ray()
    memory = scaling.memory_per_worker or int(SHARD_BYTES + LOADED * os.path.getsize(path))
    of_each = {"num_cpus": scaling.cpus_per_worker, "memory": memory, "max_restarts": -1, "max_task_retries": -1}
    actors: list[Any] = []
    waiting: deque[Any] = deque()
    try:
        if is_started:
            wanted = replace(scaling, memory_per_worker=memory, memory_per_shard=0)
            check_room(wanted, ray.available_resources().get("memory", 0.0), "this machine")
        host, shared = ray.remote(_ScorerHost).options(**of_each), ray.put(source)
        actors = [host.remote(path, shared) for _ in range(scaling.num_workers)]
        for unit in units:
            waiting.append(actors[unit % len(actors)].score.remote(unit, targets))
            if len(waiting) >= AHEAD * len(actors):
                yield again(ray.get(waiting.popleft()))
        while waiting:
            yield again(ray.get(waiting.popleft()))
    finally:
        for actor in actors:
            ray.kill(actor)
        if is_started:
            ray.shutdown()


@dataclass
class PartScorer:
    """Scores units by a folder of parts, which the shards of a group hold; reads it again if one of them dies."""

    group: Group
    path: str
    life: int = 0
    failures: int = 0
    is_open: bool = False

    def __post_init__(self) -> None:
        self.manifest, self.common = read_manifest(self.path), load_common(self.path).model

    def score(self, units: Sequence[int], targets: bool) -> list[Scored]:
        """Return the scores of one unit per worker."""
        found = self.common.parameters
        fields = None if found.fields is None else found.fields[None]
        while True:
            try:
                self._open()
                given = (CURRENT, float(found.bias[0]), fields, targets)
                calls = [(worker, "score", (self.life, 0, unit, *given)) for worker, unit in enumerate(units)]
                results = self.group.ask_workers(calls)
                return [Scored(scores, labels, weights if targets else None) for labels, scores, weights in results]
            except ShardLost as lost:
                self.is_open, self.failures = False, self.failures + 1
                if self.failures > FailureConfig().max_failures:
                    raise ClusterError(f"{lost}; gave up after {self.failures} failures") from None

    def _open(self) -> None:
        if self.is_open:
            return
        self.life += 1
        plan, names = self.common.plan, () if self.common.fields is None else self.common.fields.names
        options = Recipe.of(resolve(task=self.common.loss.task, model=plan.family, ranks=plan.ranks or None))
        names = names if plan.n_field_weights else ()
        spec = ModelSpec(options, self.life, 1.0, 1.0, 1.0, 1.0, 1, 1, False, names)
        self.group.ask_shards("open_parts", lambda _: (spec, os.path.abspath(self.path), self.manifest.parts))
        self.group.begin(spec)
        self.is_open = True


def _score_by_parts(path: str, source: Source, address: str, scaling: ScalingConfig, targets: bool) -> Iterator[Scored]:
    shard = int(SHARD_BYTES + LOADED * read_manifest(path).n_bytes / scaling.n_shards)
    of_each = {"memory_per_worker": int(WORKER_BYTES), "memory_per_shard": shard}
    of_each = {name: getattr(scaling, name) or usual for name, usual in of_each.items()}
    with group_of(address, replace(scaling, **of_each)) as group:
        group.start([source])
        scorer = PartScorer(group, path)
        for first in range(0, len(source.units), group.n_workers):
            for scored in scorer.score(range(first, min(first + group.n_workers, len(source.units))), targets):
                if not np.isfinite(scored.scores).all():
                    raise DataValueError("the score of a row is out of float32 range", path=source.files[0])
                yield scored


def evaluate(path: str, data: str, address: str = "local", scaling: ScalingConfig | None = None) -> dict[str, Any]:
    """Return what `rafm evaluate` reports, computed on a cluster."""
    saved = load_common(path)
    evaluation = Evaluation(saved.model.loss)
    for scores, labels, weights in score_units(path, rows_for(saved, data), address, scaling or ScalingConfig(), True):
        if labels is None:
            raise DataValueError("cannot evaluate without labels", path=data)
        with saved.naming_rows(evaluation.metrics.rows):
            saved.model.link(scores.astype(float))
        evaluation.add(labels, scores, np.ones(labels.size) if weights is None else weights)
    return evaluation.report()


def predict_scores(
    path: str, data: str, address: str = "local", scaling: ScalingConfig | None = None
) -> Iterator[np.ndarray]:
    """Yield the scores of a file's rows, computed on a cluster, in input order."""
    saved, row = load_common(path), 0
    for scored in score_units(path, rows_for(saved, data), address, scaling or ScalingConfig(), targets=False):
        scores = scored.scores.astype(float)
        with saved.naming_rows(row):
            saved.model.link(scores)
        yield scores
        row += scores.size
