"""Share of the loss by level: how much each level of a RaFM adds to linear terms alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import ConfigError, DataValueError
from ..metrics.evaluation import check_rows_alone, evaluate
from ..model.model import Model
from ..rows.checked import CheckedRows
from ..rows.numbering import number_rows


@dataclass(frozen=True)
class LevelLoss:
    """Loss of a model that is cut off above a level.

    Parameters
    ----------
    level : int
        Highest level in use: 0 for bias and linear terms alone.
    rank : int
        Rank of that level, 0 for level 0.
    loss : float
        The first metric of the loss, such as log loss or RMSE.
    gain : float
        Loss of the level below less this loss.
    """

    level: int
    rank: int
    loss: float
    gain: float


def level_losses(model: Model, batch: CheckedRows) -> list[LevelLoss]:
    """Return the loss of linear terms alone, then with every further level; other families than RaFM have one."""
    if batch.labels is None or not batch.n_rows:
        raise DataValueError("losses by level need labelled rows")
    if not model.plan.traits.has_common_vectors:
        raise ConfigError(f"model {model.plan.family!r} has no levels", key="model")
    check_rows_alone(model.loss)
    rows, name = number_rows(batch, model.numbering), model.loss.metrics[0]
    weights = np.ones(batch.n_rows) if batch.weights is None else batch.weights
    n_levels, ranks = model.plan.n_levels, (0, *model.plan.ranks)
    levels = [*range(n_levels + 1)] if model.plan.nested else sorted({0, n_levels})
    found: list[LevelLoss] = []
    for level in levels:
        is_all = level == n_levels
        scores = model.base_scores(rows, None if is_all else level)
        loss = evaluate(model.loss, np.asarray(batch.labels), scores, weights, [name])[name]
        assert loss is not None
        gain = found[-1].loss - loss if found else 0.0
        found.append(LevelLoss(level, int(ranks[level]), loss, gain))
    return found
