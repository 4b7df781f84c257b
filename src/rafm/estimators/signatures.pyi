"""Constructors of the estimators, for editors and type checkers. Written by `.ci/stub.py`; do not edit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..encode.spec import TableSpec
from ..losses.loss import Loss
from ..optimizers.optimizer import Optimizer
from ..plan.ranks import LevelRule

class ClassifierSignature:
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
        step_rows: object = "auto",
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
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        columns: Mapping[str, Any] | TableSpec | None = None,
        fields: Sequence[str] | Sequence[int] | np.ndarray | None = None,
        callbacks: object = None,
        verbose: bool = False,
    ) -> None:
        """Keep the options of training.

        Parameters
        ----------
        ranks : int, sequence of int or "auto", default=None
            Increasing ranks, or auto: train a large model, measure which length each vector needs, and cut
            it (default: auto for large click data if no option defines the model; otherwise 8,32,128; 8,32
            for ratings; 32 for fm).
        model : str, default=None
            Model family: rafm (rank-aware factorization machine), fm (factorization machine of one rank),
            lr (linear model), difacto (one vector per feature, longer if it is frequent), mrma (mixture of
            ranks, two features per row), ffm (field-aware factorization machine) (default: rafm).
        max_parameters : int, default=None
            Maximum number of parameters, with ranks auto, which it implies (default: the smallest model
            within 0.5% of the best).
        max_bytes : int, default=None
            Maximum size of the model file, without optimiser state; implies ranks auto.
        rank_scale : float, default=None
            A feature seen n times gets the rank nearest to n times this number, on a log scale (default: 1,
            as in the paper; 4 if ranks are not set either).
        levels : rule or array of int, default=None
            Rule such as `rafm.Thresholds((10, 100))`, or one level per feature; replaces `rank_scale`.
        update : str, default="joint"
            Update rule of RaFM: joint, or algorithm1 (Algorithm 1 of the paper, unmodified).
        dependent_weight : float, default=None
            Weight of the loss of dependent factors (default: 0.5 for clicks and counts, 3 for ratings, 1
            with algorithm1).
        optimizer : str or settings, default="auto"
            Optimiser: adagrad, sgd, ftrl or adam; or gibbs, which samples many models and distils them into
            one; auto: gibbs for ratings if no option defines another model, otherwise adagrad.
        step_rows : int or "auto", default="auto"
            Rows per wide step, for many threads; 0: small mini-batches; auto: wide steps from 4 million
            rows.
        field_weights : str, default="auto"
            Learn one weight per field, so that some pairs count less: on, off, or auto (on with two or more
            fields).
        learning_rate : float or "auto", default=None
            Learning rate, or auto: chosen by short runs on validation rows (default: 0.2 for clicks, 0.1
            for ratings and counts, lower for rows of more than 10 nonzeros; a quarter of that for sgd, a
            hundredth for adam; auto with ranks auto).
        l2 : float, sequence of float or "auto", default=None
            L2 penalty of factors at each occurrence, or one per rank, or auto: chosen by short runs on
            validation rows if there are at most 400,000 training rows (default: 0.005 for clicks and
            counts, higher for clicks with more than 10 nonzeros per row or few rows per feature; 0.1 for
            ratings; auto with ranks auto).
        l2_weights : float, default=0.0
            L2 penalty of weights at each occurrence.
        l1 : float, default=0.0
            L1 penalty that sets whole factor vectors to 0 (ftrl only).
        l1_weights : float, default=0.0
            L1 penalty that sets linear weights to 0 (ftrl only).
        n_epochs : int, default=None
            Maximum number of passes over the data (default: 30; 100 with ranks auto, 200 with gibbs).
        patience : int or None, default=3
            Stop after this many epochs without improvement on the validation rows; with gibbs, after ten
            times as many.
        keep_samples : int, default=0
            Sampled models to keep (gibbs).
        averaging : bool, default=None
            Evaluate and keep a running average of the parameters, which moves half way to the current ones
            after each epoch (default: on, except with ftrl and gibbs).
        rate_drops : int, default=None
            When `patience` runs out, go back to the best epoch and continue with a fifth of the learning
            rate, up to this many times (default: 0; 1 with ranks auto).
        init_scale : float, default=None
            Standard deviation of the initial factors (default: 0.03 for 10,000 clicks and more, otherwise
            0.01).
        metric : str, default=None
            Metric that selects the best epoch: log_loss, auc, normalized_entropy, rmse, mae,
            poisson_deviance, huber_loss, pair_loss or pair_auc (default: that of the loss).
        validation_fraction : float, default=0.1
            Without validation rows: share of the rows to hold out. They choose the number of epochs; then a
            model is trained on all rows. 0 trains on all rows for `n_epochs` epochs.
        max_seconds : float, default=None
            Stop after this many seconds, total across resumes, and keep the best epoch.
        negative_rate : float, default=1.0
            Share of negatives kept if the training rows were downsampled; corrects the predicted
            probabilities.
        calibrate : str, default="auto"
            Clicks: fit a scale and an offset of the scores to the validation rows and apply them to the
            parameters: on, off, or auto (if the gain is significant).
        random_state : int, RandomState or None, default=0
            Random seed. Equal seeds give equal models.
        n_jobs : int or None, default=None
            Worker threads; small mini-batches use at most two. Models are bit-identical for any value.
        columns : dict or TableSpec, default=None
            Kinds of table columns by name, such as {"age": "bins", "price": {"kind": "bins", "n_bins":
            20}}. The kinds of others are chosen by their names, types and cells.
        fields : array of str or int, default=None
            Field of each column of a matrix, by name or number. The fields of a table are its columns.
        callbacks : callable or list of callable, default=None
            Called by `fit` with each training event, such as `rafm.train.events.EpochFinished`. Training
            ends with the best epoch so far if one returns True; exceptions pass through and leave the
            estimator unfitted.
        verbose : bool, default=False
            Print the kinds of table columns, the plan of ranks and one line per epoch.
        """

class RegressorSignature:
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
        step_rows: object = "auto",
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
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        columns: Mapping[str, Any] | TableSpec | None = None,
        fields: Sequence[str] | Sequence[int] | np.ndarray | None = None,
        callbacks: object = None,
        verbose: bool = False,
    ) -> None:
        """Keep the options of training.

        Parameters
        ----------
        ranks : int, sequence of int or "auto", default=None
            Increasing ranks, or auto: train a large model, measure which length each vector needs, and cut
            it (default: auto for large click data if no option defines the model; otherwise 8,32,128; 8,32
            for ratings; 32 for fm).
        loss : str or settings, default="squared"
            "squared", "huber", "poisson" (for counts), "bpr" (of a ranker), or settings such as
            `rafm.Huber(delta=2.0)` and `rafm.Bpr(negative_power=1.0)`.
        model : str, default=None
            Model family: rafm (rank-aware factorization machine), fm (factorization machine of one rank),
            lr (linear model), difacto (one vector per feature, longer if it is frequent), mrma (mixture of
            ranks, two features per row), ffm (field-aware factorization machine) (default: rafm).
        max_parameters : int, default=None
            Maximum number of parameters, with ranks auto, which it implies (default: the smallest model
            within 0.5% of the best).
        max_bytes : int, default=None
            Maximum size of the model file, without optimiser state; implies ranks auto.
        rank_scale : float, default=None
            A feature seen n times gets the rank nearest to n times this number, on a log scale (default: 1,
            as in the paper; 4 if ranks are not set either).
        levels : rule or array of int, default=None
            Rule such as `rafm.Thresholds((10, 100))`, or one level per feature; replaces `rank_scale`.
        update : str, default="joint"
            Update rule of RaFM: joint, or algorithm1 (Algorithm 1 of the paper, unmodified).
        dependent_weight : float, default=None
            Weight of the loss of dependent factors (default: 0.5 for clicks and counts, 3 for ratings, 1
            with algorithm1).
        optimizer : str or settings, default="auto"
            Optimiser: adagrad, sgd, ftrl or adam; or gibbs, which samples many models and distils them into
            one; auto: gibbs for ratings if no option defines another model, otherwise adagrad.
        step_rows : int or "auto", default="auto"
            Rows per wide step, for many threads; 0: small mini-batches; auto: wide steps from 4 million
            rows.
        field_weights : str, default="auto"
            Learn one weight per field, so that some pairs count less: on, off, or auto (on with two or more
            fields).
        learning_rate : float or "auto", default=None
            Learning rate, or auto: chosen by short runs on validation rows (default: 0.2 for clicks, 0.1
            for ratings and counts, lower for rows of more than 10 nonzeros; a quarter of that for sgd, a
            hundredth for adam; auto with ranks auto).
        l2 : float, sequence of float or "auto", default=None
            L2 penalty of factors at each occurrence, or one per rank, or auto: chosen by short runs on
            validation rows if there are at most 400,000 training rows (default: 0.005 for clicks and
            counts, higher for clicks with more than 10 nonzeros per row or few rows per feature; 0.1 for
            ratings; auto with ranks auto).
        l2_weights : float, default=0.0
            L2 penalty of weights at each occurrence.
        l1 : float, default=0.0
            L1 penalty that sets whole factor vectors to 0 (ftrl only).
        l1_weights : float, default=0.0
            L1 penalty that sets linear weights to 0 (ftrl only).
        n_epochs : int, default=None
            Maximum number of passes over the data (default: 30; 100 with ranks auto, 200 with gibbs).
        patience : int or None, default=3
            Stop after this many epochs without improvement on the validation rows; with gibbs, after ten
            times as many.
        keep_samples : int, default=0
            Sampled models to keep (gibbs).
        averaging : bool, default=None
            Evaluate and keep a running average of the parameters, which moves half way to the current ones
            after each epoch (default: on, except with ftrl and gibbs).
        rate_drops : int, default=None
            When `patience` runs out, go back to the best epoch and continue with a fifth of the learning
            rate, up to this many times (default: 0; 1 with ranks auto).
        init_scale : float, default=None
            Standard deviation of the initial factors (default: 0.03 for 10,000 clicks and more, otherwise
            0.01).
        metric : str, default=None
            Metric that selects the best epoch: log_loss, auc, normalized_entropy, rmse, mae,
            poisson_deviance, huber_loss, pair_loss or pair_auc (default: that of the loss).
        validation_fraction : float, default=0.1
            Without validation rows: share of the rows to hold out. They choose the number of epochs; then a
            model is trained on all rows. 0 trains on all rows for `n_epochs` epochs.
        max_seconds : float, default=None
            Stop after this many seconds, total across resumes, and keep the best epoch.
        negative_rate : float, default=1.0
            Share of negatives kept if the training rows were downsampled; corrects the predicted
            probabilities.
        calibrate : str, default="auto"
            Clicks: fit a scale and an offset of the scores to the validation rows and apply them to the
            parameters: on, off, or auto (if the gain is significant).
        random_state : int, RandomState or None, default=0
            Random seed. Equal seeds give equal models.
        n_jobs : int or None, default=None
            Worker threads; small mini-batches use at most two. Models are bit-identical for any value.
        columns : dict or TableSpec, default=None
            Kinds of table columns by name, such as {"age": "bins", "price": {"kind": "bins", "n_bins":
            20}}. The kinds of others are chosen by their names, types and cells.
        fields : array of str or int, default=None
            Field of each column of a matrix, by name or number. The fields of a table are its columns.
        callbacks : callable or list of callable, default=None
            Called by `fit` with each training event, such as `rafm.train.events.EpochFinished`. Training
            ends with the best epoch so far if one returns True; exceptions pass through and leave the
            estimator unfitted.
        verbose : bool, default=False
            Print the kinds of table columns, the plan of ranks and one line per epoch.
        """

class RankerSignature:
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
        step_rows: object = "auto",
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
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        columns: Mapping[str, Any] | TableSpec | None = None,
        fields: Sequence[str] | Sequence[int] | np.ndarray | None = None,
        callbacks: object = None,
        verbose: bool = False,
    ) -> None:
        """Keep the options of training.

        Parameters
        ----------
        ranks : int, sequence of int or "auto", default=None
            Increasing ranks, or auto: train a large model, measure which length each vector needs, and cut
            it (default: auto for large click data if no option defines the model; otherwise 8,32,128; 8,32
            for ratings; 32 for fm).
        loss : str or settings, default="bpr"
            "squared", "huber", "poisson" (for counts), "bpr" (of a ranker), or settings such as
            `rafm.Huber(delta=2.0)` and `rafm.Bpr(negative_power=1.0)`.
        model : str, default=None
            Model family: rafm (rank-aware factorization machine), fm (factorization machine of one rank),
            lr (linear model), difacto (one vector per feature, longer if it is frequent), mrma (mixture of
            ranks, two features per row), ffm (field-aware factorization machine) (default: rafm).
        item_fields : str or sequence of str, default=None
            With task ranking: fields that describe the item, comma-separated; all others are the context.
        max_parameters : int, default=None
            Maximum number of parameters, with ranks auto, which it implies (default: the smallest model
            within 0.5% of the best).
        max_bytes : int, default=None
            Maximum size of the model file, without optimiser state; implies ranks auto.
        rank_scale : float, default=None
            A feature seen n times gets the rank nearest to n times this number, on a log scale (default: 1,
            as in the paper; 4 if ranks are not set either).
        levels : rule or array of int, default=None
            Rule such as `rafm.Thresholds((10, 100))`, or one level per feature; replaces `rank_scale`.
        update : str, default="joint"
            Update rule of RaFM: joint, or algorithm1 (Algorithm 1 of the paper, unmodified).
        dependent_weight : float, default=None
            Weight of the loss of dependent factors (default: 0.5 for clicks and counts, 3 for ratings, 1
            with algorithm1).
        optimizer : str or settings, default="auto"
            Optimiser: adagrad, sgd, ftrl or adam; or gibbs, which samples many models and distils them into
            one; auto: gibbs for ratings if no option defines another model, otherwise adagrad.
        step_rows : int or "auto", default="auto"
            Rows per wide step, for many threads; 0: small mini-batches; auto: wide steps from 4 million
            rows.
        field_weights : str, default="auto"
            Learn one weight per field, so that some pairs count less: on, off, or auto (on with two or more
            fields).
        learning_rate : float or "auto", default=None
            Learning rate, or auto: chosen by short runs on validation rows (default: 0.2 for clicks, 0.1
            for ratings and counts, lower for rows of more than 10 nonzeros; a quarter of that for sgd, a
            hundredth for adam; auto with ranks auto).
        l2 : float, sequence of float or "auto", default=None
            L2 penalty of factors at each occurrence, or one per rank, or auto: chosen by short runs on
            validation rows if there are at most 400,000 training rows (default: 0.005 for clicks and
            counts, higher for clicks with more than 10 nonzeros per row or few rows per feature; 0.1 for
            ratings; auto with ranks auto).
        l2_weights : float, default=0.0
            L2 penalty of weights at each occurrence.
        l1 : float, default=0.0
            L1 penalty that sets whole factor vectors to 0 (ftrl only).
        l1_weights : float, default=0.0
            L1 penalty that sets linear weights to 0 (ftrl only).
        n_epochs : int, default=None
            Maximum number of passes over the data (default: 30; 100 with ranks auto, 200 with gibbs).
        patience : int or None, default=3
            Stop after this many epochs without improvement on the validation rows; with gibbs, after ten
            times as many.
        keep_samples : int, default=0
            Sampled models to keep (gibbs).
        averaging : bool, default=None
            Evaluate and keep a running average of the parameters, which moves half way to the current ones
            after each epoch (default: on, except with ftrl and gibbs).
        rate_drops : int, default=None
            When `patience` runs out, go back to the best epoch and continue with a fifth of the learning
            rate, up to this many times (default: 0; 1 with ranks auto).
        init_scale : float, default=None
            Standard deviation of the initial factors (default: 0.03 for 10,000 clicks and more, otherwise
            0.01).
        metric : str, default=None
            Metric that selects the best epoch: log_loss, auc, normalized_entropy, rmse, mae,
            poisson_deviance, huber_loss, pair_loss or pair_auc (default: that of the loss).
        validation_fraction : float, default=0.1
            Without validation rows: share of the rows to hold out. They choose the number of epochs; then a
            model is trained on all rows. 0 trains on all rows for `n_epochs` epochs.
        max_seconds : float, default=None
            Stop after this many seconds, total across resumes, and keep the best epoch.
        negative_rate : float, default=1.0
            Share of negatives kept if the training rows were downsampled; corrects the predicted
            probabilities.
        calibrate : str, default="auto"
            Clicks: fit a scale and an offset of the scores to the validation rows and apply them to the
            parameters: on, off, or auto (if the gain is significant).
        random_state : int, RandomState or None, default=0
            Random seed. Equal seeds give equal models.
        n_jobs : int or None, default=None
            Worker threads; small mini-batches use at most two. Models are bit-identical for any value.
        columns : dict or TableSpec, default=None
            Kinds of table columns by name, such as {"age": "bins", "price": {"kind": "bins", "n_bins":
            20}}. The kinds of others are chosen by their names, types and cells.
        fields : array of str or int, default=None
            Field of each column of a matrix, by name or number. The fields of a table are its columns.
        callbacks : callable or list of callable, default=None
            Called by `fit` with each training event, such as `rafm.train.events.EpochFinished`. Training
            ends with the best epoch so far if one returns True; exceptions pass through and leave the
            estimator unfitted.
        verbose : bool, default=False
            Print the kinds of table columns, the plan of ranks and one line per epoch.
        """
