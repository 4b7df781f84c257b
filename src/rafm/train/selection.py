"""Train without validation rows: choose the number of epochs on rows that are held out, then train on all rows.

Of many rows, a share is held out. Few rows are dealt out into folds, each of which is held out once. Where no option
asks for a model, the rows held out, or given, also choose between the usual model and its rivals.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import asdict, replace

import numpy as np

from ..checks import NEUTRAL, USUAL_OPTIMIZER
from ..errors import ConfigError
from ..model.model import Model
from ..options import TrainingOptions, resolve
from ..rows.checked import CheckedRows
from ..rows.holdout import RowCounts, Side, Split
from ..rows.overlap import Copies, copies_among
from ..rows.source import RowSource
from ..rows.spill import SpilledRows, SpillOptions
from .calibration import KEY, calibrated
from .checkpoint import Checkpoint, NoCheckpoint, RowsFingerprint, identity
from .contest import HOPELESS, Contestant, Found, Outcome, Search, Watch, compete
from .events import (
    Event,
    Finished,
    HeldOut,
    NotHeldOut,
    NotRetrained,
    OneClass,
    Planned,
    Selected,
)
from .folds import Course, train_on_folds
from .judged import Judged
from .measured_choice import measuring_for
from .phases import Phase, Phases
from .rivals import rivals_of
from .sampler_choice import sampler_for
from .schedule import Schedule
from .steps.job import Stop
from .steps.loader import as_source, labelled_blocks
from .telling import with_telling_columns
from .trainer import check_labels, train
from .validation import for_copies, with_doubts

FEW_ROWS = 5_000  # no more rows than these are dealt out into folds; see decision 0016
SAFE_EPOCHS, EPOCH_ROWS = 3, 20_000  # without validation, more epochs than both give can be worse than a constant
NOISE_SWEEPS = 100  # of the sampler, enough to measure the noise on rows that are held out
SHARE_OF_TIME = 0.4  # that is left to rivals


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
    source = as_source(data)
    events = _train_and_select(source, options, valid, checkpoint or NoCheckpoint(), start, room, stop or Stop())
    yield from with_telling_columns(events, source, options)


def _train_and_select(
    source: RowSource,
    options: TrainingOptions,
    valid: CheckedRows | RowSource | None,
    checkpoint: Checkpoint | NoCheckpoint,
    start: Model | None,
    room: SpillOptions | None,
    stop: Stop,
) -> Iterator[Event]:
    copies = Copies() if valid is None else copies_among(as_source(valid), source)
    if copies.are_most():
        options = for_copies(options)
    given = options
    is_judged = valid is not None or options.validation_fraction > 0
    if start is None and (sampled := sampler_for(source, options, is_judged)) is not None:
        yield sampled
        options = sampled.options
    if start is None and (measuring := measuring_for(source, options, is_judged)) is not None:
        yield measuring
        options = measuring.options or options
    if valid is not None and start is None:
        models = [options, *rivals_of(source, given, options)]
        judged = [Judged(source, one, valid, checkpoint, stop, not needs_validation(one)) for one in models]
        yield from with_doubts(compete(judged), copies)
        return
    if valid is not None:
        yield from with_doubts(train(source, options, valid, checkpoint, start, stop), copies)
        return
    if not options.validation_fraction:
        _check_calibration(options, False)
        for event in train(source, options, None, checkpoint, start, stop):
            yield event
            if isinstance(event, Planned) and options.n_epochs > usual_epochs(event.n_rows):
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
    is_possible = counts.n_units(options.loss.is_classification) > 1  # different rows, or one that is repeated often
    _check_calibration(options, is_possible and not has_few_rows(options, counts))
    if not is_possible:
        yield HeldOut(counts.rows, 0)
        yield from train(source, options, None, checkpoint, start, stop)
        return
    phases = Phases(checkpoint, identity(options, fingerprint, None, start, source.fields))
    models = [options, *(rivals_of(source, given, options) if start is None else ())]
    yield from compete([Selection(source, counts, one, start, room, stop, phases) for one in models])


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


def has_few_rows(options: TrainingOptions, counts: RowCounts) -> bool:
    """Return whether rows are dealt out into folds."""
    return counts.rows <= FEW_ROWS and not (needs_validation(options) or options.optimizer.is_sampler)


def scheduled(options: TrainingOptions, schedule: Schedule) -> TrainingOptions:
    """Return options with the settings of a schedule, and nothing left to find but what depends on rows alone."""
    l2 = options.l2 if schedule.l2 is None else (schedule.l2,) * len(options.l2)
    free = options.adaptable - {"learning_rate", "l2"}
    return replace(options, learning_rate=schedule.learning_rate, l2=l2, searched=(), adaptable=free)


def untrained(options: TrainingOptions, found: Found) -> TrainingOptions:
    """Return options with which nothing is trained: the model is a constant, of the same family if it has one."""
    if not options.measured and not options.optimizer.is_sampler:
        rate = found.learning_rate
        return replace(options, learning_rate=rate, n_epochs=0, patience=None, max_seconds=None, searched=())
    given = {name: getattr(options, name) for name in NEUTRAL}
    plain = resolve(
        task=options.loss.task, **given, model=options.model, ranks=options.ranks, optimizer=USUAL_OPTIMIZER
    )
    return replace(plain, n_epochs=0, patience=None, max_seconds=None, keep_state=options.keep_state)


class Selection(Contestant):
    """Chooses the number of epochs and the learning rate, then trains on all rows."""

    def __init__(
        self,
        source: RowSource,
        counts: RowCounts,
        options: TrainingOptions,
        start: Model | None,
        room: SpillOptions,
        stop: Stop,
        phases: Phases,
    ):
        self.is_scheduled = needs_validation(options)
        super().__init__(options, not self.is_scheduled, SHARE_OF_TIME)
        self.source, self.counts, self.start = source, counts, start
        self.room, self.stop, self.phases = room, stop, phases
        self.two_classes = options.loss.is_classification
        self.keeps_first = self.is_sampled and self.two_classes  # it is calibrated on the rows held out
        self.has_few_rows = has_few_rows(options, counts)

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

    def run(self, number: int, options: TrainingOptions, place: int, rival: float | None) -> Search:
        """Train once on a part of the rows, or once for every fold."""
        name, model, phases = f"run {number}" if not place else f"rival {place}, run {number}", None, self.phases
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
        split, watch = self._split(), Watch(options, rival)
        valid = self._held_out(split)
        if self.is_sampled and not self.keeps_first:
            options = replace(options, n_epochs=min(options.n_epochs, NOISE_SWEEPS))
        is_told = not is_first
        for event in train(self._side(split, 0, False), options, valid, checkpoint, self.start, self.stop):
            if not is_told:
                yield HeldOut(self.counts.rows, valid.n_rows, for_noise=self.is_sampled and not self.keeps_first)
                is_told = True
            if not isinstance(event, Finished) and (is_first or not isinstance(event, Planned)):
                yield event
            watch.note(event)
            if watch.is_hopeless(event):
                return Course(best_value=watch.best, reason=HOPELESS, seconds=watch.seconds), None
        assert isinstance(event, Finished)
        past, model = 0 if self.start is None else len(self.start.history), event.model
        own = [{**entry, "epoch": entry["epoch"] - past} for entry in model.history[past:]]
        found = (event.best_value, event.reason, event.seconds, model.options.get(KEY), watch.noise)
        schedule = event.schedule if self.is_scheduled else None
        return Course(own, model.best_epoch - past, *found, schedule, watch.pull, watch.value, watch.heat), model

    def _side(self, split: Split, fold: int, is_inside: bool) -> Side:
        return Side(self.source, split, self.counts.first_rows, fold, is_inside)

    def _held_out(self, split: Split) -> SpilledRows:
        """Return the rows of the first fold in blocks of their own: the source would be read again in every epoch."""
        side = self._side(split, 0, True)
        blocks = (side.block(number) for number in range(side.n_blocks))
        return SpilledRows(blocks, self.room, self.source.n_features)

    # Training on all rows

    def finish(self, outcome: Outcome) -> Iterator[Event]:
        """Train on all rows for as many epochs as were best; without time for that, keep the model of the search."""
        found, model, seconds = outcome
        if model is not None and (found.reason == "time" or self.keeps_first):
            if self.keeps_first:
                yield NotRetrained(model.n_rows, self.counts.rows - model.n_rows)
            yield Finished(self._as_given(model), found.reason, found.best_value)
            return
        self.stop.requested = False  # it ended the search; the model is trained all the same
        schedule = found.schedule
        options = self._final_options(found, seconds, model is not None)
        n_fine = 0 if schedule is None or not options.n_epochs else schedule.fine_epochs
        yield Selected(options.n_epochs + n_fine, self.counts.rows)
        phase = self.phases.named("all rows", True)
        for event in train(self.source, options, None, phase, self.start, self.stop, schedule):
            yield self._finished(event, found, model) if isinstance(event, Finished) else event

    def _final_options(self, found: Found, seconds: float, has_model: bool) -> TrainingOptions:
        """Return the options of the training on all rows; has_model: whether there is a model if time runs out."""
        limit, schedule = self.options.max_seconds, found.schedule
        if found.history and not found.best_epoch:
            return untrained(self.options, found)
        n_epochs = found.best_epoch
        if self.is_sampled:
            n_epochs = self.options.n_epochs
        elif schedule is not None:
            n_epochs = schedule.n_epochs
        options = replace(
            self.options,
            learning_rate=found.learning_rate,
            n_epochs=max(n_epochs, 1),  # the search may have been stopped before any epoch was over
            noise=found.noise,  # what a sampler found is the noise, and how to distil
            pull=found.pull,
            heat=found.heat,
            patience=None,
            max_seconds=None if limit is None or not has_model else max(limit - seconds, 0.0),
        )
        return options if schedule is None else scheduled(options, schedule)

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
