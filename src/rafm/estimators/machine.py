"""Estimators for scikit-learn, the only users of its base classes."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from ..encode.encoder import TableEncoder
from ..encode.serialize import check_size
from ..encode.spec import TableSpec
from ..errors import ConfigError
from ..files.atomic import PathLike
from ..files.terminal import say
from ..model import file as storage
from ..model.model import Model
from ..options import TrainingOptions, from_summary, resolve
from ..read.frames import as_table, is_frame, needs_encoder
from ..rows.checked import Batch, check_batch, join_rows
from ..train.checkpoint import Checkpoint, NoCheckpoint
from ..train.progress import show_events
from ..train.trainer import Finished, train


class _FactorizationMachine(BaseEstimator):
    """What classifier and regressor share: parameters, encoding, training, saving."""

    _task: str
    encoder_: TableEncoder | None

    def __init__(
        self,
        ranks: Any = None,
        *,
        model: str = "rafm",
        rank_scale: float = 1.0,
        levels: Any = None,
        update: str = "joint",
        dependent_weight: float | None = None,
        optimizer: Any = "adagrad",
        learning_rate: float | None = None,
        l2: Any = None,
        l2_weights: float = 0.0,
        l1: float = 0.0,
        l1_weights: float = 0.0,
        n_epochs: int = 30,
        patience: int | None = 3,
        metric: str | None = None,
        max_seconds: float | None = None,
        negative_rate: float = 1.0,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ):
        self.ranks = ranks
        self.model = model
        self.rank_scale = rank_scale
        self.levels = levels
        self.update = update
        self.dependent_weight = dependent_weight
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.l2 = l2
        self.l2_weights = l2_weights
        self.l1 = l1
        self.l1_weights = l1_weights
        self.n_epochs = n_epochs
        self.patience = patience
        self.metric = metric
        self.max_seconds = max_seconds
        self.negative_rate = negative_rate
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        eval_set: Any = None,
        checkpoint: PathLike | None = None,
        checkpoint_seconds: float = 60.0,
    ) -> Self:
        """Train on rows X with labels y.

        sample_weight: one number of at least 0 per row. eval_set: (X, y) to choose the best epoch by and to stop early
        on, or a list with one such pair. checkpoint: a folder that keeps the state of training, written at the end of
        each epoch and every checkpoint_seconds; a fit that was stopped goes on from there.
        """
        options = replace(self._options(), keep_state=True)
        self.__dict__.pop("model_", None)  # whatever fails from here on leaves no mixture of two models
        data = self._rows(X, y, sample_weight, fitting=True)
        valid = None if eval_set is None else self._rows(*_single_pair(eval_set), None, fitting=False)
        with _checkpoint(checkpoint, checkpoint_seconds) as states:
            for event in show_events(train(data, options, valid, states), options, enabled=self.verbose):
                if isinstance(event, Finished):
                    self._keep(event.model)
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, replan: bool, classes: Any = None) -> Self:
        """Train on rows once, in their order, going on from the model if there is one."""
        options = replace(self._options(), n_epochs=1, shuffle=False, keep_state=True, replan=replan)
        start, encoder = None, None
        if not hasattr(self, "model_"):
            data = self._rows(X, y, sample_weight, fitting=True, classes=classes)
        elif self.encoder_ is None:
            start, data = self._trained, self._rows(X, y, sample_weight, fitting=False)
        else:
            encoder, rows = self.encoder_.grow_then_encode(_as_frame(X), targets=False)
            check_size(encoder)
            start = self._trained.with_ids(self.encoder_.ids_in(encoder), encoder.n_features)
            data = self._with_targets(join_rows(list(rows)), column_or_1d(y, warn=True), sample_weight)
        for event in show_events(train(data, options, start=start), options, enabled=self.verbose):
            if isinstance(event, Finished):
                self._keep(event.model)
                self.encoder_ = encoder or self.encoder_
        return self

    def _options(self) -> TrainingOptions:
        chosen = self.get_params(deep=False)
        for name in ("n_jobs", "verbose", "random_state"):
            chosen.pop(name)
        chosen["threads"] = _threads(self.n_jobs)
        whole = isinstance(self.random_state, int | np.integer)
        seed = int(self.random_state) if whole else int(check_random_state(self.random_state).randint(2**31))
        return resolve(task=self._task, seed=seed, **chosen)

    def _rows(self, X: Any, y: Any = None, sample_weight: Any = None, *, fitting: bool, classes: Any = None) -> Batch:
        """Return X and y as checked rows; fitting learns the columns or the encoder, otherwise they must agree."""
        if fitting:
            self.encoder_ = None
        if self.encoder_ is not None or (fitting and is_frame(X) and needs_encoder(X)):
            rows = self._encode(X)
            y = None if y is None else column_or_1d(y, warn=True)
        else:
            rows, y = self._matrix(X, y, fitting)
        return self._with_targets(rows, y, sample_weight, fitting, classes)

    def _with_targets(
        self, rows: Batch, y: Any, sample_weight: Any, fitting: bool = False, classes: Any = None
    ) -> Batch:
        labels = None if y is None else self._labels(y, fitting, classes)
        weights = None
        if sample_weight is not None:
            stand_in = np.empty((rows.n_rows, 1), np.float64)
            weights = _check_sample_weight(sample_weight, stand_in, ensure_non_negative=True)
        return check_batch(Batch(rows.indptr, rows.indices, rows.values, rows.n_features, labels, weights))

    def _encode(self, X: Any) -> Batch:
        """Return the rows of a table; the first one is learnt."""
        table = _as_frame(X)
        if self.encoder_ is not None:
            return self.encoder_.encode(table, targets=False)
        self.encoder_, rows = TableEncoder.learn_encode(table, report=say if self.verbose else None)
        check_size(self.encoder_)
        self.feature_names_in_ = np.array([column.name for column in self.encoder_.columns], object)
        self.n_features_in_ = self.feature_names_in_.size
        return rows

    def _matrix(self, X: Any, y: Any, fitting: bool) -> tuple[Batch, Any]:
        kept: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float32, np.float64], "reset": fitting}
        if y is None and not fitting:
            X = validate_data(self, X, **kept)
        else:
            X, y = validate_data(self, X, y, **kept)
        matrix = sparse.csr_array(X)
        if sparse.issparse(X):  # SciPy trusts its arrays, and may crash on bad ones
            check_batch(Batch(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1]))
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        return Batch(matrix.indptr, matrix.indices, matrix.data, matrix.shape[1]), y

    def _labels(self, y: np.ndarray, fitting: bool, classes: Any = None) -> np.ndarray:
        return np.asarray(y, np.float32)

    def _keep(self, model: Model) -> None:
        self._trained = model  # with what partial_fit goes on from; arrays are shared
        self.model_ = model.for_scoring()
        self.n_parameters_ = self.model_.n_parameters
        self.history_ = model.history
        self.best_epoch_ = model.best_epoch

    @property
    def levels_(self) -> np.ndarray:
        """Level of every feature: how many vectors it has; 0 for features never seen in training."""
        return self._fitted().levels()

    @property
    def feature_counts_(self) -> np.ndarray:
        """How often every feature was seen in training."""
        return self._fitted().feature_counts()

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    def _scores(self, X: Any, level: int | None = None) -> np.ndarray:
        model = self._fitted()
        return model.scores(self._rows(X, fitting=False), level, _threads(self.n_jobs)).astype(np.float64)

    def save(self, path: PathLike, keep_state: bool = False) -> None:
        """Write the model to a .rafm file, in one atomic step.

        keep_state: with the optimiser's states, so that `partial_fit` of the loaded model goes on as this one would.
        """
        model = self._trained if self._fitted() and keep_state else self._fitted()
        classes = [value.item() if hasattr(value, "item") else value for value in getattr(self, "classes_", [])]
        names = getattr(self, "feature_names_in_", None) if self.encoder_ is None else None
        columns = None if names is None else [str(name) for name in names]
        storage.save(path, storage.Saved(model, self.encoder_, 0, classes or None, columns))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class RaFMClassifier(ClassifierMixin, _FactorizationMachine):
    """Binary classifier: rank-aware factorization machine, or LR, FM, DiFacto, MRMA, trained on the log loss.

    Parameters
    ----------
    ranks : rising ranks D_1 < ... < D_m, (8, 32, 128) unless given; one rank for `model="fm"`, 32 unless given.
    model : "rafm", "fm", "lr", "difacto" or "mrma".
    rank_scale : a feature seen n times gets the rank nearest to rank_scale * n, in logarithms; 1 in the paper.
    levels : another rule, such as `rafm.Thresholds((10, 100))`, or one level per feature.
    update : "joint", or "algorithm1" for the paper's Algorithm 1 to the letter.
    dependent_weight : how much the loss of dependent factors counts; 0.5 unless given (regression: 3; algorithm1: 1).
    optimizer : "adagrad", "sgd", "adam" or "ftrl", or settings such as `rafm.AdaGrad(batch_size=64)`.
    learning_rate : 0.2 unless given (regression: 0.1); a quarter of that for "sgd", a hundredth for "adam"; less if
        rows have more than 10 nonzeros on average.
    l2 : penalty of factors at each occurrence; 0.005 unless given (regression: 0.1); or one for each rank.
    l2_weights : penalty of linear weights at each occurrence.
    l1, l1_weights : with "ftrl", how far the summed gradients of a vector (per root of its rank) and of a weight must
        go before it leaves 0; features with nothing but zeros are not kept.
    n_epochs, patience : with an eval_set, training stops after `patience` epochs without improvement.
    metric : what the best epoch is chosen by: "log_loss" (unless given), "auc" or "normalized_entropy"; regression:
        "rmse" (unless given) or "mae".
    max_seconds : training ends after so long with the best epoch so far.
    negative_rate : the share of negatives that was kept in the training rows; probabilities are those of all rows.
    n_jobs : how many threads train and score, one unless given, -1 for all cores; the result never depends on it.
    random_state : seed; equal seeds give equal models.
    verbose : print the plan and one line per epoch.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]] * 50)
    >>> y = [1, 0, 0, 1] * 50  # only pairs of features tell
    >>> model = RaFMClassifier(ranks=4, model="fm", l2=0).fit(X, y)
    >>> model.predict(X[:4])
    array([1, 0, 0, 1])
    """

    _task = "binary"

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


class RaFMRegressor(RegressorMixin, _FactorizationMachine):
    """Regressor: rank-aware factorization machine, or LR, FM, DiFacto, MRMA, trained on the squared loss.

    Parameters are those of RaFMClassifier.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> X = csr_matrix([[1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1]] * 50)
    >>> y = [5.0, 1.0, 1.0, 5.0] * 50
    >>> RaFMRegressor(ranks=4, model="fm", l2=0).fit(X, y).predict(X[:2]).round(1)
    array([5., 1.])
    """

    _task = "regression"

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, replan: bool = False) -> Self:
        """Train on rows once, in their order, going on from the model if there is one.

        The training loss is progressive: that of each row before it was used. replan: let features of the model rise to
        the levels that all their counts admit.
        """
        return self._partial_fit(X, y, sample_weight, replan)

    def predict(self, X: Any, level: int | None = None) -> np.ndarray:
        """Return the prediction of every row; with a level p the paper's B_{1,p} ("RaFM-low" is level 1)."""
        return self._scores(X, level)


class TableTransformer(TransformerMixin, BaseEstimator):
    """Turns tables into sparse matrices for any estimator, as the encoder of the estimators above does.

    Parameters
    ----------
    spec : a `rafm.TableSpec`, a dict as `TableSpec.from_dict` takes it, the path of a TOML file, or None to choose the
        kind of every column. Columns that it names as labels or weights are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"city": ["Rome", "Oslo"], "price": [1.5, 2.5]})
    >>> encode = TableTransformer({"columns": {"price": {"kind": "bins", "n_bins": 2}}}).fit(table)
    >>> encode.get_feature_names_out().tolist()
    ['city=Oslo', 'city=Rome', 'price=[-inf,2.5)', 'price=[2.5,inf)']
    >>> encode.transform(table).toarray()
    array([[0., 1., 1., 0.],
           [1., 0., 0., 1.]], dtype=float32)
    """

    def __init__(self, spec: Any = None):
        self.spec = spec

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the columns; y is not looked at."""
        self.encoder_ = TableEncoder.learn(self._table(X, fitting=True), _as_spec(self.spec))
        return self

    def transform(self, X: Any) -> sparse.csr_matrix:
        """Return one row per row of X, one column per feature."""
        check_is_fitted(self, "encoder_")
        rows = self.encoder_.encode(self._table(X, fitting=False), targets=False)
        return sparse.csr_matrix((rows.values, rows.indices, rows.indptr), (rows.n_rows, rows.n_features))

    def _table(self, X: Any, fitting: bool) -> Any:
        """Return X as a table; the columns of a matrix are called x0, x1, ..."""
        import pyarrow as pa

        if is_frame(X):
            table = as_table(X)
            if fitting:
                self.feature_names_in_ = np.array(table.column_names, object)
                self.n_features_in_ = len(table.column_names)
            return table
        X = validate_data(self, X, dtype=None, ensure_all_finite="allow-nan", reset=fitting)
        return pa.table({f"x{i}": pa.array(column, from_pandas=True) for i, column in enumerate(X.T)})

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the features, `column=value`."""
        check_is_fitted(self, "encoder_")
        return np.array(self.encoder_.feature_names(), object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def _as_frame(X: Any) -> Any:
    if not is_frame(X):
        raise ConfigError("this model was trained on a table; give it a table with the same columns", key="X")
    return as_table(X)


def _as_spec(spec: Any) -> TableSpec | None:
    if spec is None or isinstance(spec, TableSpec):
        return spec
    return TableSpec.from_dict(spec) if isinstance(spec, dict) else TableSpec.from_toml(spec)


def _checkpoint(folder: PathLike | None, seconds: float) -> Checkpoint | NoCheckpoint:
    if folder is None:
        return NoCheckpoint()
    return Checkpoint(folder, seconds, lambda text: warnings.warn(text, stacklevel=4))


def _threads(n_jobs: int | None) -> int:
    """Return how many threads n_jobs means: one if it is None, -1 all cores, -2 all but one.

    >>> _threads(None), _threads(3), _threads(-1) >= 1
    (1, 3, True)
    """
    if n_jobs == 0:
        raise ConfigError("n_jobs must not be 0; None means one thread, -1 all cores", key="n_jobs")
    cores = os.cpu_count() or 1
    return 1 if n_jobs is None else n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def _single_pair(eval_set: Any) -> tuple[Any, Any]:
    pair = eval_set[0] if isinstance(eval_set, list) and len(eval_set) == 1 else eval_set
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ConfigError("eval_set must be one pair (X, y)", key="eval_set")
    return pair


def load(path: PathLike) -> RaFMClassifier | RaFMRegressor:
    """Read a .rafm file as a fitted estimator; column j of a matrix is id j, or j + 1 if ids counted from 1."""
    saved = storage.load(path)
    model, known = saved.model, from_summary(saved.model.options)
    kind = RaFMClassifier if model.loss.task == "binary" else RaFMRegressor
    estimator = kind(ranks=model.plan.ranks, model=model.plan.family, random_state=known.pop("seed", 0), **known)
    estimator.encoder_ = saved.encoder
    estimator._keep(model)
    estimator.n_features_in_ = len(saved.encoder.columns) if saved.encoder else model.numbering.n_inputs
    columns = [column.name for column in saved.encoder.columns] if saved.encoder else saved.columns
    if columns is not None:
        estimator.feature_names_in_ = np.array(columns, object)
    if kind is RaFMClassifier:
        estimator.classes_ = np.array([0, 1] if saved.classes is None else saved.classes)
    return estimator
