"""A run of Gibbs sampling: epochs are sweeps over all parameters, and the model is distilled from their samples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...errors import DataValueError, ResourceLimitError
from ...kernels.tables import Rows
from ...metrics import is_better, shown_metrics
from ...metrics.evaluation import Metrics
from ...model.model import Model
from ...model.parameters import Parameters
from ...model.samples import Samples
from ...plan.features import PlannedFeatures
from ...plan.grouping import Grouping, one_group
from ...plan.ranks import RankPlan
from ...rows.stats import RowStats
from ..events import Begun, Distilled, EpochFinished, Event, Finished, PieceFinished, Planned
from ..policy import ENTRY_BYTES, NUMBER_BYTES, ROW_BYTES, sampler_bytes
from ..recipe import Recipe
from ..schedule import Schedule
from ..steps.job import Job, model_of
from ..steps.loader import Blocks
from ..steps.run import Position, Run
from .engine import DISTILLING_PRECISION, Gap, GibbsEngine
from .start import begin_from, stepped_start

BURN_IN, BURN_IN_SHARE = 30, 0.15  # first sweeps that are not collected, and their share in short runs
MEMORY = 0.9  # weight of earlier sweeps in the moving average of validation scores, which shows the noise
LEAST_NOISE = 0.25  # share of the mean squared error that is noise at least, where samples differ much
TRIED_SWEEPS, INVERSE_TEMPERATURE = 30, 4.0  # after which a second start is tried, colder at first; see decision 0022
FAINT = 0.5  # pairs smaller than this share of the noise may still be growing
PRIOR_PRECISIONS = (
    0.5,
    5.0,
    50.0,
)  # of distillation: weak where mean parameters say little, as chains change signs of factors
PATIENCE_SWEEPS = 10  # sweeps per unit of patience: the mean of many samples moves slowly
SHOWN_SECONDS = 0.2  # time between two progress events


def train_sampled(job: Job, recipe: Recipe, start: Model | None = None) -> Iterator[Event]:
    """Train a model by sampling, from the parameters of another one if it is given."""
    features = job.features(recipe, start)
    yield Planned(features.plan, features.counts, job.found.rows)
    run, is_given = make_run(job, features, recipe), start is not None
    run.may_try_again = not is_given
    if not is_given and features.plan.n_field_weights and job.state is None:
        start = stepped_start(job, recipe)
    if start is not None:
        run.has_start = True
        new = begin_from(run.engine, start, features, run.start_scale)
        yield Begun(start.plan.n_features, new, is_given)
    yield from job.train(run)
    reason = run.why_over()
    yield (distilled := run.distil())
    schedule = schedule_of_sampler(distilled)
    yield Finished(replace(model_of(run, features, job.found.rows), samples=run.samples()), reason, schedule=schedule)


def schedule_of_sampler(event: Distilled) -> Schedule:
    """Return what a run without validation rows needs to know: the noise, and how to distil."""
    return Schedule(
        None,
        None,
        (),
        noise=event.noise,
        prior_precision=event.prior_precision,
        inverse_temperature=event.inverse_temperature,
    )


def make_run(job: Job, features: PlannedFeatures, recipe: Recipe) -> GibbsRun:
    """Return a run that samples the parameters of these features."""
    known = features.numbering, features.value_scales
    rows, held_out = Blocks(job.source, *known, job.label_scale, weight_scale=job.weight_scale), None
    if job.valid is not None:
        held_out = Blocks(job.valid, *known)
    check_memory(job, features.plan)
    grouping = Grouping(np.arange(features.plan.n_features), one_group(features.plan.sizes))
    kind = GibbsRun
    if recipe.loss.is_classification:
        from .clicks import ClickRun as kind
    run = kind(rows, job.found, features, grouping, recipe, held_out, job.checkpoint.uninterrupted)
    run.seconds_allowed = job.resources.seconds
    if job.schedule is not None:
        run.schedule, run.engine.inverse_temperature[0] = job.schedule, job.schedule.inverse_temperature or 1.0
    return run


def check_memory(job: Job, plan: RankPlan) -> None:
    """Refuse rows that are not in memory and would not fit."""
    found, room = job.found, 1e6 * (job.resources.memory or 0)
    nonzeros, needed = int(found.counts.sum()), sampler_bytes(found, plan.n_features * (1 + sum(plan.block_ranks)))
    if not job.source.in_memory and needed > room:
        raise ResourceLimitError(
            f"optimizer='gibbs' keeps all rows in memory: {found.rows} rows and {nonzeros} nonzeros take "
            f"{needed:,} bytes ({ROW_BYTES} per row, {ENTRY_BYTES} per nonzero, {NUMBER_BYTES} per parameter). "
            "Raise --memory above that, or use another optimizer."
        )


class GibbsRun(Run):
    """Samples sweep by sweep. Validation rows show the noise and when to stop."""

    engine: GibbsEngine  # type: ignore[assignment]
    kind = GibbsEngine
    checkpoint_seconds = 1.0  # a sweep of few rows takes milliseconds, a checkpoint some more

    def _make_engine(self, found: RowStats, bias: float, start: Parameters | None) -> GibbsEngine:  # type: ignore[override]
        plan, fields = self.features.plan, self.features.fields
        rows = _whole(self.blocks)
        numbers = None if fields is None else fields.numbers
        engine = self.kind(rows, plan, numbers, self.recipe.seed, bias, self.recipe.threads)
        n_valid = 0 if self.held_out is None else sum(rows.labels.size for rows in self.held_out)
        engine.valid = {name: np.zeros(n_valid) for name in ("average", "square", "total")}
        self.burn_in = min(BURN_IN, int(BURN_IN_SHARE * self.recipe.n_epochs))
        self.shown, self.may_try_again = 0.0, True
        engine.make_room(self.recipe.keep_samples)
        return engine

    def _is_stalled(self, at: Position) -> bool:
        """Return whether `patience` times ten sweeps after burn-in brought no improvement."""
        patience, waited = self.recipe.patience, at.epoch - 1 - max(at.best_epoch, self.burn_in)
        return patience is not None and waited >= patience * PATIENCE_SWEEPS

    @property
    def _collects(self) -> bool:
        return self.at.epoch > self.burn_in

    # Sampling

    def pieces(self) -> Iterator[PieceFinished]:
        """Sample the rest of the sweep, some factors at a time."""
        if self.at.epoch == TRIED_SWEEPS + 1 and self.at.sweep == 0 and self._is_faint():
            self._try_again()
        for first, stop in self.engine.pieces():
            if first < self.at.sweep:
                continue
            with self.uninterrupted():
                self.engine.sample(first, stop, self.at.epoch - 1, self._collects)
                done = self.n_rows * stop // (self.engine.n_factors + 1)
                self.at = replace(self.at, sweep=stop, rows=done)
            if time.perf_counter() - self.shown > SHOWN_SECONDS:  # a sweep of few rows takes milliseconds
                self.shown = time.perf_counter()
                yield self._piece_finished()

    def _is_faint(self) -> bool:
        """Return whether pairs hardly count after some sweeps, though another start might have found more in them."""
        fits = self.may_try_again and self.held_out is not None and not self.recipe.loss.is_classification
        fits = fits and self.engine.n_factors > 0 and self.engine.inverse_temperature[0] == 1
        return fits and self.engine.pair_size(TRIED_SWEEPS - 1) < FAINT

    def _try_again(self) -> None:
        """Repeat all sweeps with a start that takes noise for less than it is; go on from whichever chain is better.

        Weak pairs grow by 1 or 2 % per sweep. Taken for more certain at first, they grow at once, if there are any.
        """
        assert self.held_out is not None
        engine, metric, at, metrics = self.engine, self.recipe.metric, self.at, dict[str, float | None]()
        before, is_won = {name: array.copy() for name, array in engine.state().items()}, False
        try:
            engine.restart(INVERSE_TEMPERATURE)
            for sweep in range(TRIED_SWEEPS):
                self.at = replace(at, epoch=sweep + 1)
                engine.sample(0, engine.n_factors + 1, sweep, self._collects)
                engine.finish_sweep(sweep, self._collects)
                self._keep_sample()
                metrics = self._measure(self.held_out, sweep)
            is_won = is_better(metric, metrics.get(metric), at.history[-1][f"valid_{metric}"])
        finally:  # also if interrupted: a checkpoint must not hold half of a try
            self.at = at
            for name, array in engine.state().items() if not is_won else ():
                array[...] = before[name]

    def _piece_finished(self) -> PieceFinished:
        last = self.at.history[-1]["train_loss"] if self.at.history else self.recipe.loss.report(0)
        share = self.at.epoch - 1 + self.at.rows / self.n_rows
        left = self.seconds() * max(self.recipe.n_epochs / max(share, 1e-9) - 1, 0)
        seconds = self.seconds() - self.epoch_begun
        return PieceFinished(self.at.epoch, self.at.rows, self.n_rows, last, seconds, left)

    def finish_epoch(self) -> EpochFinished:
        """Collect the sample, measure the noise on the validation rows, and move to the next sweep."""
        with self.uninterrupted():
            at, sweep = self.at, self.at.epoch - 1
            loss = self.engine.finish_sweep(sweep, self._collects)
            self._keep_sample()
            self.is_finite = bool(np.isfinite(loss))
            if not self.is_finite:
                raise self._divergence(f"the errors of sweep {at.epoch} are not finite", at.epoch, None)
            metrics = {} if self.held_out is None else self._measure(self.held_out, sweep)
            noise = None if self.schedule is None else self.schedule.noise
            if not metrics and noise is not None:
                self.engine.pin_alpha(sweep, noise / self.label_scale**2)
            elif not metrics:
                self.engine.draw_alpha(sweep, loss)
            mean = self._mean_loss(loss)
            self._check_divergence(mean, metrics, at.epoch)
            # The mean of the first samples is worse than the moving average of burn-in: compared with it, chains that
            # still grow would seem to stall.
            is_first, value = at.epoch == self.burn_in + 1, metrics.get(self.recipe.metric)
            best = bool(metrics) and (is_first or is_better(self.recipe.metric, value, at.best_value))
            shown = self.recipe.loss.report(mean, self.label_scale)
            event = EpochFinished(at.epoch, shown, metrics, self.seconds() - self.epoch_begun, best, is_sweep=True)
            self._begin_epoch(event)
        return event

    @property
    def _stride(self) -> int:
        """Sweeps between two samples that are kept."""
        return max(1, (self.recipe.n_epochs - self.burn_in) // max(self.recipe.keep_samples, 1))

    def _keep_sample(self) -> None:
        """Keep one sample of each stride, in place of the oldest."""
        number, rest = divmod(int(self.engine.collected[0]), self._stride)
        if self.recipe.keep_samples and number and not rest:
            self.engine.keep_sample((number - 1) % self.recipe.keep_samples)

    def samples(self) -> Samples | None:
        """Return the samples that were kept, on the scale of the original data; None if there are none."""
        found = Samples.from_arrays(self.engine.kept)
        if found is None:
            return None
        several = [*found][: int(self.engine.collected[0]) // self._stride]
        scales = self.grouping.undo(self.features.value_scales)
        return Samples.stacked([one.undo_scaling(self.label_scale, scales) for one in several]) if several else None

    @property
    def start_scale(self) -> float:
        """Divisor of the scores of a model to begin from."""
        return self.label_scale

    def _mean_loss(self, loss: float) -> float:
        """Return half the mean squared error, as the loss is defined."""
        return loss / 2 / max(self.total_weight, 1e-30)

    def _average(self, own: slice, found: np.ndarray, sweep: int) -> np.ndarray:
        """Take what was found for some validation rows into their averages; return the one to judge by."""
        average, total = self.engine.valid["average"], self.engine.valid["total"]
        average[own] = MEMORY * average[own] + (1 - MEMORY) * found if sweep else found
        total[own] += found if self._collects else 0.0
        return total[own] / max(self.engine.collected[0], 1) if self._collects else average[own]

    def _keep(self) -> None:
        """Keep nothing: the model comes from the samples of all sweeps."""

    def _measure(self, held_out: Blocks, sweep: int) -> dict[str, float | None]:
        """Score the validation rows, set the noise, and return the metrics of the mean of the samples so far.

        During burn-in they are those of the moving average. What it misses of a row is the noise, and what the samples
        themselves do not know: their spread, which is subtracted.
        """
        metrics = Metrics(self.recipe.loss, shown_metrics(self.recipe.loss, self.recipe.metric))
        score, start, errors, weight = self.engine.scorer(), 0, np.zeros(2), 0.0
        average, square, scale = self.engine.valid["average"], self.engine.valid["square"], np.float32(self.label_scale)
        for rows in held_out:
            own, found = slice(start, start + rows.labels.size), score(rows).astype(float)
            seen = self._average(own, found, sweep)
            square[own] = MEMORY * square[own] + (1 - MEMORY) * found**2 if sweep else found**2
            missed = (rows.labels / self.label_scale - average[own]) ** 2
            with np.errstate(invalid="ignore"):  # infinite scores: the metrics tell
                errors += (rows.weights * [missed, square[own] - average[own] ** 2]).sum(axis=1)
            weight += float(rows.weights.sum(dtype=float))
            metrics.add(rows.labels, seen.astype(np.float32) * scale, rows.weights)
            start = own.stop
        if metrics.rows and not weight > 0:
            raise DataValueError("all validation rows have weight 0; at least one must have a positive weight")
        if metrics.rows:
            self.engine.pin_alpha(sweep, max(errors[0] - errors[1], LEAST_NOISE * errors[0]) / weight)
        return metrics.values() if metrics.rows else {}

    # The model

    def distil(self) -> Distilled:
        """Distil the samples into one model, whose epoch is the last one: it is made of all."""
        with self.uninterrupted():
            self.is_released = True  # no more checkpoints: the chain is overwritten
            kept, (gap, prior_precision) = int(self.engine.collected[0]), self._distil_best()
            self.at = replace(self.at, best_epoch=self.at.epoch - 1)
            noise = self.label_scale**2 / float(self.engine.alpha[0])
            return replace(
                self._distilled(kept, gap),
                noise=noise,
                prior_precision=prior_precision,
                inverse_temperature=float(self.engine.inverse_temperature[0]),
            )

    def _distil_best(self) -> tuple[Gap, float]:
        """Distil with each precision of the prior and keep the best on validation rows, or use the given one."""
        if self.held_out is None or not self.engine.collected[0]:
            prior_precision = (None if self.schedule is None else self.schedule.prior_precision) or DISTILLING_PRECISION
            return self.engine.distil(prior_precision), prior_precision
        chain, best, found = self.engine.chain, None, None
        for prior_precision in PRIOR_PRECISIONS:
            gap, value = self.engine.distil(prior_precision), self._judge(self.held_out).get(self.recipe.metric)
            if found is None or is_better(self.recipe.metric, value, best):
                best, found = value, (gap, prior_precision, chain.numbers.copy(), chain.bias.copy())
        assert found is not None
        chain.numbers[:], chain.bias[:] = found[2:]
        return found[:2]

    def distil_into(self, start: Parameters, target: np.ndarray, samples: int, prior_precision: float) -> Distilled:
        """Fit these parameters to the mean scores of the training rows, in their order, of samples of another run."""
        with self.uninterrupted():
            self.is_released = True
            return self._distilled(samples, self.engine.distil_into(start, target, prior_precision=prior_precision))

    def _distilled(self, samples: int, gap: Gap) -> Distilled:
        metrics = {} if self.held_out is None else self._judge(self.held_out)
        return Distilled(samples, gap.before * self.label_scale, gap.after * self.label_scale, metrics)

    def _judge(self, held_out: Blocks) -> dict[str, float | None]:
        """Return the metrics of the current parameters on the validation rows."""
        metrics, score = Metrics(self.recipe.loss, shown_metrics(self.recipe.loss, self.recipe.metric)), None
        for rows in held_out:
            score = score or self.engine.scorer()
            metrics.add(rows.labels, score(rows) * np.float32(self.label_scale), rows.weights)
        return metrics.values() if metrics.rows else {}

    def _parameters(self, last: bool = False) -> Parameters:
        """Return a copy of the current parameters; there is no optimiser state."""
        return self.engine.parameters()

    def _advice(self) -> str:
        return "Check for outliers among values and labels"


def _whole(blocks: Blocks) -> Rows:
    """Return all rows as one block."""
    parts = list(blocks)
    blocks.cached.clear()  # the sampler keeps its own form
    if len(parts) == 1:
        return parts[0]
    starts = np.cumsum([0, *(part.indices.size for part in parts)])
    indptr = np.concatenate([[0], *(part.indptr[1:] + start for part, start in zip(parts, starts))])
    names = ("indices", "values", "labels", "weights")
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return Rows(indptr=indptr, middles=indptr[1:], **joined)
