"""Gibbs sampling of binary labels by the probit model, distilled into one model of log odds.

The mean of the sampled probabilities is collected for rows made of two training rows: these have no labels of their own
to be certain of. One model is fitted to its log odds, then scale and bias to the validation rows.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
from scipy.special import expit, log_ndtr, logit, ndtr

from ...errors import DataValueError
from ...kernels.gibbs_latent import draw_latent
from ...kernels.tables import Rows
from ...metrics import shown_metrics
from ...metrics.evaluation import Metrics
from ...model.parameters import Parameters
from ...plan.ranks import RankPlan
from ...rows.fields import NO_FIELD
from ..events import Distilled
from ..steps.loader import Blocks
from .engine import Gap, GibbsEngine
from .run import GibbsRun

LOGIT_SCALE = 1.7  # log odds divided by the score of the probit model, about
LEAST_PROBABILITY, LEAST_WEIGHT = 1e-4, 0.02  # in distillation
N_SETS, STRIDE = 3, 2  # of recombined rows; every other sweep scores one of them, in turns
CLICK_SWEEPS, CLICK_PRECISION = 8, 3.0
NEWTON_STEPS, LEAST_SCALE = 20, 0.05


class ClickEngine(GibbsEngine):
    """Samples given labels 0 and 1."""

    def __init__(self, rows: Rows, plan: RankPlan, fields: np.ndarray | None, seed: int, bias: float, threads: int = 1):
        wrong = np.flatnonzero((rows.labels != 0) & (rows.labels != 1))
        if wrong.size or (rows.weights != 1).any():
            what = f"label {rows.labels[wrong[0]]:g}" if wrong.size else "row weights other than 1"
            raise DataValueError(f"optimizer='gibbs' samples labels 0 and 1 without weights, found {what}")
        super().__init__(rows, plan, fields, seed, bias / LOGIT_SCALE, threads)
        self.given = rows  # in their order, to distil on
        self.signs = np.where(self.design.labels > 0, 1, -1).astype(np.int8)  # of z
        self.design.labels[:] = 0  # z; the errors are the negative scores until it is drawn
        self.renew()
        self.others: list[Rows] = []
        if fields is not None:
            self.others = [recombined(rows, fields, seed, number) for number in range(N_SETS)]
        self.other_totals = np.zeros((len(self.others), rows.labels.size))

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that sampling changes, by name."""
        return super().state() | {"latent": self.design.labels, "other_totals": self.other_totals}

    def renew(self) -> None:
        """Compute the errors from the parameters; the precision of z is 1."""
        super().renew()
        self.alpha[0] = 1.0

    def sample(self, first: int, stop: int, sweep: int, collects: bool) -> None:
        """Draw z at the start of a sweep, then factors first .. stop - 1."""
        if first == 0:  # not in the middle of a sweep, where a resumed run may begin
            self.team.run(lambda team: draw_latent(self.design, self.signs, self.chain.errors, sweep, *self.key, team))
        super().sample(first, stop, sweep, collects)

    def collect(self, collects: bool) -> float:
        """Collect the probabilities of training rows and of others; return the log loss of the former."""
        scores = self.design.labels - self.chain.errors  # z minus its noise
        if collects:
            self.totals += ndtr(scores)
        number, rest = divmod(int(self.collected[0]) - 1, STRIDE)
        if collects and self.others and not rest:
            turn = number % N_SETS
            self.other_totals[turn] += ndtr(self.scorer()(self.others[turn]))
        return -float(log_ndtr(self.signs * scores.astype(float)).sum())

    def draw_alpha(self, sweep: int, loss: float) -> None:
        """Leave the noise as it is."""

    def pin_alpha(self, sweep: int, mean_square: float) -> None:
        """Leave the noise as it is."""

    def student(self) -> tuple[GibbsEngine, Gap]:
        """Return an engine of one model whose scores are close to the log odds of the mean probabilities."""
        kept = self.collected[0]
        found = np.empty(self.totals.size)
        found[self.arrangement.row_order] = self.totals / kept if kept else ndtr(self.design.labels - self.chain.errors)
        if kept:
            self.chain.numbers[:], self.chain.bias[0] = self.chain.means / kept, self.collected[1] / kept
            self.field_means[0] = self.field_means[1] / kept
        rows = self.given
        if self.others and kept:  # rows whose own labels the samples know would make the student too certain
            turns = ((int(kept) - 1) // STRIDE - np.arange(N_SETS)) // N_SETS + 1
            sets = np.flatnonzero(turns > 0)
            rows = reduce(_joined, [self.others[number] for number in sets])
            found = np.concatenate([self.other_totals[number] / turns[number] for number in sets])
        found = np.clip(found, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        weights = np.maximum(found * (1 - found), LEAST_WEIGHT)  # as log loss weighs errors of log odds
        rows = rows._replace(labels=logit(found).astype(np.float32), weights=weights.astype(np.float32))
        start = self.parameters().undo_scaling(self._scale_to(rows), np.ones(self.plan.n_features, np.float32))
        engine = GibbsEngine(rows, self.plan, self.fields, 0, 0.0, len(self.team.teams))
        return engine, engine.distil_into(start, rows.labels, CLICK_SWEEPS, CLICK_PRECISION)

    def _scale_to(self, rows: Rows) -> float:
        """Return the factor of the current scores that is best for these labels.

        The scores of mean parameters are further apart than the mean of scores.
        """
        scores, weights = self.scorer()(rows).astype(float), rows.weights.astype(float)
        scores -= np.average(scores, weights=weights)
        square, product = (weights * scores**2).sum(), (weights * scores * rows.labels).sum()
        return max(float(product / square), LEAST_SCALE) if square > 0 else LOGIT_SCALE


def recombined(rows: Rows, fields: np.ndarray, seed: int, number: int = 0) -> Rows:
    """Return as many rows, in each of which the features of one field come from another row; number: of such a set.

    In every other set large fields are changed more often: what is asked of a model is mostly other users and items.
    """
    rng, n, sizes = np.random.default_rng([seed, 1 + number]), rows.labels.size, np.diff(rows.indptr)
    counts = np.bincount(fields[fields != NO_FIELD], minlength=1)
    chances = np.sqrt(np.maximum(counts, 1)) ** (number % 2)
    partner, field = rng.permutation(n), rng.choice(chances.size, n, p=chances / chances.sum())
    owner = np.repeat(np.arange(n), sizes)
    own = np.flatnonzero(fields[rows.indices] != field[owner])  # entries that stay
    starts, lengths = rows.indptr[partner], sizes[partner]
    taken = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(lengths.sum())
    receiver = np.repeat(np.arange(n), lengths)  # of the entries of its partner, of which one field fits
    fits = fields[rows.indices[taken]] == field[receiver]
    entries, places = np.concatenate([own, taken[fits]]), np.concatenate([owner[own], receiver[fits]])
    order = np.lexsort((rows.indices[entries], places))  # rows have ascending features
    indptr = np.concatenate([[0], np.cumsum(np.bincount(places, minlength=n))])
    entries = entries[order]
    return rows._replace(indptr=indptr, middles=indptr[1:], indices=rows.indices[entries], values=rows.values[entries])


def _joined(first: Rows, second: Rows) -> Rows:
    indptr = np.concatenate([first.indptr, second.indptr[1:] + first.indptr[-1]])
    names = ("indices", "values", "labels", "weights")
    joined = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in names}
    return Rows(indptr=indptr, middles=indptr[1:], **joined)


class ClickRun(GibbsRun):
    """Samples sweep by sweep given binary labels. Validation rows show when to stop, and set the scale of log odds."""

    engine: ClickEngine
    kind = ClickEngine

    @property
    def start_scale(self) -> float:
        """Divisor of the scores of a model to begin from."""
        return LOGIT_SCALE

    def _mean_loss(self, loss: float) -> float:
        return loss / max(self.n_rows, 1)

    def _measure(self, held_out: Blocks, sweep: int) -> dict[str, float | None]:
        """Return the metrics of the mean of the sampled probabilities so far; during burn-in, of the moving average."""
        metrics = Metrics(self.recipe.loss, shown_metrics(self.recipe.loss, self.recipe.metric))
        score, start = self.engine.scorer(), 0
        for rows in held_out:
            own = slice(start, start + rows.labels.size)
            seen = self._average(own, ndtr(score(rows)), sweep)
            metrics.add(rows.labels, logit(np.clip(seen, 1e-12, 1 - 1e-12)).astype(np.float32), rows.weights)
            start = own.stop
        return metrics.values() if metrics.rows else {}

    def distil(self) -> Distilled:
        """Distil the samples into one model of log odds, and calibrate it."""
        with self.uninterrupted():
            self.is_released = True
            kept, (student, gap) = int(self.engine.collected[0]), self.engine.student()
            # From here on the student is the engine: it scores the validation rows and has the parameters.
            self.engine = student  # type: ignore[assignment]
            is_wanted = self.held_out is not None and self.recipe.calibrate != "off"
            self.scaled = self._calibrated(self.held_out) if is_wanted else None  # type: ignore[arg-type]
            self.at = replace(self.at, best_epoch=self.at.epoch - 1)
            return self._distilled(kept, gap)

    def _calibrated(self, held_out: Blocks) -> tuple[float, float]:
        """Return the factor and the shift of scores that minimise the log loss of the validation rows."""
        score, parts = self.engine.scorer(), [(rows.labels, rows.weights, rows) for rows in held_out]
        if not parts:
            return 1.0, 0.0
        labels, weights = (np.concatenate([part[k] for part in parts]).astype(float) for k in (0, 1))
        return calibration(np.concatenate([score(part[2]) for part in parts]).astype(float), labels, weights)

    def _judge(self, held_out: Blocks) -> dict[str, float | None]:
        """Return the metrics of the calibrated model on the validation rows."""
        metrics, score = Metrics(self.recipe.loss, shown_metrics(self.recipe.loss, self.recipe.metric)), None
        scale, shift = self.scaled or (1.0, 0.0)
        for rows in held_out:
            score = score or self.engine.scorer()
            metrics.add(rows.labels, score(rows) * np.float32(scale) + np.float32(shift), rows.weights)
        return metrics.values() if metrics.rows else {}

    def _parameters(self, last: bool = False) -> Parameters:
        """Return a copy of the parameters, calibrated."""
        found, (scale, shift) = self.engine.parameters(), getattr(self, "scaled", None) or (1.0, 0.0)
        scaled = found.undo_scaling(scale, np.ones(self.features.plan.n_features, np.float32))
        return replace(scaled, bias=scaled.bias + np.float32(shift))


def calibration(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Return a and b that minimise the log loss of a score + b, by Newton's method; a is positive."""
    X, found = np.stack([scores, np.ones_like(scores)], axis=1), np.array([1.0, 0.0])
    for _ in range(NEWTON_STEPS):
        p = expit(X @ found)
        gradient = X.T @ (weights * (p - labels))
        curvature = (X * (weights * np.maximum(p * (1 - p), 1e-9))[:, None]).T @ X + 1e-9 * np.eye(2)
        # Far from the minimum the curvature is too small, and a whole step would be too long.
        step = np.linalg.solve(curvature, gradient)
        found = found - step / max(1.0, np.abs(step).max())
    return max(float(found[0]), LEAST_SCALE), float(found[1])
