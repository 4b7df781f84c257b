"""What a model does on test rows: metrics, curves, a sample for explanations, and values it has never seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..encode.coverage import Coverage
from ..errors import DataValueError
from ..explain.importance import Importance, measure_importance
from ..explain.names import FeatureNames
from ..explain.views import Overview, overview
from ..metrics.auc import Auc
from ..metrics.evaluation import Evaluation
from ..model.model import Model, naming_rows
from ..rows.blocks import join_rows, take_rows
from ..rows.checked import CheckedRows

CURVE_ROWS = 200_000  # whose predictions are kept for histograms
IMPORTANCE_ROWS, IMPORTANCE_REPEATS = 10_000, 3  # seconds, not minutes, for 100 columns
OVERVIEW_ROWS = 500  # explained one by one
ROC_POINTS = 200  # more cannot be seen


@dataclass(frozen=True)
class Results:
    """Results on test rows.

    Parameters
    ----------
    name : str
        What the rows are called, such as the file name.
    report : dict
        Rows, metrics and, for probabilities, calibration.
    labels, predictions : ndarray
        Of the first rows.
    roc : (ndarray, ndarray) or None
        False and true positive rates; None if the labels are not of two classes.
    importance : list of Importance
        Rise of the loss when a column is permuted.
    terms : Overview or None
        Mean size of terms; None for models without explanations.
    coverage : Coverage
        Values of a table that were known; empty for rows of ids.
    unseen_share : float
        Share of nonzeros whose feature the model does not know.
    """

    name: str
    report: dict[str, Any]
    labels: np.ndarray
    predictions: np.ndarray
    roc: tuple[np.ndarray, np.ndarray] | None
    importance: list[Importance]
    terms: Overview | None
    coverage: Coverage
    unseen_share: float


def evaluate_rows(
    model: Model, batches: Iterable[CheckedRows], names: FeatureNames, name: str, coverage: Coverage, threads: int = 1
) -> Results:
    """Score labelled rows batch by batch; explanations use the first rows."""
    evaluation, kept, first = Evaluation(model.loss), [], []  # type: Evaluation, list[np.ndarray], list[CheckedRows]
    n_rows = n_first = n_kept = nonzeros = unseen = 0
    for batch in batches:
        if batch.labels is None:
            raise DataValueError("a report on data needs labels", path=name)
        with naming_rows(names.of_id, n_rows):
            scores = model.scores(batch, threads=threads)
            predictions = model.link(scores.astype(float), batch)
        n_rows += batch.n_rows
        evaluation.add(batch.labels, scores, np.ones(batch.n_rows) if batch.weights is None else batch.weights)
        nonzeros += batch.indices.size
        # of rows of ids; a table drops what its encoder does not know
        unseen += int((model.numbering.lookup(batch.indices) < 0).sum())
        if n_kept < CURVE_ROWS:
            kept.append(np.stack([batch.labels, predictions]))
            n_kept += batch.n_rows
        if n_first < IMPORTANCE_ROWS:
            first.append(take_rows(batch, 0, min(batch.n_rows, IMPORTANCE_ROWS - n_first)))
            n_first += first[-1].n_rows
    if not first or not evaluation.metrics.weight > 0:
        raise DataValueError("no rows", path=name)
    sample, (labels, predictions) = join_rows(first), np.concatenate(kept, axis=1)
    found = []
    if sample.n_rows > 1:
        found = measure_importance(model, sample, names, repeats=IMPORTANCE_REPEATS, threads=threads)
    return Results(
        name=name,
        report=evaluation.report(),
        labels=labels[:CURVE_ROWS],
        predictions=predictions[:CURVE_ROWS],
        roc=roc_curve(evaluation),
        importance=found,
        terms=overview(model, take_rows(sample, 0, min(OVERVIEW_ROWS, sample.n_rows)), names),
        coverage=coverage,
        unseen_share=unseen / max(nonzeros, 1),
    )


def roc_curve(evaluation: Evaluation) -> tuple[np.ndarray, np.ndarray] | None:
    """Return false and true positive rates by descending threshold, at most 200 points; None without two classes."""
    auc = evaluation.metrics.metrics.get("auc")
    if not isinstance(auc, Auc) or auc.value() is None:
        return None
    positive, negative = (np.concatenate([[0.0], np.cumsum(sums[::-1])]) for sums in auc.ranking.columns[:, :2].T)
    false, true = negative / negative[-1], positive / positive[-1]
    along = np.searchsorted(false + true, np.linspace(0, 2, ROC_POINTS))  # evenly along the curve
    places = np.unique(np.concatenate([[0], np.minimum(along, true.size - 1), [true.size - 1]]))
    return false[places], true[places]
