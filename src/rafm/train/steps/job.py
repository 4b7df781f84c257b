"""One job of training: rows, checkpoint, and the runs that it is done in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...model.model import Model
from ...model.parameters import Parameters
from ...plan.features import PlannedFeatures, plan_features
from ...rows.source import RowSource
from ...rows.stats import RowStats
from ..checkpoint import Checkpoint, NoCheckpoint
from ..events import CheckpointWritten, Event, Finished, Planned, Resumed, StartEvaluated
from ..recipe import Recipe
from ..resources import Resources
from ..schedule import Schedule
from .engine import arrange
from .field_choice import with_field_parameters
from .loader import Blocks
from .negatives import Negatives, item_features
from .run import Run, State, epochs_of, shape_of


class Job(NamedTuple):
    """Training and validation rows, what is known of them, and what training may take.

    state: that of an earlier process to resume from, None if there is none. settings: learning rate, L2 and rank that
    short runs found, None if they were given; spent: the seconds that these took. weight_scale: the row weight that
    counts as 1. schedule: what to do without validation rows, None: train for all epochs.
    """

    source: RowSource
    valid: RowSource | None
    found: RowStats
    label_scale: float
    resources: Resources
    state: State | None
    settings: tuple[float, float, int | None] | None = None
    spent: float = 0.0
    weight_scale: float = 1.0
    schedule: Schedule | None = None

    @property
    def checkpoint(self) -> Checkpoint | NoCheckpoint:
        """Where to resume from and to write to."""
        return self.resources.checkpoint

    def features(self, recipe: Recipe, start: Model | None = None) -> PlannedFeatures:
        """Assign levels and numbers to the features of the rows; start: a model to begin from."""
        n, fields = self.source.n_features, self.source.fields
        planned = plan_features(self.found, n, recipe.model, recipe.ranks, recipe.rule, fields)
        return with_field_parameters(planned, recipe, start)

    def run(
        self,
        features: PlannedFeatures,
        recipe: Recipe,
        first: Parameters | None = None,
        n_rows: int | None = None,
    ) -> Run:
        """Return a run that trains these features, from random or given parameters; n_rows have been counted."""
        shape = shape_of(self.found)._replace(rows=self.found.rows if n_rows is None else n_rows)
        grouping = arrange(features.plan, features.counts, shape, recipe, self.found.rows)
        arranged = features.arranged(grouping.order)
        seed, scales = recipe.seed if recipe.shuffle else None, arranged.value_scales
        rows = Blocks(self.source, arranged.numbering, scales, self.label_scale, seed, grouping, self.weight_scale)
        held_out = None if self.valid is None else Blocks(self.valid, arranged.numbering, scales)
        begun = None if first is None else first.arranged(grouping)
        negatives = None
        if recipe.loss.is_pairwise:
            is_item = item_features(arranged.fields, recipe.item_fields or ())
            negatives = Negatives(rows, is_item, recipe.loss, recipe.seed, held_out)
        interrupts = self.checkpoint.uninterrupted
        run = Run(rows, self.found, arranged, grouping, recipe, held_out, interrupts, begun, negatives)
        run.seconds_allowed = self.resources.seconds
        run.begun, run.schedule = run.begun - self.spent, self.schedule
        run.epoch_begun = run.seconds()  # short runs are no part of the first epoch
        return run

    def capture(self, state: State | None) -> State | None:
        """Add the settings to the state of a run."""
        return (
            state if state is None or self.settings is None else ({**state[0], "settings": [*self.settings]}, state[1])
        )

    def train(self, run: Run) -> Iterator[Event]:
        """Resume the run if there is a state, and train it until it is over."""
        if self.state is not None:
            run.restore(self.state)
            yield Resumed(self.checkpoint.name, run.at.epoch, run.at.rows, run.is_over(), run.at.best_value)
        self.checkpoint.capture = lambda: self.capture(run.state())
        if self.state is None and run.is_over():  # no epoch at all
            yield from self._written(run)
        yield from self.epochs(run)

    def epochs(self, run: Run) -> Iterator[Event]:
        """Train until the run is over, at least a piece; write checkpoints after epochs, when due and when out of time.

        A stop or a limit of time may have ended a search before: the model must have learnt something all the same.
        """
        while not (run.is_over() or (run.has_trained() and (self.resources.stop.requested or run.is_out_of_time()))):
            for event in run.pieces():
                is_inside, out_of_time = (
                    event.rows < event.n_rows,
                    self.resources.stop.requested or run.is_out_of_time(),
                )
                if self.checkpoint.is_due() or (is_inside and out_of_time):
                    yield from self._written(run)
                if is_inside:
                    yield event
                if is_inside and out_of_time:
                    return
            yield run.finish_epoch()
            is_last = run.is_over() or run.is_out_of_time()
            if is_last or self.checkpoint.is_due(run.checkpoint_seconds):
                yield from self._written(run)

    def _written(self, run: Run) -> Iterator[Event]:
        path = self.checkpoint.write(finished=run.is_over())
        if path is not None:
            yield CheckpointWritten(path, run.at.epoch, run.at.rows)


def train_plain(job: Job, recipe: Recipe) -> Iterator[Event]:
    """Train a model whose ranks are given."""
    found = job.found
    features = job.features(recipe)
    one_class = recipe.loss.is_classification and found.label_range[0] == found.label_range[1]
    yield Planned(features.plan, features.counts, found.rows, one_class)
    run = job.run(features, recipe)
    if job.state is None and (metrics := run.judge_start()):
        yield StartEvaluated(metrics)
    yield from job.train(run)
    yield finished(job, run, features, found.rows)


def finished(job: Job, run: Run, features: PlannedFeatures, n_rows: int, start: Model | None = None) -> Finished:
    """Return the last event, with the model of the best epoch. This ends the run."""
    reason = "callback" if job.resources.stop.requested and not run.is_over() else run.why_over()
    value = run.at.best_value if run.best_epoch() else run.at.start_value
    schedule = schedule_of(run)  # before the run ends
    return Finished(model_of(run, features, n_rows, start), reason, value, run.seconds(), schedule)


def schedule_of(run: Run) -> Schedule:
    """Return settings and epochs that lead to the best epoch of a run."""
    penalties = set(run.recipe.l2)
    l2 = penalties.pop() if len(penalties) == 1 else None
    return Schedule(run.recipe.learning_rate, l2, epochs_of(run.at) if run.best_epoch() else ())


def model_of(run: Run, features: PlannedFeatures, n_rows: int, start: Model | None = None) -> Model:
    """Return the model of the best epoch; its history continues that of the start model. This ends the run."""
    past, recipe = [] if start is None else start.history, run.recipe
    model = Model(
        plan=features.plan,
        numbering=features.numbering,
        counts=features.counts,
        loss=recipe.loss,
        parameters=run.best_parameters(),
        n_rows=n_rows,
        history=[*past, *({**entry, "epoch": entry["epoch"] + len(past)} for entry in run.at.history)],
        best_epoch=len(past) + run.best_epoch(),
        options=recipe.summary() | ({} if run.weight_scale == 1 else {"weight_scale": run.weight_scale}),
        fields=features.fields,
        head=None if start is None else start.head,
    )
    return model if recipe.keep_state else model.for_scoring()
