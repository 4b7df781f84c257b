"""Regressor with scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from ..encode.spec import TableSpec
from ..errors import DataValueError
from ..losses import LOSSES, loss_for
from ..losses.loss import Loss
from ..optimizers.optimizer import Optimizer
from ..plan.ranks import LevelRule
from .machine import FactorizationMachine
from .parameters import Callback, documented, stored


@documented
class RaFMRegressor(RegressorMixin, FactorizationMachine):
    """Regressor: rank-aware factorization machine (or LR, FM, DiFacto, MRMA, FFM) for ratings, amounts and counts.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]] * 50)
    >>> y = [5.0, 1.0, 1.0, 5.0] * 50
    >>> RaFMRegressor(ranks=4, model="fm", l2=0).fit(X, y).predict(X[:2]).round(1)
    array([5., 1.])
    """

    loss: Any

    @stored
    def __init__(
        self,
        ranks: int | str | Sequence[int] | None = None,
        *,
        loss: str | Loss = "squared",
        model: str | None = None,
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
        task = LOSSES.get(getattr(self.loss, "name", self.loss), "regression")
        return task if task in ("regression", "count") else "regression"  # so that losses of others are rejected

    def _labels(self, y: np.ndarray, fitting: bool, classes: Any = None) -> np.ndarray:
        labels = super()._labels(y, fitting, classes)
        loss = loss_for(self._task(), self.loss)
        if labels.size and (wrong := loss.wrong_labels(float(labels.min()), float(labels.max()))):
            raise DataValueError(wrong)
        return labels

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, replan: bool = False) -> Self:
        """Train for one pass over the rows, in order, starting from the current model if there is one.

        The training loss is progressive: each row is scored before it is trained on.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.
        y : array of shape (n_rows,)
            Target values.
        sample_weight : array of shape (n_rows,), default=None
            Non-negative row weights.
        replan : bool, default=False
            Promote features to the levels that their counts over all calls allow.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, sample_weight, replan)

    def predict(
        self, X: Any, level: int | None = None, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return the prediction for each row.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.
        level : int, default=None
            Highest level to use: B_{1,level} in the paper, where level 1 is "RaFM-low". All levels by default.

        return_std : bool, default=False
            Return the standard deviation of each prediction too, over the models that `keep_samples` kept: how far the
            data leave the prediction open. The noise of a single label comes on top.

        Returns
        -------
        ndarray of shape (n_rows,), or a pair of them with `return_std`
        """
        model, rows, found = self._linked(X, level)
        return (found, model.spread(rows)) if return_std else found
