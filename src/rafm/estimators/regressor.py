"""The regressor."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from ..losses import LOSSES
from .machine import FactorizationMachine
from .parameters import with_options


@with_options(loss="squared")
class RaFMRegressor(RegressorMixin, FactorizationMachine):
    """Regressor: rank-aware factorization machine, or LR, FM, DiFacto, MRMA, for ratings, other numbers and counts.

    Parameters
    ----------
    {parameters}

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
        return "regression" if task == "binary" else task  # which then refuses the loss of classifiers

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, replan: bool = False) -> Self:
        """Train on rows once, in their order, going on from the model if there is one.

        The training loss is progressive: that of each row before it was used. replan: let features of the model rise to
        the levels that all their counts admit.
        """
        return self._partial_fit(X, y, sample_weight, replan)

    def predict(self, X: Any, level: int | None = None) -> np.ndarray:
        """Return the prediction of every row; with a level p the paper's B_{1,p} ("RaFM-low" is level 1)."""
        return self._fitted().loss.predict(self._scores(X, level))
