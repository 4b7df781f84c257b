"""Shapley values of columns, exact: a score is a sum over single columns and pairs of columns.

With row x, background row b and f the score, let W_A be the terms within column A and F_AB those between A and B. The
game in which a set of columns comes from x and the others from b has the Shapley values

    phi_A = W_A(x) - W_A(b) + 1/2 sum_B [F_AB(x,x) + F_AB(x,b) - F_AB(b,x) - F_AB(b,b)]

and a background of several rows their mean. F is linear in b, so the mixed terms need the mean row only; F_AB(b,b) does
not depend on x and is averaged once. Without a background, phi_A is the linear term plus half of the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError
from ..model.model import Model
from ..model.pairs import pair_products
from ..rows.checked import CheckedRows
from ..rows.numbering import number_rows
from .names import FeatureNames


@dataclass(frozen=True)
class ShapleyValues:
    """Shapley values of rows.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        What each column adds to the score of each row.
    base : float
        Mean score of the background, or the bias without one; base and values of a row add up to its score.
    columns : list of str
        Names of the columns.
    """

    values: np.ndarray
    base: float
    columns: list[str]


@dataclass(frozen=True)
class _Entries:
    """Known features of one row: numbers, values and columns."""

    numbers: np.ndarray
    values: np.ndarray
    columns: np.ndarray


class _Game:
    """Sums of terms by column, for one model and background."""

    def __init__(self, model: Model, names: FeatureNames, background: CheckedRows | None):
        self.model, self.names, self.n_columns = model, names, len(names.players)
        self.own_mean = np.zeros(self.n_columns)  # mean of W_A(b) + 1/2 sum_B F_AB(b, b)
        self.mean = _Entries(*np.empty((3, 0), np.int64))
        if background is not None and background.n_rows:
            rows = [*self.entries(background)]
            self.own_mean = np.mean([self.own(row) for row in rows], axis=0)
            self.mean = self.mean_row(rows)

    def entries(self, batch: CheckedRows) -> list[_Entries]:
        """Return the known features of each row."""
        rows = number_rows(batch, self.model.numbering)
        columns = self.names.columns_of(self.model.numbering.ids[rows.indices])
        ends = zip(rows.indptr[:-1], rows.indptr[1:])
        return [_Entries(rows.indices[a:b], rows.values[a:b].astype(float), columns[a:b]) for a, b in ends]

    def mean_row(self, rows: list[_Entries]) -> _Entries:
        """Return the mean of rows as one row."""
        numbers, places = np.unique(np.concatenate([row.numbers for row in rows]), return_inverse=True)
        values = np.bincount(places, np.concatenate([row.values for row in rows]), numbers.size) / len(rows)
        return _Entries(numbers, values, self.names.columns_of(self.model.numbering.ids[numbers]))

    def own(self, row: _Entries) -> np.ndarray:
        """Return W_A + 1/2 sum_B F_AB of a row by column: its linear terms and half of its pairs."""
        pairs = pair_products(self.model, row.numbers, row.numbers) * np.outer(row.values, row.values)
        np.fill_diagonal(pairs, 0)
        linear = self.model.parameters.weights[row.numbers].astype(float) * row.values
        return np.bincount(row.columns, linear + pairs.sum(axis=1) / 2, self.n_columns)

    def mixed(self, row: _Entries) -> np.ndarray:
        """Return 1/2 sum_B [F_AB(x, b) - F_AB(b, x)] by column."""
        terms = pair_products(self.model, row.numbers, self.mean.numbers) * np.outer(row.values, self.mean.values)
        terms *= row.columns[:, None] != self.mean.columns  # a column comes from one side only
        own = np.bincount(row.columns, terms.sum(axis=1), self.n_columns)
        return (own - np.bincount(self.mean.columns, terms.sum(axis=0), self.n_columns)) / 2


def shapley_values(
    model: Model, batch: CheckedRows, names: FeatureNames, background: CheckedRows | None = None
) -> ShapleyValues:
    """Return the Shapley values of every row against the background rows; by default a row without features."""
    if model.plan.traits.features_per_row is not None:
        raise ConfigError(
            f"model {model.plan.family!r} has no Shapley values: it cannot score rows with columns left out",
            key="model",
        )
    if model.head is not None:
        raise ConfigError(
            "a model with a network has no exact Shapley values: use explain, or train with head='off'", key="head"
        )
    game = _Game(model, names, background)
    values = [game.own(row) + game.mixed(row) - game.own_mean for row in game.entries(batch)]
    base = float(model.parameters.bias[0]) + game.own_mean.sum()
    return ShapleyValues(np.reshape(values, (batch.n_rows, game.n_columns)), base, names.players)
