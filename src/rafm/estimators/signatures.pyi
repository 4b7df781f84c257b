"""Constructors of the estimators, for editors and type checkers. Written by `.ci/stub.py`; do not edit."""

from collections.abc import Sequence

import numpy as np

from ..losses.loss import Loss
from ..optimizers.optimizer import Optimizer
from ..plan.ranks import LevelRule

class ClassifierSignature:
    def __init__(
        self,
        ranks: int | Sequence[int] | None = None,
        *,
        model: str = "rafm",
        rank_scale: float = 1.0,
        levels: LevelRule | np.ndarray | Sequence[int] | None = None,
        update: str = "joint",
        dependent_weight: float | None = None,
        optimizer: str | Optimizer = "adagrad",
        learning_rate: float | None = None,
        l2: float | Sequence[float] | None = None,
        l2_weights: float = 0.0,
        l1: float = 0.0,
        l1_weights: float = 0.0,
        n_epochs: int = 30,
        patience: int | None = 3,
        metric: str | None = None,
        validation_fraction: float = 0.1,
        max_seconds: float | None = None,
        negative_rate: float = 1.0,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        """Keep the options of training.

        Parameters
        ----------
        ranks : int or sequence of int, default=None
            Increasing ranks (default: 8,32,128; 32 for fm).
        model : str, default="rafm"
            Model family: rafm (rank-aware factorization machine), fm (factorization machine of one rank),
            lr (linear model), difacto (one vector per feature, longer if it is frequent), mrma (mixture of
            ranks, two features per row).
        rank_scale : float, default=1.0
            A feature seen n times gets the rank nearest to this number times n, on a log scale.
        levels : rule or array of int, default=None
            Rule such as `rafm.Thresholds((10, 100))`, or one level per feature; replaces `rank_scale`.
        update : str, default="joint"
            Update rule of RaFM: joint, or algorithm1 (Algorithm 1 of the paper, unmodified).
        dependent_weight : float, default=None
            Weight of the loss of dependent factors (default: 0.5 for clicks and counts, 3 for ratings, 1
            with algorithm1).
        optimizer : str or settings, default="adagrad"
            Optimiser: adagrad, sgd, ftrl or adam.
        learning_rate : float, default=None
            Learning rate (default: 0.2 for clicks, 0.1 for ratings and counts, lower for rows of more than
            10 nonzeros; a quarter of that for sgd, a hundredth for adam).
        l2 : float or sequence of float, default=None
            L2 penalty of factors at each occurrence, or one per rank (default: 0.005 for clicks and counts,
            0.1 for ratings).
        l2_weights : float, default=0.0
            L2 penalty of linear weights at each occurrence.
        l1 : float, default=0.0
            L1 penalty that sets whole factor vectors to 0 (ftrl only).
        l1_weights : float, default=0.0
            L1 penalty that sets linear weights to 0 (ftrl only).
        n_epochs : int, default=30
            Maximum number of passes over the data.
        patience : int or None, default=3
            Stop after this many epochs without improvement on the validation rows.
        metric : str, default=None
            Metric that selects the best epoch: log_loss, auc, normalized_entropy, rmse, mae,
            poisson_deviance or huber_loss (default: that of the loss).
        validation_fraction : float, default=0.1
            Without validation rows: share of the rows to hold out. They choose the number of epochs, then a
            model is trained on all rows. 0 trains on all rows for `n_epochs` epochs.
        max_seconds : float, default=None
            Stop after this many seconds, total across resumes, and keep the best epoch.
        negative_rate : float, default=1.0
            Share of negatives kept when the training rows were sampled; corrects the predicted
            probabilities.
        random_state : int, RandomState or None, default=0
            Random seed. Equal seeds give equal models.
        n_jobs : int or None, default=None
            Worker threads. Models are bit-identical for any value.
        verbose : bool, default=False
            Print the plan of ranks and one line per epoch.
        """

class RegressorSignature:
    def __init__(
        self,
        ranks: int | Sequence[int] | None = None,
        *,
        loss: str | Loss = "squared",
        model: str = "rafm",
        rank_scale: float = 1.0,
        levels: LevelRule | np.ndarray | Sequence[int] | None = None,
        update: str = "joint",
        dependent_weight: float | None = None,
        optimizer: str | Optimizer = "adagrad",
        learning_rate: float | None = None,
        l2: float | Sequence[float] | None = None,
        l2_weights: float = 0.0,
        l1: float = 0.0,
        l1_weights: float = 0.0,
        n_epochs: int = 30,
        patience: int | None = 3,
        metric: str | None = None,
        validation_fraction: float = 0.1,
        max_seconds: float | None = None,
        negative_rate: float = 1.0,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        """Keep the options of training.

        Parameters
        ----------
        ranks : int or sequence of int, default=None
            Increasing ranks (default: 8,32,128; 32 for fm).
        loss : str or settings, default="squared"
            "squared", "huber", "poisson" (for counts), or settings such as `rafm.Huber(delta=2.0)`.
        model : str, default="rafm"
            Model family: rafm (rank-aware factorization machine), fm (factorization machine of one rank),
            lr (linear model), difacto (one vector per feature, longer if it is frequent), mrma (mixture of
            ranks, two features per row).
        rank_scale : float, default=1.0
            A feature seen n times gets the rank nearest to this number times n, on a log scale.
        levels : rule or array of int, default=None
            Rule such as `rafm.Thresholds((10, 100))`, or one level per feature; replaces `rank_scale`.
        update : str, default="joint"
            Update rule of RaFM: joint, or algorithm1 (Algorithm 1 of the paper, unmodified).
        dependent_weight : float, default=None
            Weight of the loss of dependent factors (default: 0.5 for clicks and counts, 3 for ratings, 1
            with algorithm1).
        optimizer : str or settings, default="adagrad"
            Optimiser: adagrad, sgd, ftrl or adam.
        learning_rate : float, default=None
            Learning rate (default: 0.2 for clicks, 0.1 for ratings and counts, lower for rows of more than
            10 nonzeros; a quarter of that for sgd, a hundredth for adam).
        l2 : float or sequence of float, default=None
            L2 penalty of factors at each occurrence, or one per rank (default: 0.005 for clicks and counts,
            0.1 for ratings).
        l2_weights : float, default=0.0
            L2 penalty of linear weights at each occurrence.
        l1 : float, default=0.0
            L1 penalty that sets whole factor vectors to 0 (ftrl only).
        l1_weights : float, default=0.0
            L1 penalty that sets linear weights to 0 (ftrl only).
        n_epochs : int, default=30
            Maximum number of passes over the data.
        patience : int or None, default=3
            Stop after this many epochs without improvement on the validation rows.
        metric : str, default=None
            Metric that selects the best epoch: log_loss, auc, normalized_entropy, rmse, mae,
            poisson_deviance or huber_loss (default: that of the loss).
        validation_fraction : float, default=0.1
            Without validation rows: share of the rows to hold out. They choose the number of epochs, then a
            model is trained on all rows. 0 trains on all rows for `n_epochs` epochs.
        max_seconds : float, default=None
            Stop after this many seconds, total across resumes, and keep the best epoch.
        negative_rate : float, default=1.0
            Share of negatives kept when the training rows were sampled; corrects the predicted
            probabilities.
        random_state : int, RandomState or None, default=0
            Random seed. Equal seeds give equal models.
        n_jobs : int or None, default=None
            Worker threads. Models are bit-identical for any value.
        verbose : bool, default=False
            Print the plan of ranks and one line per epoch.
        """
