"""Train with validation rows that are given: they choose the epoch, the learning rate and, among rivals, the model."""

from __future__ import annotations

from collections.abc import Iterator

from ..options import TrainingOptions
from ..rows.checked import CheckedRows
from ..rows.source import RowSource
from .checkpoint import Checkpoint, NoCheckpoint
from .contest import HOPELESS, MAX_RUNS, Contestant, Found, Outcome, Search, Watch
from .events import Event, Finished, Planned
from .steps.job import Stop
from .trainer import train


class Judged(Contestant):
    """Trains on all rows, judged by validation rows; each run has a checkpoint of its own."""

    def __init__(
        self,
        source: RowSource,
        options: TrainingOptions,
        valid: CheckedRows | RowSource,
        checkpoint: Checkpoint | NoCheckpoint,
        stop: Stop,
        may_slow_down: bool,
    ):
        super().__init__(options, may_slow_down, share_of_time=1.0)
        self.source, self.valid, self.checkpoint, self.stop = source, valid, checkpoint, stop

    def is_early(self, found: Found) -> bool:
        """Return whether the best epoch is one of the first, and enough later ones were worse."""
        return found.reason == "patience" and super().is_early(found)

    def run(self, number: int, options: TrainingOptions, place: int, rival: float | None) -> Search:
        """Train once, unless that is hopeless."""
        watch, is_first = Watch(options, rival), number == 1 and not place
        with self.checkpoint.of_run(MAX_RUNS * place + number) as own:
            for event in train(self.source, options, self.valid, own, None, self.stop):
                if not isinstance(event, Finished) and (is_first or not isinstance(event, Planned)):
                    yield event
                watch.note(event)
                if watch.is_hopeless(event):
                    return Found(options.learning_rate, 0, watch.best, [], HOPELESS, watch.seconds), None
        assert isinstance(event, Finished)
        model, ended = event.model, (event.reason, event.seconds)
        found = Found(
            options.learning_rate, model.best_epoch, event.best_value, model.history, *ended, last_value=watch.value
        )
        return found, model

    def finish(self, outcome: Outcome) -> Iterator[Event]:
        """Yield the best model."""
        found, model, seconds = outcome
        assert model is not None
        yield Finished(model, found.reason, found.best_value, seconds)
