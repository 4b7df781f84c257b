"""Tune: one trial after the other, each trained as `rafm train` would, until the budget is spent.

Trials run one at a time with all threads, so suggestions and results do not depend on how long a trial takes. A trial
ends early if successive halving finds it among the worst at its epoch. The model of each new best trial is kept.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import ConfigError, DivergenceError
from ..files.atomic import PathLike
from ..jit.compiling import seconds_without_compiling
from ..metrics import is_better
from ..model.model import Model
from ..options import Options, resolve
from ..plan.features import plan_features
from ..rows.source import RowSource
from ..rows.stats import RowStats, count_rows
from ..train import train
from ..train.checkpoint import RowsFingerprint, identity
from ..train.dispatch import check_labels
from ..train.events import EpochFinished, Finished, Planned, Selected
from ..train.policy import adapted
from ..train.recipe import Recipe
from ..train.resources import Resources
from ..train.steps.field_choice import with_field_parameters
from ..train.steps.loader import labelled_blocks
from ..train.steps.ranks_by_count import FEATURE_BYTES, HEADER_BYTES, PARAMETER_BYTES
from .records import COMPLETE, DIVERGED, PRUNED, TIMED_OUT, TOO_LARGE, Record
from .space import AUTO, Settings, Space
from .study import Study, open_study

DEFAULT_TRAININGS = 30  # the default budget is the time of 30 trainings with the defaults
FIRST_RUNG = 3  # trials are compared from this fraction of the epochs of the defaults on
MAX_REJECTED = 200  # suggestions in a row that are too large


@dataclass(frozen=True)
class Limits:
    """When to stop, by default after the time of 30 trainings with the defaults, and how large the model may be."""

    trials: int | None = None
    seconds: float | None = None
    max_parameters: int | None = None
    max_bytes: int | None = None

    def size_options(self) -> dict[str, Any]:
        """Return the limits as options of training, which only measured ranks take."""
        return {"max_parameters": self.max_parameters, "max_bytes": self.max_bytes}

    @property
    def has_size(self) -> bool:
        return self.max_parameters is not None or self.max_bytes is not None


class Keeper(Protocol):
    """Keeps the best model so far."""

    def keep(self, model: Model) -> str:
        """Keep a model; return a digest that identifies it."""

    def has(self, digest: str | None) -> bool:
        """Return whether the model of this digest is still kept."""

    def n_bytes(self, model: Model) -> int:
        """Return the size of the model's file."""


@dataclass(frozen=True)
class Subject:
    """What to tune: rows, and the options that the user gave, as for `resolve`; `fixed` are not tuned."""

    source: RowSource
    valid: RowSource | None
    task: str
    given: dict[str, Any]
    fixed: frozenset[str]
    resources: Resources = field(default_factory=Resources)
    keep_state: bool = False

    def options(self, settings: Settings, limits: Limits | None = None) -> Recipe:
        """Return the recipe of a trial, followed to the letter: samplers and measured ranks are trials of their own."""
        sizes = {} if limits is None or settings.get("ranks") != AUTO else limits.size_options()
        given = {**self.given, **settings, **sizes}
        return Recipe.of(resolve(task=self.task, keep_state=self.keep_state, **given))


@dataclass(frozen=True)
class TrialStarted:
    """A trial begins."""

    number: int
    settings: Settings


@dataclass(frozen=True)
class TrialProgress:
    """A trial has trained an epoch; value: its best so far."""

    number: int
    epoch: int
    value: float
    seconds: float  # of the study so far
    of_seconds: float | None  # the budget, None if it is a number of trials


@dataclass(frozen=True)
class TrialFinished:
    """A trial has ended."""

    record: Record
    is_best: bool


@dataclass(frozen=True)
class Tuned:
    """Tuning is over."""

    best: Record
    records: list[Record]
    metric: str
    seconds: float


Event = TrialStarted | TrialProgress | TrialFinished | Tuned


def tune(
    subject: Subject, limits: Limits, keeper: Keeper, study: PathLike | None = None, begun: float | None = None
) -> Iterator[Event]:
    """Run trials, yielding events; the best model is kept as soon as it is found.

    Parameters
    ----------
    subject : Subject
        Rows and options.
    limits : Limits
        Budget.
    keeper : Keeper
        Where to keep the best model.
    study : path, default=None
        SQLite file to resume from and to write to; in memory by default.
    begun : float, default=None
        When the clock started, by `seconds_without_compiling`; now by default.
    """
    begun = seconds_without_compiling() if begun is None else begun
    defaults, fingerprint = subject.options({}), RowsFingerprint()
    found = count_rows(fingerprint.watch(labelled_blocks(subject.source, defaults.family)))
    check_labels(found, defaults.loss)
    check_validation(subject, defaults)
    fields, valid = subject.source.fields, subject.valid
    checked = None if valid is None else RowsFingerprint.of(valid)
    known = identity(defaults, subject.resources, fingerprint, checked, None, fields) | limits.size_options()
    known["given"] = ", ".join(sorted(subject.fixed))
    # ranges of the search surround what these rows get by default
    n_fields = 0 if fields is None else len(fields.names)
    space = Space(adapted(defaults, found), subject.fixed, n_fields, valid is not None, limits.has_size)
    with open_study(study, space, known) as opened:
        yield from Tuner(subject, limits, keeper, opened, space, found, begun).events()


def check_validation(subject: Subject, options: Options) -> None:
    """Reject a search without validation rows."""
    if subject.valid is None and not options.validation_fraction:
        raise ConfigError("validation_fraction=0 leaves no rows to compare trials on", key="validation_fraction")


class Tuner:
    """Runs the trials of a study."""

    def __init__(
        self,
        subject: Subject,
        limits: Limits,
        keeper: Keeper,
        study: Study,
        space: Space,
        found: RowStats,
        begun: float,
    ):
        self.subject, self.limits, self.keeper, self.study, self.space = subject, limits, keeper, study, space
        self.found, self.metric = found, space.options.metric
        self.begun, self.last, self.longest_step = begun - study.seconds, seconds_without_compiling(), 0.0

    # The budget

    def seconds(self) -> float:
        """Return the seconds of the study so far, total across resumes."""
        return seconds_without_compiling() - self.begun

    def budget_seconds(self) -> float | None:
        """Return the time that the study may take; None if it is a number of trials, or not known yet."""
        if self.limits.seconds is not None or self.limits.trials is not None:
            return self.limits.seconds
        first = self.first_trained()
        return None if first is None else DEFAULT_TRAININGS * first.seconds

    def first_trained(self) -> Record | None:
        """Return the first trial that was trained: the defaults, unless they are too large."""
        return next((record for record in self.study.records if record.state != TOO_LARGE), None)

    def is_out_of_time(self) -> bool:
        """Return whether another step, as long as the longest so far, would exceed the budget."""
        now, budget = seconds_without_compiling(), self.budget_seconds()
        self.longest_step, self.last = max(self.longest_step, now - self.last), now
        return budget is not None and self.seconds() + self.longest_step > budget

    def is_over(self) -> bool:
        """Return whether the budget is spent, or there is nothing left to tune."""
        done = sum(record.state != TOO_LARGE for record in self.study.records)
        is_all = self.limits.trials is not None and done >= self.limits.trials
        return bool(done) and (is_all or self.is_out_of_time())

    def planned_parameters(self, options: Options) -> int:
        """Return the number of parameters of ranks by counts."""
        source = self.subject.source
        planned = plan_features(
            self.found, source.n_features, options.model, options.ranks, options.rule, source.fields
        )
        return with_field_parameters(planned, options).plan.n_parameters

    def is_too_large(self, options: Options) -> bool:
        """Return whether a model may exceed the limits of size; measured ranks meet them by themselves."""
        if options.measured or not self.limits.has_size:
            return False
        parameters, limits = self.planned_parameters(options), self.limits
        reserved = self.subject.resources.reserved_bytes
        n_bytes = reserved + HEADER_BYTES + FEATURE_BYTES * self.found.ids.size + PARAMETER_BYTES * parameters
        has_room = limits.max_parameters is None or parameters <= limits.max_parameters
        return not has_room or (limits.max_bytes is not None and n_bytes > limits.max_bytes)

    def exceeds(self, model: Model) -> bool:
        """Return whether a trained model exceeds the limits of size."""
        limits = self.limits
        is_long = limits.max_parameters is not None and model.n_parameters > limits.max_parameters
        return is_long or (limits.max_bytes is not None and self.keeper.n_bytes(model) > limits.max_bytes)

    # Trials

    def events(self) -> Iterator[Event]:
        """Run trials until the budget is spent, then make sure that the best model is kept."""
        self._set_rungs()
        rejected = 0
        while not self.is_over():
            trial, settings = self.study.ask()
            if self.is_too_large(self._options(settings)):
                rejected += 1
                yield from self._reject(trial, settings)
                if rejected >= MAX_REJECTED:
                    break
                continue
            rejected = 0
            yield TrialStarted(len(self.study.records) + 1, settings)
            record = yield from self._run(trial, settings)
            if record.state == TIMED_OUT:  # another one would not end in time either
                break
        best = self.study.best
        if best is None:
            raise ConfigError(self._no_model(), key="max_parameters" if self.limits.has_size else "trials")
        if not self.keeper.has(self.study.model_digest):
            self._keep(self._train_again(best))
        yield Tuned(best, list(self.study.records), self.metric, self.seconds())

    def _no_model(self) -> str:
        states = ", ".join(dict.fromkeys(record.state for record in self.study.records))
        return f"no trial gave a model ({states}): raise the limits of size or time, or lower learning_rate"

    def _options(self, settings: Settings) -> Options:
        return self.subject.options(settings, self.limits)

    def _reject(self, trial: Any, settings: Settings) -> Iterator[Event]:
        """End a trial that is too large before it starts; the defaults are shown, others are not."""
        number, parameters = len(self.study.records) + 1, self.planned_parameters(self._options(settings))
        record = Record(number, TOO_LARGE, parameters=parameters, settings=settings)
        if number <= len(self.space.known()):
            self.study.tell(trial, record, self.seconds())
            yield TrialFinished(record, False)
        else:
            self.study.reject(trial)

    def _run(self, trial: Any, settings: Settings) -> Generator[Event, None, Record]:
        before, number = seconds_without_compiling(), len(self.study.records) + 1
        self.last = before
        run = TrialRun(self, trial, self._options(settings), number)
        try:
            yield from run.events()
        except DivergenceError:
            run.state = DIVERGED
        # the plan is a bound of the size; this is the file itself
        if run.model is not None and self.exceeds(run.model):
            run.state, run.model = TOO_LARGE, None
        taken = seconds_without_compiling() - before
        record = Record(number, run.state, run.value, run.parameters, run.epochs, taken, settings)
        best = self.study.best
        is_best = record.is_complete and (best is None or is_better(self.metric, record.value, best.value))
        self.study.tell(trial, record, self.seconds())
        if is_best:  # after the record: a kill in between costs a training, not a result
            assert run.model is not None
            self._keep(run.model)
        self._set_rungs()
        yield TrialFinished(record, is_best)
        return record

    def _set_rungs(self) -> None:
        if first := self.first_trained():
            self.study.prune_from(first.epochs // FIRST_RUNG)

    def _keep(self, model: Model) -> None:
        self.study.set_model_digest(self.keeper.keep(model))

    def _train_again(self, best: Record) -> Model:
        """Return the model of a trial of an earlier process."""
        options, subject = self._options(best.settings), self.subject
        *_, last = train(subject.source, options, subject.valid, subject.resources)
        assert isinstance(last, Finished)
        return last.model

    def is_improvement(self, value: float | None) -> bool:
        best = self.study.best
        return best is None or is_better(self.metric, value, best.value)


class TrialRun:
    """One training: its events are reported to the study, which may end it."""

    def __init__(self, tuner: Tuner, trial: Any, options: Options, number: int):
        self.tuner, self.trial, self.options, self.number = tuner, trial, options, number
        self.state, self.value, self.model = COMPLETE, None, None  # type: str, float | None, Model | None
        self.parameters, self.epochs = 0 if options.measured else tuner.planned_parameters(options), 0

    def events(self) -> Iterator[Event]:
        """Train; stop where the study says so, or where nothing better can come."""
        subject, is_first = self.tuner.subject, self.tuner.first_trained() is None
        resources = subject.resources.within(self.tuner.limits.seconds) if is_first else subject.resources
        for event in train(subject.source, self.options, subject.valid, resources):
            if not is_first and self.tuner.is_out_of_time():
                self.state = TIMED_OUT
                return
            if isinstance(event, Planned):
                self.parameters = event.plan.n_parameters
            if isinstance(event, Selected) and not self.tuner.is_improvement(self.value):
                return  # no need to train on all rows
            if isinstance(event, EpochFinished) and event.metrics:
                yield from self._note(event)
                if self.state == PRUNED:
                    return
            if isinstance(event, Finished):
                self.model, self.parameters = event.model, event.model.n_parameters
                self.value = event.best_value if event.best_value is not None else self.value
        if self.value is None:
            self.state = DIVERGED

    def _is_comparable(self) -> bool:
        """Return whether the trial may end early: not the known ones, nor samplers, whose first epochs say little."""
        return self.number > len(self.tuner.space.known()) and not self.options.optimizer.is_sampler

    def _note(self, event: EpochFinished) -> Iterator[Event]:
        value = event.metrics[self.options.metric]
        if is_better(self.options.metric, value, self.value):
            self.value = value
        if self.value is None or event.epoch <= self.epochs:  # again from the first epoch, with a lower learning rate
            return
        self.epochs = event.epoch
        self.trial.report(self.value, event.epoch)
        if self._is_comparable() and self.trial.should_prune():
            self.state = PRUNED
        tuner = self.tuner
        yield TrialProgress(self.number, event.epoch, self.value, tuner.seconds(), tuner.budget_seconds())
