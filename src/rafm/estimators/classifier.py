"""The classifier."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from .machine import FactorizationMachine
from .parameters import with_options


@with_options()
class RaFMClassifier(ClassifierMixin, FactorizationMachine):
    """Binary classifier: rank-aware factorization machine, or LR, FM, DiFacto, MRMA, trained on the log loss.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    classes_ : array
        The two labels, the negative one first.
    n_parameters_ : int
        Number of parameters of the model.
    history_ : list of dict
        Losses and metrics of every epoch.
    best_epoch_ : int
        The epoch that the model is from.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]] * 50)
    >>> y = [1, 0, 0, 1] * 50  # only pairs of features tell
    >>> model = RaFMClassifier(ranks=4, model="fm", l2=0).fit(X, y)
    >>> model.predict(X[:4])
    array([1, 0, 0, 1])
    """

    def _task(self) -> str:
        return "binary"

    def _labels(self, y: np.ndarray, fitting: bool, classes: Any = None) -> np.ndarray:
        if fitting:
            check_classification_targets(y)
            self.classes_ = np.unique(y if classes is None else classes)
            if type_of_target(y) == "multiclass" or self.classes_.size > 2:
                raise ValueError(
                    "Only binary classification is supported. The type of the target is "
                    f"{type_of_target(y)}, with {self.classes_.size} classes."
                )
            if self.classes_.size == 1:
                only = self.classes_.tolist()[0]
                warnings.warn(f"all labels are {only!r}; a model of one class is a constant", stacklevel=4)
        unknown = ~np.isin(y, self.classes_)
        if unknown.any():
            raise ValueError(f"label {y[unknown].tolist()[0]!r} is not one of the classes {self.classes_.tolist()}")
        return (np.asarray(y) == self.classes_[-1]).astype(np.float32)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, classes: Any = None, replan: bool = False) -> Self:
        """Train on rows once, in their order, going on from the model if there is one.

        The training loss is progressive: that of each row before it was used. classes: both of them, needed only if the
        first rows have but one. replan: let features of the model rise to the levels that all their counts admit.
        """
        is_first, named = not hasattr(self, "model_"), None if classes is None else np.unique(classes)
        if named is not None and not is_first and not np.array_equal(named, self.classes_):
            raise ValueError(f"classes are {self.classes_.tolist()} since the first call, now {named.tolist()}")
        if is_first and named is None and np.unique(y).size == 1:
            raise ValueError(f"the first labels are all {np.unique(y).tolist()[0]!r}; name both: classes=[..., ...]")
        return self._partial_fit(X, y, sample_weight, replan, named)

    def decision_function(self, X: Any, level: int | None = None) -> np.ndarray:
        """Return the scores before the link; with a level p the paper's B_{1,p} ("RaFM-low" is level 1)."""
        return self._scores(X, level)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class."""
        if self._fitted() and self.classes_.size == 1:
            return np.ones((self._scores(X).size, 1))
        positive = self.model_.loss.predict(self._scores(X))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> np.ndarray:
        """Return the more likely class of every row."""
        scores = self._scores(X)
        return self.classes_[np.where(scores > 0, self.classes_.size - 1, 0)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
