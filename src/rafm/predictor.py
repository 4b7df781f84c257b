"""Encoder and model together: raw rows -> predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .batch import Batch, check_batch
from .data import open_rows
from .errors import ConfigError
from .files import PathLike
from .metrics import evaluate
from .storage import Saved, load


@dataclass(frozen=True)
class Predictor:
    """Scores files with a saved model."""

    saved: Saved

    @classmethod
    def load(cls, path: PathLike) -> Predictor:
        """Read a model file."""
        return cls(load(path))

    def batches(self, path: PathLike, index_base: int | None = None, **options: Any) -> Iterator[Batch]:
        """Yield the rows of a file, checked, in pieces of bounded size; ids count from where they did in training."""
        trained = self.saved.index_base
        if index_base is not None and index_base != trained:
            raise ConfigError(
                f"the model was trained on ids that count from {trained}, not from {index_base}", key="index_base"
            )
        task = self.saved.model.loss.task
        for rows in open_rows(path, task=task, index_base=trained, **options):
            yield check_batch(rows)

    def predict(self, path: PathLike, **options: Any) -> Iterator[np.ndarray]:
        """Yield the predictions of a file's rows, in input order."""
        for batch in self.batches(path, **options):
            yield self.saved.model.predict(batch)

    def evaluate(self, path: PathLike, **options: Any) -> dict[str, Any]:
        """Return the number of rows of a file and the metrics of the task."""
        labels, scores = [np.zeros(0, np.float32)], [np.zeros(0, np.float32)]
        for batch in self.batches(path, **options):
            labels.append(batch.labels if batch.labels is not None else np.zeros(0, np.float32))
            scores.append(self.saved.model.scores(batch))
        truth, found = np.concatenate(labels), np.concatenate(scores)
        if not truth.size:
            return {"rows": 0}
        return {"rows": truth.size, **evaluate(self.saved.model.loss, truth, found, np.ones(truth.size))}
