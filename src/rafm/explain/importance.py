"""Importance of columns: how much the loss rises when a column's values are permuted among the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError, DataValueError
from ..metrics import metric_class
from ..metrics.evaluation import check_rows_alone, with_predictions
from ..metrics.metric import Mean
from ..model.model import Model
from ..rows.checked import Batch, CheckedRows, check_batch
from .names import FeatureNames

MOST_COLUMNS = 100  # examined by default, the most frequent ones


@dataclass(frozen=True)
class Importance:
    """Importance of one column.

    Parameters
    ----------
    column : str
        Name of the column.
    importance : float
        Rise of the mean loss of a row (for RMSE, of the mean squared error) when the column is permuted.
    standard_error : float
        Standard error of that mean over rows; each row's rise is averaged over the repeats.
    """

    column: str
    importance: float
    standard_error: float


def measure_importance(
    model: Model,
    batch: CheckedRows,
    names: FeatureNames,
    columns: Sequence[str] | None = None,
    repeats: int = 5,
    seed: int = 0,
    threads: int = 1,
) -> list[Importance]:
    """Return the importance of columns on labelled rows, most important first.

    columns: by default all that occur in the rows, but at most the 100 most frequent.
    """
    if batch.labels is None or batch.n_rows < 2:
        raise DataValueError("importance needs at least two labelled rows")
    check_rows_alone(model.loss)
    column_of = names.columns_of(batch.indices)
    known = column_of[column_of < len(names.players)]  # ids beyond those of training add nothing
    chosen = frequent_columns(known) if columns is None else [*_places(columns, names)]
    before = row_losses(model, batch)
    weights = np.ones(batch.n_rows) if batch.weights is None else batch.weights.astype(float)

    def measure(place: int) -> Importance:
        draw = np.random.default_rng((seed, place))  # by column, so that the order of threads does not matter
        rises = [
            row_losses(model, permute_column(batch, column_of == place, draw.permutation(batch.n_rows))) - before
            for _ in range(repeats)
        ]
        return Importance(names.players[place], *_mean_and_error(np.mean(rises, axis=0), weights))

    with ThreadPoolExecutor(threads, "rafm") as pool:
        found = [*pool.map(measure, chosen)]
    return sorted(found, key=lambda one: (-one.importance, one.column))


def frequent_columns(column_of: np.ndarray) -> list[int]:
    """Return the columns of these entries, most frequent first, at most 100."""
    places, counts = np.unique(column_of, return_counts=True)
    return places[np.argsort(-counts, kind="stable")][:MOST_COLUMNS].tolist()


def _places(columns: Sequence[str], names: FeatureNames) -> Iterator[int]:
    places = {name: place for place, name in enumerate(names.players)}
    for column in columns:
        if column not in places:
            raise ConfigError(f"no column {column!r}; the columns are {', '.join([*places][:20])}", key="columns")
        yield places[column]


def row_losses(model: Model, batch: CheckedRows) -> np.ndarray:
    """Return the loss of each row: what the mean of the loss's first metric sums up."""
    metric = metric_class(model.loss.metrics[0])(model.loss)
    assert isinstance(metric, Mean)
    assert batch.labels is not None
    return metric.of_rows(with_predictions(model.loss, batch.labels, model.scores(batch), np.ones(batch.n_rows)))


def permute_column(batch: CheckedRows, of_column: np.ndarray, order: np.ndarray) -> CheckedRows:
    """Return the rows with row r's entries of a column replaced by those of row order[r]."""
    row_of = np.repeat(np.arange(batch.n_rows), np.diff(batch.indptr))
    receivers = np.empty_like(order)
    receivers[order] = np.arange(order.size)
    row_of[of_column] = receivers[row_of[of_column]]
    entries = np.argsort(row_of, kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=batch.n_rows))])
    columns = batch.n_features, batch.labels, batch.weights
    return check_batch(Batch(indptr, batch.indices[entries], batch.values[entries], *columns))


def _mean_and_error(rises: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return the weighted mean and its standard error."""
    mean = float(np.average(rises, weights=weights))
    shares = weights / weights.sum()
    return mean, float(np.sqrt((shares**2 * (rises - mean) ** 2).sum()))
