"""Base class of losses: link function, loss value and slope, and defaults of training."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from . import KERNELS, SAME_CODE


class Loss:
    """Base class of all losses. `link`, `slope` and `value` are also compiled into the kernels.

    Kernels compute in float32, so constants in these three functions must be np.float32. The argument exp_neg_abs is
    exp(-|score|), and log_1p is log(1 + exp(-|score|)); both are 0 unless `uses_exp` is set. In RaFM the prediction of
    a higher level takes the place of the label of a lower one, so `slope` must accept any prediction as a label.
    """

    name: ClassVar[str]
    task: ClassVar[str]
    labels: ClassVar[str]  # name of its labels in messages
    metrics: ClassVar[tuple[str, ...]]  # the first one selects the best epoch by default
    learning_rate: ClassVar[float]  # default, as are the next two
    l2: ClassVar[float]
    dependent_weight: ClassVar[float]  # for the joint rule
    default_ranks: ClassVar[tuple[int, ...]] = (8, 32, 128)  # of RaFM
    link_name: ClassVar[str] = "identity"  # from scores to predictions, for exports: identity, sigmoid or exp
    uses_exp: ClassVar[bool] = False
    scales_labels: ClassVar[bool] = False  # whether training may divide labels by a constant and undo it in the model
    is_classification: ClassVar[bool] = False
    is_pairwise: ClassVar[bool] = False  # whether rows train in pairs, by the differences of their scores

    @property
    def code(self) -> int:
        """The code of the loss in kernels."""
        return KERNELS.index(SAME_CODE.get(self.name, self.name))

    def __str__(self) -> str:
        """Return the name and settings as `--loss` takes them."""
        return ":".join([self.name, *(f"{value:g}" for value in vars(self).values())])

    def shape(self, label_scale: float = 1.0) -> float:
        """Return the parameter that kernels pass to `slope` and `value`, for labels divided by label_scale."""
        return 0.0

    @staticmethod
    def link(score: Any, exp_neg_abs: Any) -> Any:
        """Return the prediction for a score."""
        raise NotImplementedError

    @staticmethod
    def slope(score: Any, prediction: Any, label: Any, shape: Any) -> Any:
        """Return the derivative of the loss with respect to the score."""
        raise NotImplementedError

    @staticmethod
    def value(score: Any, label: Any, exp_neg_abs: Any, log_1p: Any, shape: Any) -> Any:
        """Return the loss of one row."""
        raise NotImplementedError

    def predict(self, scores: np.ndarray) -> np.ndarray:
        """Convert scores to predictions."""
        raise NotImplementedError

    def slopes(self, scores: np.ndarray, labels: np.ndarray, label_scale: float = 1.0) -> np.ndarray:
        """Return the slope of the loss of each row, as `slope` does for one."""
        return self.predict(scores) - labels

    def prior(self, mean: float, total: float) -> float:
        """Return the best constant score for labels of this mean and total weight; finite even if both are 0."""
        raise NotImplementedError

    def baseline(self, mean: float, spread: float) -> float:
        """Estimate what `report` returns for the best constant, given mean and standard deviation of the labels.

        Training that does 100 times worse counts as diverged, so a rough figure will do.
        """
        raise NotImplementedError

    def report(self, mean_loss: float, label_scale: float = 1.0) -> float:
        """Convert the mean loss, with labels divided by label_scale, to the loss's first metric."""
        return float(mean_loss)

    def negative_chances(self, counts: np.ndarray) -> np.ndarray | None:
        """Return how likely items with these counts are drawn, with `is_pairwise`; None if all are as likely."""
        return None

    def wrong_labels(self, low: float, high: float) -> str | None:
        """Return an error message if labels between low and high are invalid, else None."""
        return None
