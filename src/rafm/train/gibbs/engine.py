"""The engine of Gibbs sampling: draws the parameters of FM, DiFacto and LR, sums the draws and distils them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ...jit.compile import PLAIN
from ...kernels import gibbs
from ...kernels.gibbs_rows import collect_scores
from ...kernels.gibbs_tables import INNER, OWN, Chain, Draw
from ...kernels.tables import Rows, Tables, Team
from ...model.parameters import Parameters
from ...model.samples import Samples
from ...model.scores import score
from ...plan.design import Arrangement, arrange_rows
from ...plan.layout import RecordLayout
from ...plan.ranks import RankPlan
from ...plan.scratch import on_pages
from ..steps.team import ThreadTeam, Trained

FIRST_SPREAD = 0.1  # standard deviation of the first sum of a field in a row, per factor: with 0 it would stay there
FIRST_PRECISIONS = 5.0, 20.0  # lambda / s of weights and of factors; much larger ones keep factors at 0
FIXED_SWEEPS = 3  # with lambda and alpha as they are: the first weights are 0, and lambda would grow without bound
RENEWAL_SWEEPS = 16  # sweeps after which the errors are computed anew, without the rounding of many updates
TEMPERED_SWEEPS = 10  # first sweeps that take the noise for less than it is, if they do
PIECE_WORK = 1 << 22  # nonzeros times factors of a call, between two checks of the clock and for Ctrl-C
DISTILLING_SWEEPS, DISTILLING_PRECISION = 8, 0.5  # lambda / s of the prior around the mean of the samples
SCORING_ROWS = 1 << 14  # rows scored by a thread at a time
WORD_BITS, WORD = 32, (1 << 32) - 1


class Gap(NamedTuple):
    """RMSE between a model and the mean of the sampled scores: mean of the parameters, and after distillation."""

    before: float
    after: float


class GibbsEngine:
    """Samples all parameters given the rows; see kernels/gibbs_tables.py.

    rows: training rows with labels divided by label_scale, features numbered as in the plan. fields: the field of each
    feature, by default one for all.
    """

    def __init__(self, rows: Rows, plan: RankPlan, fields: np.ndarray | None, seed: int, bias: float, threads: int = 1):
        self.fields = fields
        self.plan, self.layout = plan, RecordLayout(plan, with_states=False)
        self.tables, self.key = self.layout.tables(), (seed & WORD, seed >> WORD_BITS & WORD)
        self.arrangement = arrange_rows(rows, plan, fields)
        self.design, self.n_factors = self.arrangement.design, sum(plan.block_ranks)
        self.chain = _first_chain(self.arrangement, plan, seed, bias)
        parts = self.design.cuts.size - 1
        self.team = ThreadTeam(1 if PLAIN else min(threads, parts))
        self.totals = np.zeros(rows.labels.size)  # sums of the sampled scores of the training rows
        self.collected = np.zeros(2)  # how many sweeps, and the sum of their biases
        self.alpha = np.ones(1)
        self.inverse_temperature = np.ones(1)  # factor of alpha in the first sweep, then falling to 1
        self.is_certain = self.arrangement.is_certain()
        self.field_means = np.zeros((2, *self.is_certain.shape))  # mu, of the last sweep and summed
        self.kept: dict[str, np.ndarray] = {}  # samples, by the names of their arrays
        self.valid: dict[str, np.ndarray] = {}  # moving average and sum of the scores of validation rows
        self.start = seed, bias
        self.renew()

    def restart(self, inverse_temperature: float) -> None:
        """Begin again where the chain began, but with another temperature."""
        seed, self.chain.bias[0] = self.start
        self.chain.numbers[:], self.chain.hyper[:] = _first_numbers(self.arrangement, self.n_factors, seed)
        for array in (self.chain.means, self.totals, self.collected, self.field_means, *self.kept.values()):
            array[:] = 0
        for array in self.valid.values():
            array[:] = 0
        self.inverse_temperature[0] = inverse_temperature
        self.renew()

    def renew(self) -> None:
        """Compute the errors and the precision of the noise from the parameters, at the start of a chain."""
        self._run(gibbs.renew_errors, self.design.labels)
        variance = float(np.average(self.chain.errors.astype(float) ** 2, weights=self._row_weights))
        self.alpha[0] = 1 / max(variance, 1e-12)

    def weigh_fields(self, weights: np.ndarray) -> None:
        """Set the weight of each field, which stays as it is while parameters are drawn."""
        self.chain.shares[INNER], self.chain.shares[OWN] = weights, 1 - weights**2

    @property
    def field_weights(self) -> np.ndarray | None:
        """Weight of each field, None if they have none."""
        return self.chain.shares[INNER].copy() if self.plan.n_field_weights else None

    @cached_property
    def _row_weights(self) -> np.ndarray | None:
        return self.design.weights if self.design.weights.size else None

    def state(self) -> dict[str, np.ndarray]:
        """Return all arrays that sampling changes, by name; not copies, so they can be saved and restored."""
        names = ("numbers", "bias", "errors", "hyper", "means", *(("shares",) if self.plan.n_field_weights else ()))
        own = {
            name: getattr(self, name) for name in ("totals", "collected", "alpha", "inverse_temperature", "field_means")
        }
        own |= {f"kept_{name}": array for name, array in self.kept.items()}
        own |= {f"valid_{name}": array for name, array in self.valid.items()}
        return {name: getattr(self.chain, name) for name in names} | own

    # Sampling

    def pieces(self) -> list[tuple[int, int]]:
        """Return ranges of factors, 0 for the weights, that are sampled in one call each."""
        size = max(1, PIECE_WORK // max(self.design.ids.size, 1))
        return [(first, min(first + size, self.n_factors + 1)) for first in range(0, self.n_factors + 1, size)]

    def sample(self, first: int, stop: int, sweep: int, collects: bool) -> None:
        """Draw factors first .. stop - 1 of a sweep, counted from 0; `collects` sums the means of what is drawn."""
        alpha = self.alpha[0] * (1 + (self.inverse_temperature[0] - 1) * max(1 - sweep / TEMPERED_SWEEPS, 0))
        draw = Draw(sweep, *self.key, float(alpha), sweep >= FIXED_SWEEPS, collects, 0.0)
        self._run(gibbs.sample_factors, first, stop, draw=draw)

    def finish_sweep(self, sweep: int, collects: bool) -> float:
        """Collect what was sampled; return the loss of the training rows."""
        if sweep % RENEWAL_SWEEPS == RENEWAL_SWEEPS - 1:
            self._run(gibbs.renew_errors, self.design.labels)
        self.field_means[0] = self.chain.hyper[1 - sweep % 2, :, :, 1]
        if collects:
            self.collected += 1, self.chain.bias[0]
            self.field_means[1] += self.field_means[0]
        return self.collect(collects)

    def collect(self, collects: bool) -> float:
        """Collect the scores of the training rows; return the weighted sum of their squared errors."""
        return collect_scores(self.design, self.chain.errors, self.totals, collects)

    def pair_size(self, sweep: int) -> float:
        """Return the deviation of the pairs of a row in relation to the noise, as the priors of a sweep expect it.

        It is that of rows with something of each field.
        """
        variances = self.design.sizes / self.chain.hyper[1 - sweep % 2, 1:, :, 0]
        pairs = 0.5 * (variances.sum(axis=1) ** 2 - (variances**2).sum(axis=1)).sum()
        return float(np.sqrt(pairs * self.alpha[0]))

    def make_room(self, n_samples: int) -> None:
        """Make room for samples of the parameters."""
        names = Samples.stacked([self.parameters()]).arrays() if n_samples else {}
        self.kept = {name: np.zeros((n_samples, *array.shape[1:]), array.dtype) for name, array in names.items()}

    def keep_sample(self, place: int) -> None:
        """Keep the current parameters as the sample of this place."""
        for name, array in Samples.stacked([self.parameters()]).arrays().items():
            self.kept[name][place] = array[0]

    def draw_alpha(self, sweep: int, loss: float) -> None:
        """Draw the precision of the noise given the squared errors, for want of validation rows."""
        if sweep >= FIXED_SWEEPS:
            weight = float(self.design.labels.size if self._row_weights is None else self._row_weights.sum())
            self.alpha[0] = gibbs.draw_noise(weight, loss, sweep, *self.key)

    def pin_alpha(self, sweep: int, mean_square: float) -> None:
        """Set the precision of the noise to the one that validation rows show."""
        if sweep >= FIXED_SWEEPS:
            self.alpha[0] = 1 / max(mean_square, 1e-12)

    def _run(self, kernel: object, *given: object, draw: Draw | None = None) -> None:
        def call(team: Team) -> Trained:
            more = (team,) if draw is None else (draw, team)
            return kernel(self.design, *given, self.chain, *more)  # type: ignore[operator]

        self.team.run(call)

    # Distillation

    def distil(self, prior_precision: float = DISTILLING_PRECISION) -> Gap:
        """Replace the parameters by those of one model close to the mean of the sampled scores on the training rows.

        It starts from the mean of the parameters and moves each in turn to its best value, pulled back to that mean.
        """
        chain, (kept, bias) = self.chain, self.collected
        if kept == 0:  # stopped during burn-in: the last sample stands for all
            return Gap(0.0, 0.0)
        target = (self.totals / kept).astype(np.float32)
        chain.numbers[:], chain.bias[0] = chain.means / kept, bias / kept
        self.field_means[0] = self.field_means[1] / kept
        return self._approach(target, DISTILLING_SWEEPS, prior_precision)

    def mean_scores(self) -> np.ndarray:
        """Return the mean of the sampled scores of the training rows, in their order; the current ones if none."""
        kept, chain, found = self.collected[0], self.chain, np.empty(self.totals.size, np.float32)
        found[self.arrangement.row_order] = self.totals / kept if kept else self.design.labels - chain.errors
        return found

    def distil_into(
        self,
        start: Parameters,
        target: np.ndarray,
        sweeps: int = DISTILLING_SWEEPS,
        prior_precision: float = DISTILLING_PRECISION,
    ) -> Gap:
        """Replace the parameters by those of a model near `start` close to a target for each training row."""
        self._put(start)
        return self._approach(target[self.arrangement.row_order], sweeps, prior_precision)

    def _put(self, given: Parameters) -> None:
        """Set the parameters, given in the order of the plan."""
        numbers, places, first = self.chain.numbers, self.arrangement.places, 1
        numbers[:], self.chain.bias[0], self.field_means[0] = 0, given.bias[0], 0
        numbers[0, places] = given.weights
        if given.fields is not None:
            self.weigh_fields(given.fields)
        for block in given.factors:
            numbers[first : first + block.shape[1], places[: len(block)]] = block.T
            first += block.shape[1]

    def _approach(self, target: np.ndarray, sweeps: int, prior_precision: float) -> Gap:
        """Move all parameters in turn to their best values for a target, pulled back to where they are now."""
        self.chain.centres[:] = self.chain.numbers
        self._run(gibbs.renew_errors, target)
        before = self._distance()
        for sweep in range(sweeps):
            draw = Draw(sweep, *self.key, 1.0, False, False, prior_precision)
            self._run(gibbs.sample_factors, 0, self.n_factors + 1, draw=draw)
        self._run(gibbs.renew_errors, target)
        return Gap(before, self._distance())

    def _distance(self) -> float:
        return float(np.sqrt(np.average(self.chain.errors.astype(float) ** 2, weights=self._row_weights)))

    # Scores

    def parameters(self) -> Parameters:
        """Return a copy of the current parameters, in the order of the plan, as differences from those of their field.

        Scores stay the same, but an unknown feature, which adds nothing to a score, counts as the mean of its field.
        """
        numbers, bias = self._centred()
        places, factors, start = self.arrangement.places, [], 1
        for size, rank in zip(self.plan.sizes[1:], self.plan.block_ranks):
            factors.append(np.ascontiguousarray(numbers[start : start + rank, places[:size]].T))
            start += rank
        return Parameters(np.array([bias], np.float32), numbers[0, places], factors, fields=self.field_weights)

    def _centred(self) -> tuple[np.ndarray, float]:
        """Return parameters and bias after taking the mean of each field to the bias and to the other fields.

        A row has one feature i of field k and one j of field l: v_i v_j = (v_i - m_k) (v_j - m_l) + m_k (v_j - m_l) +
        m_l (v_i - m_k) + m_k m_l, which are a pair, two weights and a constant. All count 1 - t_k t_l.
        """
        numbers, means = self.chain.numbers.copy(), np.where(self.is_certain, self.field_means[0], 0)
        (_, inner, own_share), bounds = self.chain.shares, self.design.field_bounds
        total, weighted = means[1:].sum(axis=1), means[1:] @ inner
        pairs = total @ total - weighted @ weighted - (own_share * means[1:] ** 2).sum()
        for field, (first, stop) in enumerate(pairwise(bounds)):
            own = numbers[:, first:stop]
            own -= means[:, field, None].astype(np.float32)
            others = total - inner[field] * weighted - own_share[field] * means[1:, field]
            own[0] += np.einsum("f,fi->i", others.astype(np.float32), own[1:])  # `@` would wake threads for so little
        return numbers, float(self.chain.bias[0] + means[0].sum() + 0.5 * pairs)

    def scorer(self) -> partial[np.ndarray]:
        """Return a function that scores rows by the current parameters."""
        found = self.parameters()
        records = self.layout.pack(found.weights, found.factors)
        if self.layout.has_fields and self.fields is not None:
            self.layout.put_fields(records, self.fields)
        scores = partial(_scores, self.tables, records, found)
        return partial(self._scores, scores)

    def _scores(self, scores: partial[np.ndarray], rows: Rows) -> np.ndarray:
        n, threads = rows.labels.size, len(self.team.teams)
        if threads == 1 or n <= SCORING_ROWS:
            return scores(rows)
        parts = [_slice(rows, start, min(start + SCORING_ROWS, n)) for start in range(0, n, SCORING_ROWS)]
        with ThreadPoolExecutor(threads, "rafm") as pool:
            return np.concatenate([*pool.map(scores, parts)])


def _scores(tables: Tables, records: np.ndarray, found: Parameters, rows: Rows) -> np.ndarray:
    return score(rows, tables, records, found.bias[0], field_weights=found.fields)


def _slice(rows: Rows, start: int, stop: int) -> Rows:
    """Return some rows; offsets stay those of all nonzeros."""
    cut = slice(start, stop)
    whole = {"indptr": rows.indptr[start : stop + 1], "middles": rows.middles[cut]}
    return rows._replace(**whole, labels=rows.labels[cut], weights=rows.weights[cut])


def _first_numbers(arrangement: Arrangement, n_factors: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first parameters, lambda and mu."""
    design, n = arrangement.design, arrangement.order.size
    factors = np.random.default_rng(seed).standard_normal((n, n_factors), np.float32)
    spreads = FIRST_SPREAD / np.sqrt(np.repeat(design.sizes, np.diff(design.field_bounds)))
    numbers = np.zeros((n_factors + 1, n), np.float32)
    numbers[1:] = factors[arrangement.order].T * spreads.astype(np.float32)  # drawn in the order of the plan
    for block, active in enumerate(design.active):
        for factor in range(1, n_factors + 1):
            numbers[factor, design.bounds[block] + active[factor] : design.bounds[block + 1]] = 0
    hyper = np.zeros((2, n_factors + 1, arrangement.n_fields, 2))
    hyper[:, 0, :, 0], hyper[:, 1:, :, 0] = (precision * design.sizes for precision in FIRST_PRECISIONS)
    return numbers, hyper


def _first_chain(arrangement: Arrangement, plan: RankPlan, seed: int, bias: float) -> Chain:
    """Return the initial state: weights 0, also of fields, and small random factors."""
    design, (n_rows, n) = arrangement.design, (arrangement.design.labels.size, arrangement.order.size)
    parts, n_fields, n_factors = design.cuts.size - 1, arrangement.n_fields, sum(plan.block_ranks)
    numbers, hyper = _first_numbers(arrangement, n_factors, seed)
    copies = (design.lanes + 1) * np.diff(design.bounds) * (np.arange(design.lanes.size) != design.main)
    scratch = {
        "errors": ((n_rows,), np.float32),
        "sums": ((n_rows,), np.float32),
        "inner": ((n_rows if plan.n_field_weights else 0,), np.float32),
        "means": ((n_factors + 1, n), np.float64),
        "centres": ((n_factors + 1, n), np.float32),
        "steps": ((2 * n,), np.float32),
        "normals": ((n,), np.float64),
        "moments": ((2 * parts * int(copies.max(initial=0)),), np.float64),
        "partial": ((parts, n_fields + 1, 2), np.float64),
    }
    shares = np.ones((3, n_fields), np.float32)
    shares[INNER] = 0
    return Chain(numbers=numbers, bias=np.array([bias]), hyper=hyper, shares=shares, **on_pages(scratch))
