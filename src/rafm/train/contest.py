"""Let models compete on validation rows: each finds its learning rate, and the best one is kept.

The default learning rate is too high if the best epoch is one of the first, or if training diverges: then a lower one
is tried, and the better one is used.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from ..errors import DivergenceError
from ..metrics import is_better
from ..model.model import Model
from ..options import TrainingOptions
from .events import Calibrated, Challenged, Distilled, EpochFinished, Event, Resumed, RivalsJudged, Slowed
from .rivals import is_hopeless, is_worth_more
from .schedule import Schedule

HOPELESS = "hopeless"  # reason for which a rival is given up
EARLY_EPOCH, SLOWER, MAX_RUNS = 3, 4.0, 3  # if the best epoch is that early, try this fraction of the learning rate


@dataclass(frozen=True)
class Found:
    """What one run found out: its learning rate, and its best epoch on the validation rows."""

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
    heat: float | None = None  # of its first sweeps

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


class Watch:
    """Follows the events of a run for what they tell besides the model, and for whether it can be given up.

    rival: metric of the best model so far, None if there is none.
    """

    def __init__(self, options: TrainingOptions, rival: float | None):
        self.options, self.rival = options, rival
        self.noise: float | None = None
        self.pull: float | None = None
        self.heat: float | None = None
        self.best: float | None = None  # metric of the best epoch so far
        self.value: float | None = None  # metric after distillation or calibration
        self.seconds = 0.0

    def note(self, event: Event) -> None:
        """Take over what an event tells."""
        metric = self.options.metric
        if isinstance(event, Distilled):
            self.noise, self.pull, self.heat = event.noise, event.pull, event.heat
            self.value = event.metrics.get(metric)
        elif isinstance(event, Calibrated) and metric == self.options.loss.metrics[0]:
            self.value = event.after
        elif isinstance(event, Resumed):
            self.best = event.best_value
        elif isinstance(event, EpochFinished):
            self.seconds += event.seconds
            self.best = event.metrics.get(metric) if event.best else self.best

    def is_hopeless(self, event: Event) -> bool:
        """Return whether the run can be given up after this event."""
        if self.rival is None or not isinstance(event, EpochFinished):
            return False
        is_sampled = self.options.optimizer.is_sampler
        return is_hopeless(self.options.metric, event.epoch, self.best, self.rival, is_sampled)


class Contestant:
    """A model that validation rows judge; where they come from is up to subclasses.

    Parameters
    ----------
    options : TrainingOptions
        Those of the model.
    may_slow_down : bool
        Whether a lower learning rate may be tried than that of the options.
    share_of_time : float
        Share of the time that is left to rivals.
    """

    def __init__(self, options: TrainingOptions, may_slow_down: bool, share_of_time: float):
        self.options, self.share_of_time = options, share_of_time
        self.may_slow_down = may_slow_down and "learning_rate" in options.adaptable
        self.is_sampled = options.optimizer.is_sampler

    @property
    def name(self) -> str:
        """Name of the model for messages."""
        return "sampled fm" if self.is_sampled else "measured" if self.options.measured else self.options.model

    def limited(self, seconds: float) -> Contestant:
        """Return the same with less time left."""
        limit = self.options.max_seconds
        other = copy(self)
        if limit is not None:
            other.options = replace(self.options, max_seconds=limit - seconds)
        return other

    def has_time(self, seconds: float) -> bool:
        """Return whether time is left for this model after so many seconds."""
        limit = self.options.max_seconds
        return limit is None or seconds < self.share_of_time * limit

    def search(self, place: int = 0, rival: float | None = None) -> Generator[Event, None, Outcome]:
        """Find the number of epochs and the learning rate; place: among models that compete; rival: best metric so far.

        A learning rate that is not given and with which training diverges is too high, too.
        """
        best, model, options, seconds = None, None, self.options, 0.0  # type: Found | None, Model | None, TrainingOptions, float
        for number in range(1, MAX_RUNS + 1):
            if number > 1:
                yield Slowed(options.learning_rate / self.options.learning_rate, best is None)
            try:
                found, own = yield from self.run(number, options, place, rival)
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
            is_over = found.reason in ("time", "callback", HOPELESS)
            if is_over or not is_better_now or not self.may_slow_down or not self.is_early(found):
                break
            limit = self.options.max_seconds
            left = None if limit is None else max(limit - seconds, 1e-9)
            options = replace(options, learning_rate=options.learning_rate / SLOWER, max_seconds=left)
        assert best is not None
        return Outcome(best, model, seconds)

    def is_early(self, found: Found) -> bool:
        """Return whether the best epoch is one of the first."""
        return found.best_epoch <= EARLY_EPOCH

    def run(self, number: int, options: TrainingOptions, place: int, rival: float | None) -> Search:
        """Train once; return what was found, and the model if it is at hand."""
        raise NotImplementedError

    def finish(self, outcome: Outcome) -> Iterator[Event]:
        """Yield the events up to the final model."""
        raise NotImplementedError


def compete(models: Sequence[Contestant]) -> Iterator[Event]:
    """Search with each model and finish the best one; rivals of the first must be clearly better."""
    usual, *rivals = models
    metric, winner = usual.options.metric, usual
    outcome = yield from usual.search()
    values, spent = {usual.name: outcome.best.value}, outcome.seconds
    for place, rival in enumerate(rivals, 1):
        if outcome.best.reason in ("time", "callback") or not rival.has_time(spent):
            break
        yield Challenged(rival.options)
        try:
            other = yield from rival.limited(spent).search(place, outcome.best.value)
        except DivergenceError:
            continue
        spent += other.seconds
        if other.best.reason in ("time", "callback"):
            break
        values[rival.name] = None if other.best.reason == HOPELESS else other.best.value
        if is_worth_more(metric, values[rival.name], outcome.best.value):
            winner, outcome = rival, other
    if len(values) > 1:
        yield RivalsJudged(metric, values, winner.name, winner.options)
    yield from winner.finish(outcome._replace(seconds=spent))
