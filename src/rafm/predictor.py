"""Score files with a saved model: raw rows -> encoder -> model -> predictions."""

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
from .read.open import ExtraColumns, ReadOptions, batches_of
from .read.tables import naming_file
from .rows.checked import CheckedRows
from .rows.classes import BinaryLabels

MOST_IDS = 1 << 20  # of a file, that are looked up to tell whether the model knows them


@dataclass(frozen=True)
class Predictor:
    """Scores files with a saved model."""

    saved: Saved

    @classmethod
    def load(cls, path: PathLike) -> Predictor:
        """Read a model file."""
        return cls(load(path))

    def with_label(self, label: str) -> Predictor:
        """Return a predictor that takes the labels of a table from this column."""
        encoder = self.saved.encoder
        if encoder is None:
            raise ConfigError("the model takes rows of ids, which include their labels", key="label")
        if any(column.name == label for column in encoder.columns):
            raise ConfigError(f"the model predicts from column {label!r}, so it cannot be the label", key="label")
        spec = replace(encoder.spec, label=label, clicks=None, impressions=None)
        return Predictor(replace(self.saved, encoder=replace(encoder, spec=spec)))

    def batches(
        self,
        path: PathLike,
        read_options: ReadOptions | None = None,
        index_base: int | None = None,
        targets: bool = True,
        coverage: Coverage | None = None,
        beside: ExtraColumns | None = None,
    ) -> Iterator[CheckedRows]:
        """Yield the checked rows of a file in batches of bounded size.

        read_options: options for reading; task and index base are those of the model. index_base: if given, must match.
        """
        trained = self.saved.index_base
        if index_base is not None and index_base != trained:
            raise ConfigError(f"the model was trained with index_base={trained}, not {index_base}", key="index_base")
        read_options = read_options or ReadOptions("binary")  # any task: the next line sets the model's
        labels = BinaryLabels.known(self.saved.classes)
        read_options = replace(read_options, task=self.saved.model.loss.task, index_base=trained, labels=labels)
        found = batches_of(path, read_options, self.saved.encoder, targets, coverage, beside)
        return found if coverage is None or self.saved.encoder is not None else self._looked_up(found, coverage)

    def _looked_up(self, batches: Iterator[CheckedRows], coverage: Coverage) -> Iterator[CheckedRows]:
        """Yield rows of ids, counting which of the first ones the model knows."""
        for batch in batches:
            if (n_left := MOST_IDS - coverage.n_ids) > 0:
                coverage.add_ids(self.saved.model.numbering.lookup(batch.indices[:n_left]) >= 0)
            yield batch

    def predict(
        self,
        path: PathLike,
        read_options: ReadOptions | None = None,
        index_base: int | None = None,
        coverage: Coverage | None = None,
    ) -> Iterator[np.ndarray]:
        """Yield the predictions for a file in batches, in input order; a table needs no label column.

        coverage: if given, counts the known and unseen values of a table, or known ids.
        """
        batches = self.batches(path, read_options, index_base, targets=False, coverage=coverage)
        yield from (predictions for _, _, predictions in self._scored(batches, path, read_options))

    def scores(
        self,
        path: PathLike,
        read_options: ReadOptions | None = None,
        index_base: int | None = None,
        coverage: Coverage | None = None,
        beside: ExtraColumns | None = None,
    ) -> Iterator[np.ndarray]:
        """Yield the scores of a file in batches, in input order; beside: takes further columns of a table."""
        batches = self.batches(path, read_options, index_base, False, coverage, beside)
        yield from (scores for _, scores, _ in self._scored(batches, path, read_options))

    def _scored(
        self, batches: Iterator[CheckedRows], path: PathLike, read_options: ReadOptions | None
    ) -> Iterator[tuple[CheckedRows, np.ndarray, np.ndarray]]:
        """Yield batches with their scores and predictions; errors name the file, the line or row, and the feature."""
        row, model = 0, self.saved.model
        format = (read_options or ReadOptions("binary")).find(path).format
        for batch in batches:
            with naming_file(path, format), self.saved.naming_rows(row):
                scores = model.scores(batch)
                predictions = model.link(scores.astype(float), batch)
            yield batch, scores.astype(float), predictions
            row += batch.n_rows

    def evaluate(
        self,
        path: PathLike,
        read_options: ReadOptions | None = None,
        index_base: int | None = None,
        coverage: Coverage | None = None,
    ) -> dict[str, Any]:
        """Return the number of rows in a file, the metrics of the task, and the calibration of the predictions.

        coverage: as in `predict`.
        """
        evaluation = Evaluation(self.saved.model.loss)
        batches = self.batches(path, read_options, index_base, coverage=coverage)
        for batch, scores, _ in self._scored(batches, path, read_options):
            if batch.labels is None:  # only a converted file can lack them; other readers have complained already
                raise DataValueError("cannot evaluate without labels", path=str(path))
            weights = np.ones(batch.n_rows) if batch.weights is None else batch.weights
            # scores, not predictions: log loss from scores is exact where a probability would round to 0 or 1
            evaluation.add(batch.labels, scores, weights)
        return evaluation.report()
