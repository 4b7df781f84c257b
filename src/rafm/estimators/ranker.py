"""Ranker for implicit data with scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_matrix, issparse

from ..encode.encoder import TableEncoder
from ..encode.spec import TableSpec
from ..errors import ConfigError
from ..files.atomic import PathLike
from ..losses.loss import Loss
from ..optimizers.optimizer import Optimizer
from ..plan.ranks import LevelRule
from ..rows.checked import CheckedRows
from ..rows.fields import Fields
from ..rows.source import InMemory
from .arguments import single_pair
from .machine import FactorizationMachine
from .parameters import Callback, documented, stored

if TYPE_CHECKING:
    from ..recommend.top import Recommended


@documented
class RaFMRanker(FactorizationMachine):
    """Ranker: rank-aware factorization machine (or LR, FM, DiFacto) for implicit feedback, such as purchases and plays.

    Each row is a context and an item that it chose. With loss="whole-data", the default, rows count 1 and all other
    pairs of a context and an item 0, with a low weight. With loss="bpr" each row trains against the same context with
    another item, which is drawn at random among those that the context was not seen with.

    Examples
    --------
    >>> import pandas as pd
    >>> plays = pd.DataFrame({"user": list("aabbccdd") * 50, "item": list("xyxyzwzw") * 50})
    >>> model = RaFMRanker(item_fields="item", ranks=4, validation_fraction=0).fit(plays)
    >>> items = pd.DataFrame({"item": list("wxyz")})
    >>> found = model.recommend(pd.DataFrame({"user": ["a"]}), items, top=2)
    >>> sorted(items["item"][found.items[0]])
    ['x', 'y']
    """

    @stored
    def __init__(
        self,
        ranks: int | str | Sequence[int] | None = None,
        *,
        loss: str | Loss | None = None,
        model: str | None = None,
        item_fields: str | Sequence[str] | None = None,
        max_parameters: int | None = None,
        max_bytes: int | None = None,
        rank_scale: float | None = None,
        levels: LevelRule | np.ndarray | Sequence[int] | None = None,
        update: str = "joint",
        dependent_weight: float | None = None,
        optimizer: str | Optimizer = "auto",
        step_rows: int | str = "auto",
        field_weights: str = "auto",
        learning_rate: float | str | None = None,
        l2: float | str | Sequence[float] | None = None,
        l2_weights: float = 0.0,
        l1: float = 0.0,
        l1_weights: float = 0.0,
        n_epochs: int | None = None,
        patience: int | None = 3,
        keep_samples: int = 0,
        averaging: bool | None = None,
        rate_drops: int | None = None,
        init_scale: float | None = None,
        metric: str | None = None,
        validation_fraction: float = 0.1,
        effort: str = "standard",
        max_seconds: float | None = None,
        negative_rate: float = 1.0,
        calibrate: str = "auto",
        head: int | str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        columns: Mapping[str, Any] | TableSpec | None = None,
        cross: str | Sequence[str] | Sequence[Sequence[str]] | None = None,
        fields: Sequence[str] | Sequence[int] | np.ndarray | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        verbose: bool = False,
    ) -> None:
        """Store the parameters; `fit` checks them."""

    def _task(self) -> str:
        return "ranking"

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        eval_set: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> Self:
        """Train on rows X of context and item together, all of which were chosen, or on a matrix of users and items.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows. The fields of a matrix are given by `fields`. A sparse matrix without `item_fields` has a line for
            each user and a column for each item, and its values are weights.
        y : array of shape (n_rows,), default=None
            Not needed; labels must be above 0.
        sample_weight : array of shape (n_rows,), default=None
            Non-negative row weights.
        eval_set : (X, y) or [(X, y)], default=None
            Validation rows, used to choose the best epoch and to stop early; y may be None. Without them,
            `validation_fraction` of the rows are held out to choose the number of epochs.
        checkpoint : path, default=None
            Directory for checkpoints. An interrupted `fit` resumes from it.
        checkpoint_seconds : float, default=60.0
            Seconds between checkpoints, besides the one at the end of each epoch.

        Returns
        -------
        self
        """
        self.__dict__.pop("users_and_items_", None)
        if self.item_fields is None and issparse(X):
            self.users_and_items_ = X.shape
            X, sample_weight = _pairs_of(X)
            eval_set = None if eval_set is None else (_pairs_of(single_pair(eval_set)[0])[0], None)
        return super().fit(X, y, sample_weight, eval_set, checkpoint, checkpoint_seconds)

    def recommend(
        self,
        contexts: Any = None,
        items: Any = None,
        top: int = 10,
        exclude: Any = None,
        exclude_by: tuple[str, str] | None = None,
        history: Any = None,
    ) -> Recommended:
        """Return the best items for each context, exactly; see `RaFMRegressor.recommend`.

        After `fit` on a matrix of users and items, contexts are numbers of users, and items those of items, by default
        all of them; without contexts, each line of `history` is a user of its own.

        Parameters
        ----------
        contexts : array of int, sparse matrix, array, DataFrame or Arrow table
            One row per context.
        items : same as contexts
            One row per item of the catalogue.
        top : int, default=10
            Number of items per context.
        exclude : sparse matrix, sequence of int arrays or table, default=None
            Items not to recommend.
        exclude_by : (str, str), default=None
            Columns that name contexts and items in a table of seen pairs.
        history : same as exclude, default=None
            Items that each context chose, from which its vector is found, with loss="whole-data".

        Returns
        -------
        Recommended
            `items` (n_contexts, top): row numbers in `items`, best first, -1 if there are no more; and `scores`.
        """
        shape = getattr(self, "users_and_items_", None)
        if shape is not None:
            items = _one_hot(np.arange(shape[1]) if items is None else items, shape[0], shape)
            n_new = 0 if history is None else history.shape[0] if issparse(history) else len(history)
            contexts = csr_matrix((n_new, sum(shape))) if contexts is None else _one_hot(contexts, 0, shape)
        return super().recommend(contexts, items, top, exclude, exclude_by, history)

    def _given(self) -> dict[str, Any]:
        item_fields = {"item_fields": "item"} if hasattr(self, "users_and_items_") else {}
        return super()._given() | item_fields

    def _source(self, rows: CheckedRows, encoder: TableEncoder | None = None) -> InMemory:
        if not hasattr(self, "users_and_items_"):
            return super()._source(rows, encoder)
        n_users, n_items = self.users_and_items_
        return InMemory(rows, Fields.of_ranges(("user", "item"), [0, n_users, n_users + n_items]))

    def _rows(self, X: Any, y: Any = None, sample_weight: Any = None, *, fitting: bool, **more: Any) -> Any:
        return super()._rows(X, _labels(X, y), sample_weight, fitting=fitting, **more)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, replan: bool = False) -> Self:
        """Train for one pass over the rows, in order, starting from the current model if there is one.

        The other items are drawn among those of these rows.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.
        y : array of shape (n_rows,), default=None
            Not needed; labels must be above 0.
        sample_weight : array of shape (n_rows,), default=None
            Non-negative row weights.
        replan : bool, default=False
            Promote features to the levels that their counts over all calls allow.

        Returns
        -------
        self
        """
        return self._partial_fit(X, _labels(X, y), sample_weight, replan)

    def predict(self, X: Any, level: int | None = None) -> np.ndarray:
        """Return the score of each row; scores of one context rank items.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.
        level : int, default=None
            Highest level to use: B_{1,level} in the paper. All levels by default.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._scores(X, level)


def _pairs_of(X: Any) -> tuple[csr_matrix, np.ndarray]:
    """Return a row of two features, user and item, for each value of a matrix that is not 0, and these values."""
    found = X.tocoo()
    kept = found.data != 0
    columns = np.column_stack([found.row[kept], found.shape[0] + found.col[kept]])
    return _rows_of(columns, sum(found.shape)), found.data[kept]


def _one_hot(numbers: Any, first: int, shape: tuple[int, int]) -> csr_matrix:
    """Return a row for each number of a user, or of an item, whose features start at `first`."""
    found = np.atleast_1d(np.asarray(numbers))
    n = shape[1] if first else shape[0]
    if found.dtype.kind not in "iu" or found.ndim != 1 or (found.size and not 0 <= found.min() <= found.max() < n):
        what = "items" if first else "contexts"
        raise ConfigError(f"{what} must be numbers from 0 to {n - 1}, as in the matrix of `fit`", key=what)
    return _rows_of(first + found[:, None], sum(shape))


def _rows_of(columns: np.ndarray, n_features: int) -> csr_matrix:
    """Return rows with these features, each of value 1."""
    n_rows, width = columns.shape
    indptr = np.arange(0, columns.size + 1, width)
    return csr_matrix((np.ones(columns.size, np.float32), columns.ravel(), indptr), (n_rows, n_features))


def _labels(X: Any, y: Any) -> Any:
    """Return the labels, by default 1 for every row."""
    if y is not None:
        return y
    return np.ones(X.shape[0] if hasattr(X, "shape") else len(X))
