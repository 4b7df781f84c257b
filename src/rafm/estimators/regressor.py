"""Regressor with scikit-learn's interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from ..errors import DataValueError
from ..losses import LOSSES, loss_for
from .machine import FactorizationMachine
from .parameters import with_options

if TYPE_CHECKING:
    from .signatures import RegressorSignature
else:
    RegressorSignature = object  # the constructor is made by `with_options`


@with_options(loss="squared")
class RaFMRegressor(RegressorMixin, FactorizationMachine, RegressorSignature):
    """Regressor: rank-aware factorization machine (or LR, FM, DiFacto, MRMA, FFM) for ratings, amounts and counts.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]] * 50)
    >>> y = [5.0, 1.0, 1.0, 5.0] * 50
    >>> RaFMRegressor(ranks=4, model="fm", l2=0).fit(X, y).predict(X[:2]).round(1)
    array([5., 1.])
    """

    loss: Any

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
