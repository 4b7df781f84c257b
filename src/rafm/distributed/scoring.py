"""Score files with a saved model on many workers, unit by unit and in input order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..errors import DataValueError, RafmError
from ..metrics.evaluation import Evaluation
from ..model.file import Saved, load
from .config import ScalingConfig
from .inputs import Input, open_like
from .ray_group import Raised, again, connect, import_ray
from .sources import Reader, Source

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
    units = range(len(source.units))
    if not scaling.num_workers:
        scorer = Scorer(path, source)
        yield from (scorer.score(unit, targets) for unit in units)
        return
    is_started, ray = connect(address, scaling), import_ray()
    host = ray.remote(_ScorerHost).options(num_cpus=scaling.cpus_per_worker, max_restarts=-1, max_task_retries=-1)
    shared = ray.put(source)
    actors = [host.remote(path, shared) for _ in range(scaling.num_workers)]
    waiting: deque[Any] = deque()
    try:
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


def evaluate(path: str, data: str, address: str = "local", scaling: ScalingConfig | None = None) -> dict[str, Any]:
    """Return what `rafm evaluate` reports, computed on a cluster."""
    saved = load(path)
    evaluation = Evaluation(saved.model.loss)
    for scores, labels, weights in score_units(path, rows_for(saved, data), address, scaling or ScalingConfig(), True):
        if labels is None:
            raise DataValueError("cannot evaluate without labels", path=data)
        evaluation.add(labels, scores, np.ones(labels.size) if weights is None else weights)
    return evaluation.report()


def predict_scores(
    path: str, data: str, address: str = "local", scaling: ScalingConfig | None = None
) -> Iterator[np.ndarray]:
    """Yield the scores of a file's rows, computed on a cluster, in input order."""
    source = rows_for(load(path), data)
    for scored in score_units(path, source, address, scaling or ScalingConfig(), targets=False):
        yield scored.scores.astype(float)
