"""Base classes of metrics: rows are added batch by batch in bounded memory."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from ..losses.loss import Loss


class ScoredRows(NamedTuple):
    """Labels and scores of rows as given; predictions and weights are float64."""

    labels: np.ndarray
    scores: np.ndarray
    predictions: np.ndarray
    weights: np.ndarray


class Metric:
    """Base class of all metrics."""

    heading: ClassVar[str]  # column heading in the table of epochs
    is_rising: ClassVar[bool] = False  # whether higher is better

    def __init__(self, loss: Loss):
        self.loss = loss

    def add(self, rows: ScoredRows) -> None:
        """Add rows."""
        raise NotImplementedError

    def value(self) -> float | None:
        """Return the metric of all rows so far, None if it is undefined for them."""
        raise NotImplementedError


class Mean(Metric):
    """A weighted mean over rows."""

    def __init__(self, loss: Loss):
        super().__init__(loss)
        self.total = self.weight = 0.0

    def of_rows(self, rows: ScoredRows) -> np.ndarray:
        """Return the value of each row."""
        raise NotImplementedError

    def finish(self, mean: float) -> float:
        """Convert the mean to the metric."""
        return mean

    def add(self, rows: ScoredRows) -> None:
        self.total += float((self.of_rows(rows) * rows.weights).sum())
        self.weight += float(rows.weights.sum())

    def value(self) -> float | None:
        return self.finish(self.total / self.weight) if self.weight > 0 else None
