"""How to cut a sampled model: the settings that are best on validation rows; see decision 0036.

Vectors are cut in principal axes, or in those that suit the products of the largest field with all others. Fields whose
features say little beyond others, such as where a user lives, may lose all vectors, so that others can be longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix

from ...compress.budget import Budget, cut_within
from ...compress.cut import Cutter
from ...compress.lengths import FINE_LENGTHS
from ...compress.rotation import Sides, balancing_map
from ...metrics import is_better
from ...model.model import Model
from ...model.parameters import Parameters
from ...plan.features import PlannedFeatures
from ..events import Distilled
from ..recipe import Recipe
from ..schedule import CutSettings
from ..steps.job import Job
from ..steps.loader import Blocks
from ..steps.measured import order_of
from .run import GibbsRun, make_run

CUT_PRECISIONS = (
    15.0,
    50.0,
)  # towards the vectors that were cut, which know more of the samples than the training rows alone
LEAST_SHARE, MOST_FIELDS = 0.02, 4  # of factors that a field takes, and how many fields, to try without their vectors
ROWS = 1 << 15  # whose sums of vectors are in memory at a time


class Candidate:
    """A cut model and the run that distils samples into it."""

    def __init__(self, job: Job, recipe: Recipe, cut: Model, features: PlannedFeatures):
        self.cut, plan = cut, cut.plan
        self.features = features.arranged(order_of(cut, features))._replace(plan=plan)
        l2 = recipe.l2[:1] * len(plan.ranks)
        chosen = replace(recipe, model=plan.family, ranks=plan.ranks, l2=l2, measured=False, keep_samples=0)
        self.run = make_run(job, self.features, chosen)

    def distil(self, target: np.ndarray, samples: int, prior_precision: float) -> Distilled:
        """Fit what is left to the mean scores of the training rows."""
        return self.run.distil_into(_scaled(self.cut, self.run), target, samples, prior_precision)


@dataclass(frozen=True)
class SampledCuts:
    """Cuts a sampled model within a budget by several settings.

    target, samples: mean scores of the training rows, and of how many samples.
    """

    job: Job
    recipe: Recipe
    model: Model
    features: PlannedFeatures
    target: np.ndarray
    samples: int
    budget: Budget

    def candidate(self, settings: CutSettings) -> Candidate:
        """Return the model that is left if it is cut by these settings."""
        importance = self.job.found.squares_of(self.model.numbering.ids)
        cutter = Cutter(self.model, importance, self._sides() if settings.is_balanced else None, FINE_LENGTHS)
        if settings.without:
            cutter = cutter.without(np.isin(self._fields(), settings.without))
        return Candidate(self.job, self.recipe, cut_within(cutter, self.budget), self.features)

    def best(self) -> CutSettings:
        """Return the settings whose model has the best metric on the validation rows."""
        best, found = None, CutSettings()
        cuts = [CutSettings(is_balanced) for is_balanced in ((False, True) if len(self._energies()) > 1 else (False,))]
        tried = {settings: self._try(settings) for settings in cuts}
        for settings, (value, prior_precision, _) in tried.items():
            if best is None or is_better(self.recipe.metric, value, best):
                best, found = value, replace(settings, prior_precision=prior_precision)
        shares = tried[replace(found, prior_precision=CutSettings().prior_precision)][2]
        for field in self._spare(shares):
            settings = replace(found, without=(*found.without, field))
            value, prior_precision, _ = self._try(settings)
            if is_better(self.recipe.metric, value, best):
                best, found = value, replace(settings, prior_precision=prior_precision)
        return found

    def _try(self, settings: CutSettings) -> tuple[float | None, float, np.ndarray]:
        """Return the metric of settings with the best precision of the prior, that precision, and shares of fields."""
        candidate, best, found = self.candidate(settings), None, CUT_PRECISIONS[-1]
        for prior_precision in CUT_PRECISIONS:
            value = candidate.distil(self.target, self.samples, prior_precision).metrics.get(self.recipe.metric)
            if best is None or is_better(self.recipe.metric, value, best):
                best, found = value, prior_precision
        return best, found, self._shares(candidate)

    # Fields

    def _fields(self) -> np.ndarray:
        """Return the number of the field of each feature of the large model."""
        fields = self.features.fields
        return np.full(self.features.counts.size, -1) if fields is None else fields.numbers

    def _energies(self) -> dict[int, float]:
        """Return sum_i n_i |v_i|^2 of each field that is known."""
        squares = self.features.counts * (self.model.parameters.factors[0].astype(float) ** 2).sum(axis=1)
        fields = self._fields()
        return {int(one): float(squares[fields == one].sum()) for one in np.unique(fields[fields >= 0])}

    def _shares(self, candidate: Candidate) -> np.ndarray:
        """Return the share of all factors that the features of each field have."""
        fields, plan = candidate.features.fields, candidate.cut.plan
        if fields is None or not plan.ranks:
            return np.zeros(0)
        lengths = np.array([0, *plan.ranks])[plan.levels()]
        known = fields.numbers >= 0
        return np.bincount(fields.numbers[known], lengths[known]) / max(lengths.sum(), 1)

    def _spare(self, shares: np.ndarray) -> list[int]:
        """Return fields to try without vectors, the largest share first; all but the two that have most of them."""
        order = np.argsort(-shares, kind="stable")[2:]
        return [int(field) for field in order if shares[field] >= LEAST_SHARE][:MOST_FIELDS]

    def _sides(self) -> Sides:
        """Return the features of the field that carries most, and coordinates for their products with all others."""
        energies = self._energies()
        first = self._fields() == max(energies, key=energies.__getitem__)
        vectors = self.model.parameters.factors[0].astype(float)
        count, sums, moments = 0, np.zeros((2, vectors.shape[1])), np.zeros((2, *(vectors.shape[1],) * 2))
        for rows in self._rows():
            for side, own in enumerate((first, ~first)):
                part = rows @ (vectors * own[:, None])
                sums[side] += part.sum(axis=0)
                moments[side] += part.T @ part
            count += rows.shape[0]
        # Less the means, which are parts of the weights of the other side.
        return Sides(first, balancing_map(*(moments - sums[:, :, None] * sums[:, None, :] / max(count, 1))))

    def _rows(self) -> Iterator[csr_matrix]:
        """Yield the training rows, some at a time."""
        n = self.features.counts.size
        for rows in Blocks(self.job.source, self.features.numbering, np.ones(n, np.float32)):
            whole = csr_matrix((rows.values, rows.indices, rows.indptr), shape=(rows.labels.size, n))
            yield from (whole[start : start + ROWS] for start in range(0, rows.labels.size, ROWS))


def _scaled(cut: Model, run: GibbsRun) -> Parameters:
    """Return the parameters of a cut model on the scale of training."""
    scale, found = run.label_scale, cut.parameters
    bias = found.bias / np.float32(scale)
    return replace(found.undo_scaling(1 / scale, 1 / run.features.value_scales), bias=bias)
