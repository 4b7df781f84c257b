"""Ranker for implicit data with scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np

from ..encode.spec import TableSpec
from ..files.atomic import PathLike
from ..losses.loss import Loss
from ..optimizers.optimizer import Optimizer
from ..plan.ranks import LevelRule
from .machine import FactorizationMachine
from .parameters import Callback, documented, stored


@documented
class RaFMRanker(FactorizationMachine):
    """Ranker: rank-aware factorization machine (or LR, FM, DiFacto) for implicit feedback, such as purchases and plays.

    Each row, a context and an item, trains against the same context with another item, which is drawn at random among
    those that the context was not seen with.

    Examples
    --------
    >>> import pandas as pd
    >>> plays = pd.DataFrame({"user": list("aabbccdd") * 50, "item": list("xyxyzwzw") * 50})
    >>> model = RaFMRanker(item_fields="item", model="fm", validation_fraction=0).fit(plays)
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
        loss: str | Loss = "bpr",
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
        max_seconds: float | None = None,
        negative_rate: float = 1.0,
        calibrate: str = "auto",
        head: int | str = "auto",
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        columns: Mapping[str, Any] | TableSpec | None = None,
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
        """Train on rows X of context and item together, all of which were chosen.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows. The fields of a matrix are given by `fields`.
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
        return super().fit(X, y, sample_weight, eval_set, checkpoint, checkpoint_seconds)

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


def _labels(X: Any, y: Any) -> Any:
    """Return the labels, by default 1 for every row."""
    if y is not None:
        return y
    return np.ones(X.shape[0] if hasattr(X, "shape") else len(X))
