"""Train without validation rows: choose the number of epochs on rows that are held out, then train on all rows.

Of many rows, a share is held out. Few rows are dealt out into folds, each of which is held out once. The default
learning rate is too high if the best epoch is one of the first: then a lower one is tried, and the better one is used.
Where no option asks for a model, the rows held out also choose between the usual model and its rivals.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..errors import ConfigError, DivergenceError
from ..metrics import is_better
from ..model.model import Model
from ..options import TrainingOptions
from ..rows.checked import CheckedRows
from ..rows.holdout import RowCounts, Side, Split
from ..rows.source import RowSource
from ..rows.spill import SpilledRows, SpillOptions
from .calibration import KEY, calibrated
from .checkpoint import Checkpoint, NoCheckpoint, RowsFingerprint, identity
from .events import (
    Calibrated,
    Challenged,
    Distilled,
    EpochFinished,
    Event,
    Finished,
    HeldOut,
    NotHeldOut,
    OneClass,
    Planned,
    Resumed,
    RivalsJudged,
    Selected,
    Slowed,
)
from .folds import Course, train_on_folds
from .job import Stop
from .loader import as_source, labelled_blocks
from .measured_choice import measuring_for
from .phases import Phase, Phases
from .rivals import is_hopeless, is_worth_more, rivals_of
from .sampler_choice import sampler_for
from .schedule import Schedule
from .trainer import check_labels, train

FEW_ROWS = 5_000  # no more rows than these are dealt out into folds; see decision 0016
SAFE_EPOCHS, EPOCH_ROWS = 3, 20_000  # without validation, more epochs than both give can be worse than a constant
NOISE_SWEEPS = 100  # of the sampler, enough to measure the noise on rows that are held out
SHARE_OF_TIME = 0.4  # that is left to rivals
HOPELESS = "hopeless"  # reason for which a rival is given up
EARLY_EPOCH, SLOWER, MAX_RUNS = 3, 4.0, 3  # if the best epoch is that early, try this fraction of the learning rate


@dataclass(frozen=True)
class Found:
    """What one run found out: its learning rate, and its best epoch on the rows that it held out."""

    learning_rate: float
    best_epoch: int
    best_value: float | None
    history: list[dict[str, Any]]
    reason: str
    seconds: float
    calibration: list[float] | None = None
    noise: float | None = None  # variance of labels, found by a sampler
    schedule: Schedule | None = None  # if settings or ranks were searched, too
    pull: float | None = None  # of its distillation
    last_value: float | None = None  # after distillation or calibration, if best_value was before

    @property
    def value(self) -> float | None:
        """Metric of the model itself."""
        return self.best_value if self.last_value is None else self.last_value


class Outcome(NamedTuple):
    """What all runs of one model found: the best one, its model if it is at hand, and the time of all."""

    best: Found
    model: Model | None
    seconds: float


Search = Generator[Event, None, tuple[Found, Model | None]]


def train_and_select(
    data: CheckedRows | RowSource,
    options: TrainingOptions,
    valid: CheckedRows | RowSource | None = None,
    checkpoint: Checkpoint | NoCheckpoint | None = None,
    start: Model | None = None,
    room: SpillOptions | None = None,
    stop: Stop | None = None,
) -> Iterator[Event]:
    """Train a model, yielding events; without validation rows, hold out `validation_fraction` of the rows.

    The rows held out choose the number of epochs and, unless it is given, the learning rate. Then a model is trained on
    all rows; its history is that of the best run before. If time runs out, the model of that run is kept.

    Parameters
    ----------
    data, options, valid, checkpoint, start, stop
        See `train`.
    room : SpillOptions, default=None
        Memory for the rows that are held out; no limit by default.
    """
    checkpoint, source, stop, given = checkpoint or NoCheckpoint(), as_source(data), stop or Stop(), options
    is_judged = valid is not None or options.validation_fraction > 0
    if start is None and (sampled := sampler_for(source, options, is_judged)) is not None:
        yield sampled
        options = sampled.options
    if start is None and (measuring := measuring_for(source, options, is_judged)) is not None:
        yield measuring
        options = measuring.options or options
    if valid is not None and start is None and "learning_rate" in options.adaptable and not needs_validation(options):
        yield from slow_down(source, options, valid, checkpoint, stop)
        return
    if valid is not None or not options.validation_fraction:
        _check_calibration(options, valid is not None)
        for event in train(source, options, valid, checkpoint, start, stop):
            yield event
            if valid is None and isinstance(event, Planned) and options.n_epochs > usual_epochs(event.n_rows):
                yield NotHeldOut(event.n_rows, options.n_epochs)
        return
    counts, fingerprint = RowCounts(options.seed), RowsFingerprint()
    blocks = labelled_blocks(source, options.family)
    for block in fingerprint.watch(blocks) if checkpoint.wanted else blocks:
        counts.add(block)
    check_labels(counts.rows, counts.label_range, options.loss)
    if options.loss.is_classification and counts.label_range[0] == counts.label_range[1]:
        yield OneClass(counts.rows)
    room = room or SpillOptions(megabytes=np.inf)
    selection = Selection(source, counts, options, start, room, stop)
    _check_calibration(options, not selection.has_few_rows and selection.is_possible())
    if not selection.is_possible():
        yield HeldOut(counts.rows, 0)
        yield from train(source, options, None, checkpoint, start, stop)
        return
    phases = Phases(checkpoint, identity(options, fingerprint, None, start, source.fields))
    rivals = [] if start is not None else rivals_of(source, given, options)
    yield from compete([selection, *(Selection(source, counts, rival, None, room, stop) for rival in rivals)], phases)


def _check_calibration(options: TrainingOptions, has_rows: bool) -> None:
    """Reject a wanted calibration without rows to fit it to."""
    if options.calibrate == "on" and not has_rows:
        raise ConfigError(
            f"calibrate='on' needs validation rows, or more than {FEW_ROWS} rows of which some are held out",
            key="calibrate",
        )


def usual_epochs(n_rows: int) -> int:
    """Return how many epochs do no harm without rows to stop by.

    >>> usual_epochs(8_000), usual_epochs(1_000_000)
    (3, 50)
    """
    return max(SAFE_EPOCHS, n_rows // EPOCH_ROWS)


def needs_validation(options: TrainingOptions) -> bool:
    """Return whether a run finds its settings by validation rows."""
    is_calibrated = options.optimizer.is_sampler and options.loss.is_classification
    return bool(options.measured or options.searched or options.rate_drops or is_calibrated)


def scheduled(options: TrainingOptions, schedule: Schedule) -> TrainingOptions:
    """Return options with the settings of a schedule, and nothing left to find but what depends on rows alone."""
    l2 = options.l2 if schedule.l2 is None else (schedule.l2,) * len(options.l2)
    free = options.adaptable - {"learning_rate", "l2"}
    return replace(options, learning_rate=schedule.learning_rate, l2=l2, searched=(), adaptable=free)


def slow_down(
    source: RowSource,
    options: TrainingOptions,
    valid: CheckedRows | RowSource,
    checkpoint: Checkpoint | NoCheckpoint,
    stop: Stop,
) -> Iterator[Event]:
    """Train with validation rows, and again with a lower learning rate while the best epoch is one of the first."""
    best, share, left = None, 1.0, options.max_seconds  # type: Finished | None, float, float | None
    for number in range(1, MAX_RUNS + 1):
        run = replace(options, learning_rate=options.learning_rate * share, max_seconds=left)
        with checkpoint.of_run(number) as own:
            for event in train(source, run, valid, own, None, stop):
                if not isinstance(event, Finished) and (number == 1 or not isinstance(event, Planned)):
                    yield event
        assert isinstance(event, Finished)
        is_better_now = best is None or is_better(options.metric, event.best_value, best.best_value)
        best = event if is_better_now else best
        left = None if left is None else max(left - event.seconds, 1e-9)
        is_early = event.reason == "patience" and event.model.best_epoch <= EARLY_EPOCH
        if number == MAX_RUNS or not (is_early and is_better_now):
            break
        share /= SLOWER
        yield Slowed(share)
    assert best is not None
    yield best


def compete(selections: Sequence[Selection], phases: Phases) -> Iterator[Event]:
    """Search with each model, then train the best on all rows; rivals of the first must be clearly better."""
    usual, *rivals = selections
    metric, winner = usual.options.metric, usual
    outcome = yield from usual.search(phases)
    values, spent = {usual.name: outcome.best.value}, outcome.seconds
    for place, rival in enumerate(rivals, 1):
        if outcome.best.reason in ("time", "callback") or not rival.has_time(spent):
            break
        yield Challenged(rival.options)
        try:
            other = yield from rival.limited(spent).search(phases, place, outcome.best.value)
        except DivergenceError:
            continue
        spent += other.seconds
        if other.best.reason in ("time", "callback"):
            break
        values[rival.name] = other.best.value
        if is_worth_more(metric, other.best.value, outcome.best.value):
            winner, outcome = rival, other
    if rivals:
        yield RivalsJudged(metric, values, winner.name)
    yield from winner.train_on_all(outcome._replace(seconds=spent), phases)


class Selection:
    """Chooses the number of epochs and the learning rate, then trains on all rows."""

    def __init__(
        self,
        source: RowSource,
        counts: RowCounts,
        options: TrainingOptions,
        start: Model | None,
        room: SpillOptions,
        stop: Stop,
    ):
        self.source, self.counts, self.options, self.start = source, counts, options, start
        self.room, self.stop, self.two_classes = room, stop, options.loss.is_classification
        self.is_sampled, self.is_scheduled = options.optimizer.is_sampler, needs_validation(options)
        self.keeps_first = self.is_sampled and self.two_classes  # it is calibrated on the rows held out
        self.has_few_rows = counts.rows <= FEW_ROWS and not (self.is_scheduled or self.is_sampled)

    @property
    def name(self) -> str:
        """Name of the model for messages."""
        return "sampled fm" if self.is_sampled else "measured" if self.options.measured else self.options.model

    def limited(self, seconds: float) -> Selection:
        """Return the same with less time left."""
        limit = self.options.max_seconds
        if limit is None:
            return self
        options = replace(self.options, max_seconds=limit - seconds)
        return Selection(self.source, self.counts, options, self.start, self.room, self.stop)

    def has_time(self, seconds: float) -> bool:
        """Return whether time is left to search and to train after so many seconds."""
        limit = self.options.max_seconds
        return limit is None or seconds < SHARE_OF_TIME * limit

    def is_possible(self) -> bool:
        """Return whether there are at least two different rows, or one that is repeated often."""
        return self.counts.n_units(self.two_classes) > 1

    def search(self, phases: Phases, place: int = 0, rival: float | None = None) -> Generator[Event, None, Outcome]:
        """Find the number of epochs and the learning rate; place: among models that compete; rival: best metric so far.

        A learning rate that is not given and with which training diverges is too high, too.
        """
        best, model, options, seconds = None, None, self.options, 0.0  # type: Found | None, Model | None, TrainingOptions, float
        for number in range(1, MAX_RUNS + 1):
            if number > 1:
                yield Slowed(options.learning_rate / self.options.learning_rate, best is None)
            try:
                found, own = yield from self._search(number, options, phases, place, rival)
            except DivergenceError:
                if best is None and (number == MAX_RUNS or "learning_rate" not in options.adaptable):
                    raise
                if best is not None:
                    break
                options = replace(options, learning_rate=options.learning_rate / SLOWER)
                continue
            seconds += found.seconds
            is_better_now = best is None or is_better(self.options.metric, found.best_value, best.best_value)
            if is_better_now:
                best, model = found, own
            is_slow_enough = (
                "learning_rate" not in options.adaptable or found.best_epoch > EARLY_EPOCH or self.is_scheduled
            )
            if is_slow_enough or not is_better_now or found.reason in ("time", "callback", HOPELESS):
                break
            options = replace(options, learning_rate=options.learning_rate / SLOWER)
        assert best is not None
        return Outcome(best, model, seconds)

    # Searching

    def _split(self) -> Split:
        """Return the folds, or one share and the rest."""
        share = self.options.validation_fraction
        if not self.has_few_rows:
            return self.counts.hold_out(share, self.two_classes)
        n_folds = max(2, min(round(1 / share), self.counts.n_units(self.two_classes)))
        if self.options.metric != self.options.loss.metrics[0] and self.two_classes:
            n_rare = self.counts.strata(self.two_classes)[0].size
            n_folds = max(2, min(n_folds, n_rare or n_folds))  # some metrics need both classes in every fold
        return self.counts.deal(n_folds, self.two_classes)

    def _search(self, number: int, options: TrainingOptions, phases: Phases, place: int, rival: float | None) -> Search:
        """Train once on a part of the rows, or once for every fold; return what was found, and the model if any."""
        name, model = f"run {number}" if not place else f"rival {place}, run {number}", None
        if known := phases.results.get(name):
            return Found(**{**known, "schedule": Schedule.from_plain(known.get("schedule"))}), None
        if self.has_few_rows:
            course = yield from self._on_folds(options, number == 1 and not place)
        else:
            is_first = number == 1 and not place
            course, model = yield from self._on_share(options, phases.named(name), is_first, rival)
        found = Found(options.learning_rate, **vars(course))
        plain = None if found.schedule is None else found.schedule.plain()
        phases.results[name] = {**asdict(found), "schedule": plain}
        return found, model

    def _on_folds(self, options: TrainingOptions, is_first: bool) -> Generator[Event, None, Course]:
        split, course = self._split(), Course()
        n_folds = split.shares.size
        pairs = [(self._side(split, fold, False), self._side(split, fold, True)) for fold in range(n_folds)]
        for event in train_on_folds(pairs, options, self.start, self.stop, course):
            if is_first:  # only now: whatever is wrong with options or rows is known by the first event
                yield HeldOut(self.counts.rows, self.counts.rows, n_folds)
                is_first = False
            yield event
        return course

    def _on_share(
        self, options: TrainingOptions, checkpoint: Phase, is_first: bool, rival: float | None
    ) -> Generator[Event, None, tuple[Course, Model | None]]:
        split, noise, pull, value, best = self._split(), None, None, None, None
        valid = self._held_out(split)
        if self.is_sampled and not self.keeps_first:
            options = replace(options, n_epochs=min(options.n_epochs, NOISE_SWEEPS))
        is_told = not is_first
        for event in train(self._side(split, 0, False), options, valid, checkpoint, self.start, self.stop):
            if not is_told:
                yield HeldOut(self.counts.rows, valid.n_rows, for_noise=self.is_sampled and not self.keeps_first)
                is_told = True
            if isinstance(event, Distilled):
                noise, pull, value = event.noise, event.pull, event.metrics.get(options.metric)
            if isinstance(event, Calibrated) and options.metric == options.loss.metrics[0]:
                value = event.after
            if not isinstance(event, Finished) and (is_first or not isinstance(event, Planned)):
                yield event
            if isinstance(event, Resumed):
                best = event.best_value
            if isinstance(event, EpochFinished) and rival is not None:
                best = event.metrics.get(options.metric) if event.best else best
                if is_hopeless(options.metric, event.epoch, best, rival, self.is_sampled):
                    return Course(best_value=best, reason=HOPELESS), None
        assert isinstance(event, Finished)
        past, model = 0 if self.start is None else len(self.start.history), event.model
        own = [{**entry, "epoch": entry["epoch"] - past} for entry in model.history[past:]]
        found = (event.best_value, event.reason, event.seconds, model.options.get(KEY), noise)
        schedule = event.schedule if self.is_scheduled else None
        return Course(own, model.best_epoch - past, *found, schedule, pull, value), model

    def _side(self, split: Split, fold: int, is_inside: bool) -> Side:
        return Side(self.source, split, self.counts.first_rows, fold, is_inside)

    def _held_out(self, split: Split) -> SpilledRows:
        """Return the rows of the first fold in blocks of their own: the source would be read again in every epoch."""
        side = self._side(split, 0, True)
        blocks = (side.block(number) for number in range(side.n_blocks))
        return SpilledRows(blocks, self.room, self.source.n_features)

    # Training on all rows

    def train_on_all(self, outcome: Outcome, phases: Phases) -> Iterator[Event]:
        """Train for as many epochs as were best; keep the model of the search if there is no time for that."""
        found, model, seconds = outcome
        if model is not None and (found.reason == "time" or self.keeps_first):
            yield Finished(self._as_given(model), found.reason, found.best_value)
            return
        self.stop.requested = False
        # What a sampler found is the noise, and how to distil.
        limit, schedule = self.options.max_seconds, found.schedule
        n_epochs = self.options.n_epochs if self.is_sampled else found.best_epoch
        if schedule is not None and not self.is_sampled:
            n_epochs = schedule.n_epochs
        yield Selected(n_epochs + (0 if schedule is None else schedule.fine_epochs), self.counts.rows)
        options = replace(
            self.options,
            learning_rate=found.learning_rate,
            n_epochs=n_epochs,
            noise=found.noise,
            pull=found.pull,
            patience=None,
            max_seconds=None if limit is None else max(limit - seconds, 0.0),
        )
        if schedule is not None:
            options = scheduled(options, schedule)
        phase = phases.named("all rows", True)
        for event in train(self.source, options, None, phase, self.start, self.stop, schedule):
            yield self._finished(event, found, model) if isinstance(event, Finished) else event

    def _finished(self, last: Finished, found: Found, model: Model | None) -> Finished:
        """Return the final model with the options as given, and the history that chose them."""
        if last.reason == "time" and model is not None:
            return Finished(self._as_given(model), "time")
        past = [] if self.start is None else self.start.history
        final = last.model if found.calibration is None else calibrated(last.model, *found.calibration)
        final = replace(
            self._as_given(final),
            history=[*past, *({**entry, "epoch": entry["epoch"] + len(past)} for entry in found.history)],
            best_epoch=len(past) + found.best_epoch,
        )
        return Finished(final, "time" if last.reason == "time" else found.reason, found.best_value)

    def _as_given(self, model: Model) -> Model:
        """Return the model with the options that say how it was chosen."""
        given = ("n_epochs", "patience", "validation_fraction")
        return replace(model, options={**model.options, **{name: getattr(self.options, name) for name in given}})
