"""Classifier with scikit-learn's interface."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from ..encode.spec import TableSpec
from ..optimizers.optimizer import Optimizer
from ..plan.ranks import LevelRule
from .machine import FactorizationMachine
from .parameters import Callback, documented, stored
from .threads import one_at_a_time


@documented
class RaFMClassifier(ClassifierMixin, FactorizationMachine):
    """Binary classifier: rank-aware factorization machine (or LR, FM, DiFacto, MRMA, FFM) trained on log loss.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels, the negative class first.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]] * 50)
    >>> y = [1, 0, 0, 1] * 50  # depends on pairs of features only
    >>> model = RaFMClassifier(ranks=4, model="fm", l2=0).fit(X, y)
    >>> model.predict(X[:4])
    array([1, 0, 0, 1])
    """

    @stored
    def __init__(
        self,
        ranks: int | str | Sequence[int] | None = None,
        *,
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
        return "binary"

    def _labels(self, y: np.ndarray, fitting: bool, classes: Any = None) -> np.ndarray:
        if fitting:
            with np.errstate(invalid="ignore"):  # scikit-learn casts huge labels to integers
                try:
                    check_classification_targets(y)
                except ValueError as error:
                    raise ValueError(f"{error} To predict numbers, use RaFMRegressor.") from None
                kind = type_of_target(y)
            self.classes_ = np.unique(y if classes is None else classes)
            if kind == "multiclass" or self.classes_.size > 2:
                raise ValueError(  # check_estimator expects these words
                    "Only binary classification is supported. The type of the target is "
                    f"{kind}, with {self.classes_.size} classes. For more than two classes, use "
                    "sklearn.multiclass.OneVsRestClassifier(RaFMClassifier()); for ratings, RaFMRegressor."
                )
            if self.classes_.size == 1:
                only = self.classes_.tolist()[0]
                warnings.warn(f"all labels are {only!r}; the model will always predict that class", stacklevel=4)
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(f"label {y[unknown].tolist()[0]!r} is not one of the classes {self.classes_.tolist()}")
        return (np.asarray(y) == self.classes_[-1]).astype(np.float32)

    @one_at_a_time
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None, replan: bool = False) -> Self:
        """Train for one pass over the rows, in order, starting from the current model if there is one.

        The training loss is progressive: each row is scored before it is trained on.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.
        y : array of shape (n_rows,)
            Class labels.
        sample_weight : array of shape (n_rows,), default=None
            Non-negative row weights.
        classes : array of shape (2,), default=None
            Both classes. Required only if the first call sees a single one.
        replan : bool, default=False
            Promote features to the levels that their counts over all calls allow.

        Returns
        -------
        self
        """
        is_first, named = not hasattr(self, "model_"), None if classes is None else np.unique(classes)
        # as sets: a model trained on the command line may have its positive class first in the alphabet
        if named is not None and not is_first and not np.array_equal(named, np.unique(self.classes_)):
            raise ValueError(
                f"classes={named.tolist()} differs from the first call, which had {self.classes_.tolist()}"
            )
        if is_first and named is None and np.unique(y).size == 1:
            raise ValueError(f"all labels are {np.unique(y).tolist()[0]!r}; pass both classes: classes=[..., ...]")
        return self._partial_fit(X, y, sample_weight, replan, named)

    def decision_function(self, X: Any, level: int | None = None) -> np.ndarray:
        """Return the score of each row, before the logistic link.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.
        level : int, default=None
            Highest level to use: B_{1,level} in the paper, where level 1 is "RaFM-low". All levels by default.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._scores(X, level)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
            Columns in the order of `classes_`.
        """
        if self._fitted() and self.classes_.size == 1:
            return np.ones((self._scores(X).size, 1))  # scored all the same, to check X
        *_, positive = self._linked(X)
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> np.ndarray:
        """Return the more likely class of each row.

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        scores = self._scores(X)
        # A score above 0 is a probability above 1/2. With a single class, index 0 is the only one.
        return self.classes_[np.where(scores > 0, self.classes_.size - 1, 0)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
