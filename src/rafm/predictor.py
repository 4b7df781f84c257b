"""Encoder and model together: raw rows -> predictions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .encode.coverage import Coverage
from .errors import ConfigError, DataValueError
from .files.atomic import PathLike
from .metrics.evaluation import Evaluation
from .model.file import Saved, load
from .read.open import Opening, batches_of
from .rows.checked import CheckedRows


@dataclass(frozen=True)
class Predictor:
    """Scores files with a saved model."""

    saved: Saved

    @classmethod
    def load(cls, path: PathLike) -> Predictor:
        """Read a model file."""
        return cls(load(path))

    def batches(
        self,
        path: PathLike,
        opening: Opening | None = None,
        index_base: int | None = None,
        targets: bool = True,
        coverage: Coverage | None = None,
    ) -> Iterator[CheckedRows]:
        """Yield the rows of a file, checked, in pieces of bounded size; ids count from where they did in training.

        opening: how the file is to be read; the model knows its task.
        """
        trained = self.saved.index_base
        if index_base is not None and index_base != trained:
            raise ConfigError(
                f"the model was trained on ids that count from {trained}, not from {index_base}", key="index_base"
            )
        opening = opening or Opening("binary")
        opening = replace(opening, task=self.saved.model.loss.task, index_base=trained)
        return batches_of(path, opening, self.saved.encoder, targets, coverage)

    def predict(
        self,
        path: PathLike,
        opening: Opening | None = None,
        index_base: int | None = None,
        coverage: Coverage | None = None,
    ) -> Iterator[np.ndarray]:
        """Yield the predictions of a file's rows, in input order; tables need no labels.

        coverage: where values of tables are counted that training has seen or not.
        """
        for batch in self.batches(path, opening, index_base, targets=False, coverage=coverage):
            yield self.saved.model.predict(batch)

    def evaluate(
        self,
        path: PathLike,
        opening: Opening | None = None,
        index_base: int | None = None,
        coverage: Coverage | None = None,
    ) -> dict[str, Any]:
        """Return the number of rows of a file, the metrics of the task, and how well predictions are calibrated.

        coverage is filled as in `predict`.
        """
        evaluation = Evaluation(self.saved.model.loss)
        for batch in self.batches(path, opening, index_base, coverage=coverage):
            if batch.labels is None:
                raise DataValueError("there are no labels to compare with", path=str(path))
            weights = np.ones(batch.n_rows) if batch.weights is None else batch.weights
            evaluation.add(batch.labels, self.saved.model.scores(batch), weights)
        return evaluation.report()
