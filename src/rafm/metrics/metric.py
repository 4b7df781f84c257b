"""What a metric is: it takes in judged rows, batch by batch in bounded memory, and then has a value."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from ..losses.loss import Loss


class Judged(NamedTuple):
    """Rows with labels and scores, as they come; predictions and weights are float64."""

    labels: np.ndarray
    scores: np.ndarray
    predictions: np.ndarray
    weights: np.ndarray


class Metric:
    """Base of all metrics."""

    heading: ClassVar[str]  # of its column in the table of epochs
    is_rising: ClassVar[bool] = False  # the higher, the better

    def __init__(self, loss: Loss):
        self.loss = loss

    def add(self, rows: Judged) -> None:
        """Take rows in."""
        raise NotImplementedError

    def value(self) -> float | None:
        """Return the metric of all rows so far, None if they do not define it."""
        raise NotImplementedError


class Mean(Metric):
    """The weighted mean of something that each row has."""

    def __init__(self, loss: Loss):
        super().__init__(loss)
        self.total = self.weight = 0.0

    def of_rows(self, rows: Judged) -> np.ndarray:
        """Return what each row has."""
        raise NotImplementedError

    def finish(self, mean: float) -> float:
        """Turn the mean into the metric."""
        return mean

    def add(self, rows: Judged) -> None:
        self.total += float((self.of_rows(rows) * rows.weights).sum())
        self.weight += float(rows.weights.sum())

    def value(self) -> float | None:
        return self.finish(self.total / self.weight) if self.weight > 0 else None
