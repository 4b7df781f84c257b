"""MRMA: a mixture of factorization machines of all ranks, for rows of two features such as user and item."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..kernels import mixture
from ..kernels.tables import Rows, Tables
from ..model.model import Model
from .family import VECTOR_OPTIONS, Family, refusals

if TYPE_CHECKING:
    from ..options import Options
    from ..train.steps.engine import Engine


class Mrma(Family):
    """sum_p c_p v_i^(p) . v_j^(p) x_i x_j / sum_p c_p, where c_p = a_i^p a_j^p; the a are the mixture weights."""

    name = "mrma"
    rank_arrays = ("mixture",)
    features_per_row = 2
    sums_pairs = False
    optimizers = ("adagrad",)  # its engine has its own AdaGrad step
    has_team = False
    options = VECTOR_OPTIONS
    cannot = refusals(
        "be compressed, be quantised, be trained on a cluster, take wide steps, rank items, give vectors, have a head, "
        "give losses by level, search settings by short runs",
        "each pair weighs its ranks anew; use model='rafm' or 'difacto'",
    )

    def engine(self, recipe: Options, is_wide: bool) -> Callable[..., Engine]:
        """Return the engine of mixtures."""
        from ..train.steps.mixture_engine import MixtureEngine  # prediction needs no training

        return MixtureEngine

    def scores(self, model: Model, rows: Rows, level: int | None = None) -> np.ndarray:
        """Return the scores of rows of feature numbers."""
        found = model.parameters
        assert found.mixture is not None
        return score_mixture(rows, model.tables, model.records, found.bias[0], found.mixture)

    def pair_products(self, model: Model, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the mixture of each pair of features."""
        own = np.asarray(model.parameters.mixture, float)
        total, weights = np.zeros((2, left.size, right.size))
        for p, block in enumerate(model.parameters.factors):
            share = np.outer(own[left, p], own[right, p])
            total += share * (block[left].astype(float) @ block[right].T.astype(float))
            weights += share
        return total / weights


FAMILY = Mrma()


def score_mixture(rows: Rows, tables: Tables, records: np.ndarray, bias: np.float32, weights: np.ndarray) -> np.ndarray:
    """Return the score of every row, given the mixture weights."""
    scores = np.empty(rows.labels.size, records.dtype)
    mixture.score_rows(rows, tables, records, bias, weights, scores)
    return scores
