"""What a loss is: how scores become predictions, what an error costs, and what is usual for it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from . import LOSSES


class Loss:
    """Base of all losses. Scores, labels and predictions are floats; `link`, `slope` and `value` are compiled, too.

    Compiled code computes in float32: constants in these three functions must be np.float32, and what they are given
    as exp_neg_abs is exp(-|score|), as log_1p the logarithm of 1 + exp(-|score|), both 0 unless `uses_exp` is set.
    """

    name: ClassVar[str]
    task: ClassVar[str]
    labels: ClassVar[str]  # what messages call its labels
    metrics: ClassVar[tuple[str, ...]]  # epochs are chosen by the first one unless another is asked for
    learning_rate: ClassVar[float]  # this and the next two are the defaults of training
    l2: ClassVar[float]
    dependent_weight: ClassVar[float]  # by the joint rule
    uses_exp: ClassVar[bool] = False
    scales_labels: ClassVar[bool] = False  # whether labels may be divided by a number, and predictions multiplied
    is_classification: ClassVar[bool] = False

    @property
    def code(self) -> int:
        """The number by which compiled code knows the loss."""
        return [*LOSSES].index(self.name)

    def shape(self, label_scale: float = 1.0) -> float:
        """Return the setting of the loss that compiled code needs, for labels divided by label_scale."""
        return 0.0

    @staticmethod
    def link(score: Any, exp_neg_abs: Any) -> Any:
        """Return the prediction that belongs to a score."""
        raise NotImplementedError

    @staticmethod
    def slope(score: Any, prediction: Any, label: Any, shape: Any) -> Any:
        """Return the derivative of the loss in the score."""
        raise NotImplementedError

    @staticmethod
    def value(score: Any, label: Any, exp_neg_abs: Any, log_1p: Any, shape: Any) -> Any:
        """Return the loss of one row."""
        raise NotImplementedError

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Turn scores into predictions."""
        raise NotImplementedError

    def prior(self, mean: float, total: float) -> float:
        """Return the best constant score for labels of this mean and total weight."""
        raise NotImplementedError

    def baseline(self, mean: float, spread: float) -> float:
        """Return about what `report` tells of the best constant for labels of this mean and standard deviation."""
        raise NotImplementedError

    def report(self, mean_loss: float, label_scale: float = 1.0) -> float:
        """Turn the mean loss of rows whose labels were divided by label_scale into the loss's own metric."""
        return float(mean_loss)

    def wrong_labels(self, low: float, high: float) -> str | None:
        """Return what is wrong with labels between low and high, or None."""
        return None
