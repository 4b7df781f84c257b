"""What a run has found on validation rows, and the events that tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..model.model import Model
from .calibration import KEY
from .events import Calibrated, Distilled, EpochFinished, Event, Finished, Resumed
from .policy import BEST, is_given_up
from .recipe import Recipe
from .schedule import Schedule

GIVEN_UP, ENDED = "given up", ("time", "callback")  # reasons: of a hopeless run, and of those that nothing may follow


@dataclass
class Outcome:
    """What a run, or the best of several of one candidate, has found so far.

    recipe: with the learning rate that it used. value: metric of the model itself, after distillation or calibration;
    best_value: that of its best epoch. model: None if it is not at hand. schedule: what repeats the run without
    validation rows. seconds: those of all runs of the candidate. n_past: epochs of the model that training began from.
    """

    recipe: Recipe
    best_epoch: int = 0
    best_value: float | None = None
    last_value: float | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    reason: str = "epochs"
    seconds: float = 0.0
    calibration: list[float] | None = None
    schedule: Schedule | None = None
    model: Model | None = None
    n_past: int = 0

    @property
    def value(self) -> float | None:
        """Metric of the model itself."""
        return self.best_value if self.last_value is None else self.last_value

    @property
    def is_stopped(self) -> bool:
        """Whether time is over, or a callback ended the run: nothing may follow but the last training."""
        return self.reason in ENDED

    def note(self, event: Event) -> None:
        """Take over what an event tells."""
        metric = self.recipe.metric
        if isinstance(event, Distilled):
            self.last_value = event.metrics.get(metric)
        elif isinstance(event, Calibrated) and metric == self.recipe.loss.metrics[0]:
            self.last_value = event.after
        elif isinstance(event, Resumed):
            self.best_value = event.best_value
        elif isinstance(event, EpochFinished):
            self.history.append(event.entry())
            self.seconds += event.seconds
            if event.best:
                self.best_epoch, self.best_value = event.epoch, event.metrics.get(metric)
        elif isinstance(event, Finished):
            self._end(event)

    def _end(self, event: Finished) -> None:
        model, past = event.model, self.n_past
        self.history = [{**entry, "epoch": entry["epoch"] - past} for entry in model.history[past:]]
        self.best_epoch, self.best_value = model.best_epoch - past, event.best_value
        self.reason, self.seconds = event.reason, event.seconds
        self.calibration, self.schedule, self.model = model.options.get(KEY), event.schedule, model

    def gives_up(self, event: Event, best: float | None) -> bool:
        """Return whether the run is too far behind the best value of other candidates to go on after this event.

        A checkpoint of that epoch is never written, so a resumed run gives up at the same place.
        """
        if not isinstance(event, EpochFinished):
            return False
        recipe, is_sampled = self.recipe, self.recipe.optimizer.is_sampler
        return recipe.effort != BEST and is_given_up(recipe.metric, event.epoch, self.best_value, best, is_sampled)
