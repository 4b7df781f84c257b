"""Train on a group of shards and workers, yielding events; see train/trainer.py for those of one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from ..errors import ClusterError, DivergenceError, ModelFileError
from ..kernels.slots import step_bias, step_field_weights
from ..kernels.tables import GROUPS, FieldWeights, Tables
from ..metrics import is_better, shown_metrics
from ..metrics.evaluation import Metrics
from ..model.model import Model
from ..options import Options
from ..plan.layout import RecordLayout
from ..plan.scratch import make_field_scratch
from ..rows.stats import RowStats
from ..train.course import divergence
from ..train.dispatch import check_labels
from ..train.events import (
    CheckpointWritten,
    EpochFinished,
    Event,
    Finished,
    HeldOut,
    PieceFinished,
    Planned,
    Resumed,
    StartEvaluated,
)
from ..train.policy import adapted
from ..train.recipe import Recipe
from ..train.steps.engine import FIRST_FIELD_WEIGHT, PIECE_ROWS, first_bias
from .export import gather_model
from .group import Group
from .lanes import SlotPlan, Step
from .manifest import Checkpoints
from .planning import count_units, plan_model
from .shard import AVERAGE, CURRENT
from .sources import Source
from .spec import Hook, ModelSpec, ShardLost, no_hook
from .state import ClusterPosition, Common, State
from .worker import StepResult


@dataclass(frozen=True)
class ClusterJob:
    """What to train on, and how.

    chosen: units of the training rows to train on; the others, `held`, are validation rows if `valid` is None.
    n_inputs: number of ids, None for the largest + 1. checkpoints: None to write none. max_failures: processes that may
    be lost, -1 for any number. collect: makes the model of what shards hold, or writes it; see export.py.
    """

    train: Source
    options: Options
    slots: SlotPlan
    chosen: Sequence[int]
    held: Sequence[int] = ()
    valid: Source | None = None
    n_inputs: int | None = None
    checkpoints: Checkpoints | None = None
    checkpoint_seconds: float = 60.0
    max_failures: int = 3
    hook: Hook = no_hook
    collect: Callable[..., Model] = gather_model

    @property
    def sources(self) -> list[Source]:
        return [self.train] if self.valid is None else [self.train, self.valid]

    @property
    def judges(self) -> tuple[int, Sequence[int]]:
        """Source and units of the validation rows."""
        return (0, self.held) if self.valid is None else (1, range(len(self.valid.units)))


@dataclass
class Traffic:
    """What was sent, for measurements: values of 4 bytes, ids looked up, rows and steps."""

    floats: int = 0
    ids: int = 0
    rows: int = 0
    steps: int = 0


@dataclass
class ClusterRun:
    """One training on a group; `events` trains it."""

    group: Group
    job: ClusterJob
    failures: int = 0
    state: State = field(init=False)
    traffic: Traffic = field(default_factory=Traffic)

    def events(self) -> Iterator[Event]:
        """Train, yielding events; the last one holds the model."""
        self.begun = self.written = time.monotonic()
        yield from self._begin()
        while not self._is_over():
            try:
                yield from self._epoch()
            except ShardLost as lost:
                self._recover(lost)
        yield Finished(self._model(), self._why_over(), self.at.best_value, time.monotonic() - self.begun)

    # ---- Beginning

    def _begin(self) -> Iterator[Event]:
        job = self.job
        if job.held:
            yield HeldOut(job.train.n_rows, sum(job.train.units[unit].rows for unit in job.held))
        self.group.start(job.sources)
        resumed = self._load()
        while not resumed:
            try:
                self._count_and_build()
                break
            except ShardLost as lost:
                self._note(lost)
                self.group.start(job.sources)
        one_class = self.spec.options.loss.is_classification and self.found.label_range[0] == self.found.label_range[1]
        seen = np.sum(self.group.ask_shards("occurrences", lambda _: (self.spec.life,)), axis=0)
        yield Planned(self.plan, np.zeros(0, np.int64), self.found.rows, one_class, tuple(seen.tolist()))
        if resumed:
            yield Resumed(str(job.checkpoints and job.checkpoints.name), self.at.epoch, self.at.rows, self._is_over())
            return
        if metrics := self._evaluate(constant=True):
            self.group.ask_shards("keep", lambda _: (self.spec.life,))  # it is kept if no epoch is better
            at = replace(self.at, best_value=metrics[self.spec.options.metric])
            self.state = replace(self.state, at=at, best=self.state.common)
            yield StartEvaluated(metrics)
        yield from self._write()

    @property
    def at(self) -> ClusterPosition:
        return self.state.at

    def _count_and_build(self) -> None:
        job = self.job
        self.found = found = count_units(self.group, job.chosen)
        check_labels(found, job.options.loss)
        planned = (found, job.options, len(job.chosen), job.train.fields, job.slots.slot_rows)
        self.spec, self.plan, self.largest_id = plan_model(self.group, *planned)
        self.group.ask_shards("build", lambda _: (self.spec,))
        self.group.begin(self.spec)
        options, mean = self.spec.options, found.label_mean / self.spec.label_scale
        bias = first_bias(options.loss.prior(mean, found.weight / self.spec.weight_scale), options)
        fields = None
        if self.spec.field_names:
            fields = np.ones((2, len(self.spec.field_names)), np.float32)
            fields[0] = FIRST_FIELD_WEIGHT
        self.state = State(ClusterPosition(), Common(bias, fields))

    # ---- Failures and checkpoints

    def _note(self, lost: Exception) -> None:
        """Count a failure; give up after too many."""
        self.failures += 1
        if 0 <= self.job.max_failures < self.failures:
            raise ClusterError(f"{lost}; gave up after {self.failures} failures (max_failures)") from None

    def _recover(self, lost: ShardLost) -> None:
        """Go back to the last checkpoint; shards may die again meanwhile."""
        while True:
            self._note(lost)
            if self.job.checkpoints is None:
                raise ClusterError(f"{lost}, and there is no checkpoint to go back to: use --checkpoint DIR") from None
            try:
                if not self._load():
                    raise ClusterError(f"{lost}, and no checkpoint is complete")
                return
            except ShardLost as again:
                lost = again

    def _load(self) -> bool:
        """Go to the newest checkpoint that can be read; return whether there is one."""
        if self.job.checkpoints is None:
            return False
        for found in self.job.checkpoints.complete():
            values = found["model"]
            self.found = RowStats(**{**values["found"], "counts": np.array(values["found"]["counts"])})
            numbers = values["field_numbers"]
            options = adapted(Recipe.of(self.job.options), self.found, values["sizes"][0])
            life = 1 + (self.spec.life if hasattr(self, "spec") else int(values["life"]))
            self.spec = ModelSpec(
                options=options,
                **{**values["spec"], "field_names": tuple(values["spec"]["field_names"]), "life": life},
                field_numbers=None if numbers is None else np.array(numbers),
            )
            self.plan = self.spec.plan(tuple(values["sizes"]), with_fields=True)
            self.largest_id, self.state = values["largest_id"], State.of(found["state"])
            files, spec = self.job.checkpoints.paths(found), self.spec
            try:
                self.group.ask_shards("load", lambda _: (spec, files, found["step"]))  # noqa: B023, called at once
            except ModelFileError:
                continue
            self.group.begin(self.spec)
            self.written = time.monotonic()
            return True
        return False

    def _write(self) -> Iterator[Event]:
        """Write a checkpoint."""
        if self.job.checkpoints is None:
            return
        place, spec = self.job.checkpoints.place(self.at.steps, self.spec.life), self.spec
        files = self.group.ask_shards("save", lambda number: (spec.life, str(place / f"shard-{number}.rafm")))
        self.job.hook("manifest", self.at.steps)
        kept = ("life", "common_scale", "label_scale", "weight_scale", "damping", "longest", "slot_rows", "has_scales")
        values = {name: getattr(spec, name) for name in (*kept, "field_names")}
        stats = {name: one for name, one in vars(self.found).items() if name not in ("ids", "squares")}
        model = {
            "life": spec.life,
            "spec": values,
            "field_numbers": None if spec.field_numbers is None else spec.field_numbers.tolist(),
            "sizes": self.plan.sizes,
            "largest_id": self.largest_id,
            "found": {**stats, "counts": self.found.counts.tolist(), "ids": [], "squares": []},
        }
        path = self.job.checkpoints.finish(
            place, self.at.steps, files, {"model": model, "state": self.state.plain(), "traffic": asdict(self.traffic)}
        )
        self.written = time.monotonic()
        yield CheckpointWritten(path, self.at.epoch, self.at.rows)

    # ---- Training

    def _is_over(self) -> bool:
        recipe, at = self.spec.options, self.at
        return at.epoch > recipe.n_epochs or at.is_stalled(recipe.patience) or self._is_out_of_time()

    def _is_out_of_time(self) -> bool:
        limit = self.spec.options.max_seconds
        return limit is not None and time.monotonic() - self.begun >= limit

    def _why_over(self) -> str:
        return self.at.why_over(self.spec.options, self.at.is_stalled(self.spec.options.patience))

    def _epoch(self) -> Iterator[Event]:
        """Train the rest of an epoch."""
        begun, shown = time.monotonic(), self.at.rows
        job, at = self.job, self.at
        steps = job.slots.steps(job.train.units, job.chosen, at.epoch, at.first)
        steps = islice(steps, at.steps - at.first, None)
        current = next(steps, None)
        while current is not None:
            following = next(steps, None)
            self._step(current, following)
            current = following
            if self.at.rows - shown >= PIECE_ROWS and current is not None:
                shown = self.at.rows
                mean = self.at.loss / max(self._weight() * self.at.rows / self.found.rows, 1e-30)
                loss = self.spec.options.loss.report(mean, self.spec.label_scale)
                yield PieceFinished(self.at.epoch, shown, self.found.rows, loss, time.monotonic() - begun)
            if time.monotonic() - self.written >= job.checkpoint_seconds and current is not None:
                yield from self._write()
            if self._is_out_of_time() and current is not None:
                return
        event = self._finish_epoch(begun)
        yield from self._write()
        yield event

    def _weight(self) -> float:
        return self.found.weight / self.spec.weight_scale

    def _step(self, slots: Step, following: Step | None) -> None:
        """Train one step: gradients on the workers, then one step of every feature at the shards."""
        at, common, life = self.at, self.state.common, self.spec.life
        own, ahead = self._shared_out(slots), self._shared_out(following or ())
        number = at.steps + 1
        calls = [
            (
                worker,
                "step",
                (life, at.epoch, number, mine, (at.epoch, ahead.get(worker, [])), common.bias, common.fields),
            )
            for worker, mine in own.items()
        ]
        results: list[StepResult] = self.group.ask_workers(calls)
        self.job.hook("computed", number)
        by_slot = _in_slot_order(results)
        bias = common.bias.copy()
        loss = step_bias(bias, np.concatenate([totals for _, totals, _ in by_slot]), self.spec.settings())
        if not np.isfinite(loss):
            what = f"the loss stopped being finite after {at.rows} rows of epoch {at.epoch}"
            raise self._divergence(what, at.epoch, at.rows)
        fields = self._stepped_fields(common.fields, [gradient for _, _, gradient in by_slot])
        self.group.ask_shards("apply", lambda _: (life, number, len(slots)))
        rows, row_sum = (sum(getattr(one, name) for one in results) for name in ("n_rows", "row_sum"))
        self.state = replace(
            self.state,
            at=replace(at, steps=number, rows=at.rows + rows, row_sum=at.row_sum + row_sum, loss=at.loss + loss),
            common=Common(bias, fields),
        )
        self.traffic.steps, self.traffic.rows = self.traffic.steps + 1, self.traffic.rows + rows
        self.traffic.floats += sum(one.floats for one in results)
        self.traffic.ids += sum(one.ids for one in results)

    def _shared_out(self, slots: Step) -> dict[int, list[Any]]:
        """Return the slots (number, rows) of each worker: those of the lanes that it reads."""
        found: dict[int, list[Any]] = {}
        for number, slot in enumerate(slots):
            found.setdefault(slot.lane % self.group.n_workers, []).append((number, slot))
        return found

    def _stepped_fields(self, fields: np.ndarray | None, gradients: list[np.ndarray]) -> np.ndarray | None:
        if fields is None:
            return None
        shared = np.zeros((2 + GROUPS, fields.shape[1]), np.float32)
        scratch = make_field_scratch(shared, self._tables(), 1, 1, 1)[0]
        assert isinstance(scratch, FieldWeights)
        scratch.weights[:], scratch.states[:] = fields
        for gradient in gradients:  # in the order of the slots
            scratch.total[:] += gradient
        step_field_weights(scratch)
        return np.stack([scratch.weights, scratch.states])

    def _tables(self) -> Tables:
        return RecordLayout(self.plan, False).tables()

    def _finish_epoch(self, begun: float) -> EpochFinished:
        """Judge the epoch, keep its parameters if they are the best so far, and move to the next one."""
        self._check_rows()
        options, at, life = self.spec.options, self.at, self.spec.life
        self.group.ask_shards("finish_epoch", lambda _: (life, options.averaging))
        self.state = self.state.finish_epoch(options.averaging)
        mean = at.loss / max(self._weight(), 1e-30)
        metrics = self._evaluate()
        self._check_divergence(mean, metrics)
        best = bool(metrics) and is_better(options.metric, metrics[options.metric], at.best_value)
        if best:
            self.group.ask_shards("keep", lambda _: (life,))
            self.state = replace(self.state, best=self.state.evaluated)
        shown = options.loss.report(mean, self.spec.label_scale)
        event = EpochFinished(at.epoch, shown, metrics, time.monotonic() - begun, best)
        rows = {"first": at.steps, "row_sum": 0, "last_rows": at.rows, "last_row_sum": at.row_sum}
        self.state = replace(self.state, at=at.begin_epoch(event, options.metric, **rows))
        return event

    def _check_rows(self) -> None:
        """Check that every row was used once."""
        units = [self.job.train.units[unit] for unit in self.job.chosen]
        rows = sum(unit.rows for unit in units)
        row_sum = sum(unit.rows * unit.first_row + unit.rows * (unit.rows - 1) // 2 for unit in units)
        if (self.at.rows, self.at.row_sum) != (rows, row_sum):
            raise ClusterError(
                f"epoch {self.at.epoch} used {self.at.rows} rows with number sum {self.at.row_sum}, but the data have "
                f"{rows} with {row_sum}; please report this"
            )

    def _evaluate(self, constant: bool = False) -> dict[str, float | None]:
        """Return the metrics of the validation rows, or of the bias alone; none if there are none.

        The factors of an untrained model are small but random, so its scores would rank rows by luck.
        """
        source, units = self.job.judges
        if not units:
            return {}
        options, evaluated = self.spec.options, self.state.evaluated
        metrics = Metrics(options.loss, shown_metrics(options.loss, options.metric))
        which = CURRENT if self.state.average is None else AVERAGE
        for first in range(0, len(units), self.group.n_workers):
            some = units[first : first + self.group.n_workers]
            given = (self.spec.life, source), (which, float(evaluated.bias[0]), evaluated.fields)
            calls = [(k, "score", (*given[0], unit, *given[1])) for k, unit in enumerate(some)]
            for labels, scores, weights in self.group.ask_workers(calls):
                scores = np.full_like(scores, evaluated.bias[0]) if constant else scores
                found = scores * np.float32(self.spec.label_scale) + np.float32(options.score_shift)
                metrics.add(labels, found, weights)
        return metrics.values()

    def _check_divergence(self, mean: float, metrics: dict[str, float | None]) -> None:
        loss, scale, epoch = self.spec.options.loss, self.spec.label_scale, self.at.epoch
        baseline = loss.baseline(self.found.label_mean / scale, self.found.label_spread / scale)
        if what := divergence(loss, mean, baseline, metrics, self.state.common.bias, epoch):
            raise self._divergence(what, epoch, None)

    def _divergence(self, what: str, epoch: int, row: int | None) -> DivergenceError:
        advice = f"Lower learning_rate (now {self.spec.options.learning_rate:g})"
        return DivergenceError(f"training diverged: {what}. {advice}.", epoch=epoch, row=row)

    # ---- The model

    def _model(self) -> Model:
        """Return the model of the best epoch or, without validation rows, of the last one."""
        while True:
            try:
                return self.job.collect(
                    self.group,
                    self.spec,
                    self.plan,
                    self.state,
                    self.found.rows,
                    self._n_inputs(),
                    self.job.train.fields,
                )
            except ShardLost as lost:
                self._recover(lost)

    def _n_inputs(self) -> int:
        return self.largest_id + 1 if self.job.n_inputs is None else self.job.n_inputs


def _in_slot_order(results: Sequence[StepResult]) -> list[tuple[int, np.ndarray, np.ndarray]]:
    found = [
        (slot, totals, fields) for one in results for slot, totals, fields in zip(one.slots, one.totals, one.fields)
    ]
    return sorted(found, key=lambda one: one[0])
