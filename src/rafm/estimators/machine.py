"""Base class of the classifier and the regressor."""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from ..checks import AUTO
from ..compress.budget import compress
from ..encode.coverage import Coverage
from ..encode.encoder import TableEncoder
from ..encode.serialize import check_size
from ..errors import ConfigError, DataValueError
from ..export.export import export, note_of, target_of
from ..files.atomic import PathLike
from ..files.terminal import say
from ..model import file as storage
from ..model.model import Model, naming_rows
from ..options import Options, resolve
from ..read.frames import is_table
from ..read.matrices import check_matrix, rows_of_matrix
from ..rows.blocks import join_rows
from ..rows.checked import Batch, CheckedRows, check_batch
from ..rows.overlap import known_ids
from ..rows.source import InMemory
from ..train import train
from ..train.dispatch import run_recipe
from ..train.events import Chosen, Finished, HeldOut
from ..train.progress import show_events
from ..train.recipe import Recipe
from ..train.resources import Resources
from .arguments import (
    about_pipeline,
    about_text,
    as_frame,
    check_labels_given,
    fields_of_columns,
    log_notices,
    open_checkpoint,
    single_pair,
    spec_of_columns,
    targets_to_choose_by,
    threads_of,
    wants_to_stop,
    warn_of_classes,
    warn_of_ids,
    warn_of_unseen,
    warn_of_unseen_validation,
)
from .display import Display
from .insight import Insight
from .parameters import option_parameters
from .threads import locks_of, one_at_a_time


class FactorizationMachine(Insight, Display, BaseEstimator):
    """Training, scoring and saving, shared by the classifier and the regressor."""

    encoder_: TableEncoder | None
    columns: Any
    cross: Any
    n_jobs: int | None
    random_state: Any
    fields: Any
    callbacks: Any
    verbose: bool

    @one_at_a_time
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

        Parameters
        ----------
        X : sparse matrix, array, DataFrame or Arrow table
            Rows. Tables are encoded by the kinds of their columns, see `columns`; column j of a matrix is feature j.
        y : array of shape (n_rows,)
            Labels.
        sample_weight : array of shape (n_rows,), default=None
            Non-negative row weights.
        eval_set : (X, y) or [(X, y)], default=None
            Validation rows, used to choose the best epoch and to stop early. Without them, `validation_fraction` of the
            rows are held out to choose the number of epochs.
        checkpoint : path, default=None
            Directory for checkpoints. An interrupted `fit` resumes from it.
        checkpoint_seconds : float, default=60.0
            Seconds between checkpoints, besides the one at the end of each epoch.

        Returns
        -------
        self
        """
        options = self._options(keep_state=True)  # so that partial_fit can follow
        self.__dict__.pop("model_", None)  # a failure below must not leave a mixture of two models
        data = self._rows(X, y, sample_weight, fitting=True)
        if self._task() == "regression":
            warn_of_classes(np.asarray(data.labels))
        valid = None if eval_set is None else self._validation_rows(*single_pair(eval_set), data)
        with open_checkpoint(checkpoint, checkpoint_seconds) as states:
            self.n_validation_rows_, self.competition_ = 0 if valid is None else valid.n_rows, {}
            resources = Resources(reserved_bytes=self._extra_bytes(), checkpoint=states)
            events = train(self._source(data), options, valid, resources)
            for event in show_events(log_notices(events), options, enabled=self.verbose):
                resources.stop.requested |= wants_to_stop(self.callbacks, event)
                if isinstance(event, HeldOut):
                    self.n_validation_rows_ = event.n_valid
                if isinstance(event, Chosen):
                    self.competition_ = event.metrics
                if isinstance(event, Finished):
                    self._keep(event.model)
        return self

    def _validation_rows(self, X: Any, y: Any, trained: CheckedRows) -> CheckedRows:
        """Return the rows of eval_set; warn if most of their values are unknown to the training rows."""
        coverage = Coverage()
        try:
            rows = self._rows(X, y, fitting=False, coverage=coverage)
        except ValueError as error:
            raise about_pipeline(error) from None
        if self.encoder_ is None:
            coverage.add_ids(known_ids(InMemory(rows), InMemory(trained)))
        warn_of_unseen_validation(coverage)
        return rows

    @one_at_a_time
    def _partial_fit(self, X: Any, y: Any, sample_weight: Any, replan: bool, classes: Any = None) -> Self:
        """Train for one pass over the rows, in order, starting from the current model if there is one."""
        options = self._options(shuffle=False, keep_state=True, replan=replan)
        recipe = replace(Recipe.of(options), n_epochs=1, averaging=False)
        start, encoder = None, None
        if not hasattr(self, "model_"):
            data = self._rows(X, y, sample_weight, fitting=True, classes=classes)
        elif self.encoder_ is None:
            start, data = self._trained, self._rows(X, y, sample_weight, fitting=False)
        else:
            encoder, rows = self.encoder_.grow_then_encode(as_frame(X), targets=False)
            check_size(encoder)
            start = self._trained.with_ids(self.encoder_.ids_in(encoder), encoder.n_features)
            data = self._with_targets(join_rows(list(rows)), column_or_1d(y, warn=True), sample_weight)
        source = self._source(data, encoder)
        for event in show_events(run_recipe(source, recipe, start=start), options, enabled=self.verbose):
            if isinstance(event, Finished):
                with locks_of(self).exchange:
                    self._keep(event.model)
                    self.encoder_ = encoder or self.encoder_  # only now: a failed call leaves the estimator as it was
        return self

    def _source(self, rows: CheckedRows, encoder: TableEncoder | None = None) -> InMemory:
        """Return training rows with their fields: the columns of a table, or those given for a matrix."""
        encoder = encoder or self.encoder_
        if encoder is not None:
            if self.fields is not None:
                raise ConfigError("fields are for matrices; those of a table are its columns. Drop fields.", "fields")
            return InMemory(rows, encoder.fields())
        return InMemory(rows, fields_of_columns(self.fields, self.n_features_in_))

    def _task(self) -> str:
        """Return the kind of labels."""
        raise NotImplementedError

    def _options(self, **wishes: bool) -> Options:
        """Return the checked options of training."""
        return resolve(task=self._task(), **self._given(), **wishes)

    def _given(self) -> dict[str, Any]:
        """Return the options as they were given."""
        chosen = {name: getattr(self, parameter) for name, parameter in option_parameters(type(self))}
        chosen["threads"] = threads_of(self.n_jobs)
        whole = isinstance(self.random_state, int | np.integer)  # used as is, so that it equals --seed
        chosen["seed"] = int(self.random_state if whole else check_random_state(self.random_state).randint(2**31))
        return chosen

    def _rows(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        fitting: bool,
        classes: Any = None,
        coverage: Coverage | None = None,
    ) -> CheckedRows:
        """Return X and y as checked rows; fitting sets the columns or the encoder, otherwise X must match them."""
        if fitting:
            self.encoder_ = None
        if self.encoder_ is not None or (fitting and is_table(X)):
            y = None if y is None else column_or_1d(y, warn=True)
            rows = self._encode(X, coverage, y, sample_weight)
        else:
            rows, y = self._matrix(X, y, fitting)
        return self._with_targets(rows, y, sample_weight, fitting, classes)

    def _with_targets(
        self, rows: Batch, y: Any, sample_weight: Any, fitting: bool = False, classes: Any = None
    ) -> CheckedRows:
        weights = labels = None
        if y is not None:
            check_labels_given(y)
            labels = self._labels(y, fitting, classes)
        if sample_weight is not None:
            like_X = np.empty((rows.n_rows, 1), np.float64)  # scikit-learn reads its length and dtype only
            weights = _check_sample_weight(sample_weight, like_X, ensure_non_negative=True)
        return check_batch(Batch(rows.indptr, rows.indices, rows.values, rows.n_features, labels, weights))

    def _encode(self, X: Any, coverage: Coverage | None = None, y: Any = None, sample_weight: Any = None) -> Batch:
        """Encode a table; the first call fits the encoder. coverage: if given, counts known and unseen values.

        y, sample_weight: choose conjunctions.
        """
        table = as_frame(X)
        if self.encoder_ is not None:
            return self.encoder_.encode(table, targets=False, coverage=coverage)
        spec, report = spec_of_columns(self.columns, self.cross), say if self.verbose else None
        is_auto = spec is not None and spec.cross == AUTO
        targets = targets_to_choose_by(y, sample_weight, table.num_rows) if is_auto else None
        self.encoder_, rows = TableEncoder.learn_encode(table, spec, report, targets=False, chosen_by=targets)
        check_size(self.encoder_)
        self.feature_names_in_ = np.array(table.column_names, object)
        self.n_features_in_ = self.feature_names_in_.size
        return rows

    def _matrix(self, X: Any, y: Any, fitting: bool) -> tuple[Batch, Any]:
        if fitting and self.columns is not None:
            raise ConfigError("columns are those of a table, but X is a matrix; pass a data frame", key="columns")
        if fitting and self.cross not in (None, "off"):
            raise ConfigError("cross names columns of a table, but X is a matrix; pass a data frame", key="cross")
        checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float32, np.float64], "reset": fitting}
        check_matrix(X)  # first: validate_data converts to CSR and would crash on malformed indices
        if y is not None:
            check_labels_given(y)
        try:
            if y is None and not fitting:
                X = validate_data(self, X, **checks)
            else:
                X, y = validate_data(self, X, y, **checks)
        except ValueError as error:
            raise about_text(error) from None
        if fitting:
            warn_of_ids(X)
        return rows_of_matrix(X), y

    def _labels(self, y: np.ndarray, fitting: bool, classes: Any = None) -> np.ndarray:
        with np.errstate(over="ignore"):  # becomes infinite, which is reported with its row
            try:
                return np.asarray(y, np.float32)
            except ValueError:
                found = next((label for label in y if isinstance(label, str)), y[0])
                raise DataValueError(
                    f"labels must be numbers, found {found!r}; for classes, use RaFMClassifier"
                ) from None

    def _keep(self, model: Model) -> None:
        self._trained = model  # with optimiser state, for partial_fit; shares its arrays with model_
        self.model_ = model.for_scoring()
        self.n_parameters_ = self.model_.n_parameters
        self.history_ = model.history
        self.best_epoch_ = model.best_epoch

    @property
    def levels_(self) -> np.ndarray:
        """Level of each feature: the number of its factor vectors, 0 if it was never seen in training."""
        return self._fitted().levels()

    @property
    def feature_counts_(self) -> np.ndarray:
        """Number of training rows in which each feature was nonzero."""
        return self._fitted().feature_counts()

    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    def _now(self) -> Self:
        """Return the estimator as it is now, whatever `partial_fit` makes of it in another thread."""
        found = object.__new__(type(self))
        with locks_of(self).exchange:
            found.__dict__.update(self.__dict__)
        return found

    def __getstate__(self) -> Any:
        with locks_of(self).exchange:
            return super().__getstate__()

    def _scores(self, X: Any, level: int | None = None) -> np.ndarray:
        return self._scored(X, level)[2]

    def _linked(self, X: Any, level: int | None = None) -> tuple[Model, CheckedRows, np.ndarray]:
        """Return the model as it is now, the encoded rows and their predictions."""
        now, rows, scores = self._scored(X, level)
        with naming_rows(lambda id: now._names().of_id(id)):
            return now.model_, rows, now.model_.link(scores, rows)

    def _scored(self, X: Any, level: int | None) -> tuple[Self, CheckedRows, np.ndarray]:
        """Return the estimator as it is now, the encoded rows and their scores."""
        now, coverage = self._now(), Coverage()
        model, rows = now._fitted(), now._rows(X, fitting=False, coverage=coverage)
        if now.encoder_ is not None:
            self.coverage_ = coverage
            warn_of_unseen(coverage)
        with naming_rows(lambda id: now._names().of_id(id)):
            return now, rows, model.scores(rows, level, threads_of(self.n_jobs)).astype(np.float64)

    def save(self, path: PathLike, keep_state: bool = False) -> None:
        """Save the model to a file; an existing file is replaced atomically.

        Parameters
        ----------
        path : path
            Model file to write (.rafm).
        keep_state : bool, default=False
            Save the optimiser state too, so that `partial_fit` of the loaded model continues exactly.
        """
        now = self._now()
        model = now._trained if now._fitted() and keep_state else now._fitted()
        storage.save(path, now._saved(model))

    def export(self, path: PathLike, to: str | None = None) -> None:
        """Write the model for use without rafm; an existing file is replaced atomically.

        Parameters
        ----------
        path : path
            File to write.
        to : {"onnx", "c", "python"}, default=None
            Format; by default that of the file name: .onnx, .c or .py. ONNX needs the package onnx.
        """
        now = self._now()
        saved = now._saved(now._fitted())
        to = target_of(path) if to is None else to
        export(saved, to, path)
        if (note := note_of(saved, to)) is not None:
            logging.getLogger("rafm").info(note)

    def _saved(self, model: Model) -> storage.Saved:
        """Return the content of the model's file."""
        return storage.Saved(model, self.encoder_, 0, *self._described())

    def _described(self) -> tuple[list[Any] | None, list[str] | None]:
        """Return classes and column names for the file."""
        # JSON has no NumPy scalars
        classes = [value.item() if hasattr(value, "item") else value for value in getattr(self, "classes_", [])]
        names = getattr(self, "feature_names_in_", None)
        return classes or None, None if names is None else [str(name) for name in names]

    def _extra_bytes(self) -> int:
        """Return what the file of the model will hold besides the model."""
        return storage.extra_bytes(self.encoder_, *self._described())

    def compress(
        self,
        max_parameters: int | None = None,
        max_bytes: int | None = None,
        level: int | None = None,
        bits: int | None = None,
    ) -> Self:
        """Return a smaller model: shorter vectors, fewer bits or levels.

        Vectors are rotated to their principal axes, which changes no score. Those of an FM or DiFacto are cut to
        lengths of their own, those of a RaFM level by level. `ranks="auto"` does the same and trains the result
        further, which is better.

        Parameters
        ----------
        max_parameters : int, default=None
            Maximum number of parameters.
        max_bytes : int, default=None
            Maximum size of the file that `save` writes.
        level : int, default=None
            Highest level of a RaFM to keep; the model then scores B_{1,level} of the paper.
        bits : {16, 8, 6, 4}, default=None
            Bits per coordinate (32 after training; unchanged by default). Coordinates are rounded after any cut.

        Returns
        -------
        RaFMClassifier or RaFMRegressor
            A new estimator; this one is not changed.
        """
        small, found = compress(self._saved(self._fitted()), max_parameters, max_bytes, level, bits).model, copy(self)
        found.ranks, found.model = small.plan.ranks, small.plan.family
        found._keep(small)
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
