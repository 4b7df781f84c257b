"""Load model files as fitted estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..files.atomic import PathLike
from ..losses import loss_named
from ..model import file as storage
from ..options import from_summary
from .classifier import RaFMClassifier
from .ranker import RaFMRanker
from .regressor import RaFMRegressor


def load(path: PathLike) -> RaFMClassifier | RaFMRegressor | RaFMRanker:
    """Load a model file as a fitted estimator.

    Parameters
    ----------
    path : path
        Model file (.rafm), written by `save` or by `rafm train`, or folder of parts, by `rafm train --ray`.

    Returns
    -------
    RaFMClassifier, RaFMRegressor or RaFMRanker
        Column j of a matrix is feature id j of the training file, or j + 1 if its ids started from 1.

    Raises
    ------
    rafm.errors.ModelFileError
        If the file is not a model, is damaged or was written by a newer version.
    """
    saved = storage.load(path)
    model = saved.model
    known = {"validation_fraction": 0.0, **from_summary(model.options, model.plan.family)}
    kind: Any = RaFMClassifier if model.loss.is_classification else RaFMRegressor
    kind = RaFMRanker if model.loss.is_ranking else kind
    if kind is not RaFMClassifier:
        # by name where its settings are the defaults, as a user would write it
        known["loss"] = model.loss.name if model.loss == loss_named(model.loss.name) else model.loss
    estimator = kind(ranks=model.plan.ranks, random_state=known.pop("seed", 0), **known)
    estimator.encoder_ = saved.encoder
    estimator.columns = saved.encoder.spec if saved.encoder else None  # so that a new fit keeps the kinds
    estimator._keep(model)
    columns = saved.columns
    if columns is None and saved.encoder:  # `rafm train` does not keep the order of columns
        columns = [column.name for column in saved.encoder.columns]
    estimator.n_features_in_ = model.numbering.n_inputs if columns is None else len(columns)
    if columns is not None:
        estimator.feature_names_in_ = np.array(columns, object)
    if kind is RaFMClassifier:
        estimator.classes_ = np.array([0, 1] if saved.classes is None else saved.classes)  # None: from `rafm train`
    return estimator
