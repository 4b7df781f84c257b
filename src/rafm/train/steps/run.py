"""One training run: its position, the parameters in training, and the best ones so far.

A run is trained in pieces. Between pieces it can be saved and restored without any effect on the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ...errors import CheckpointError, DataValueError, DivergenceError
from ...jit.compiling import seconds_without_compiling
from ...kernels.tables import Rows
from ...losses.loss import Loss
from ...metrics import is_better, shown_metrics
from ...metrics.evaluation import Metrics
from ...model.parameters import Parameters
from ...plan.features import PlannedFeatures
from ...plan.grouping import Grouping
from ...rows.pairs import DrawnRows
from ...rows.stats import RowStats
from ..course import Course, divergence
from ..events import EpochFinished, PieceFinished
from ..recipe import Recipe
from ..schedule import Schedule
from .average import Average
from .engine import Engine, RowShape
from .loader import Blocks
from .negatives import Negatives

ODD_LABEL = 1e6  # a label this many times the median is named when training diverges
RATE_DROP = 5.0  # the learning rate is divided by this

State = tuple[dict[str, Any], dict[str, np.ndarray]]  # plain values, and named arrays


@dataclass(frozen=True)
class Position(Course):
    """Position of a run: everything but the parameters that determines what comes next."""

    block: int = 0  # index in the order of blocks
    draw: dict[str, Any] | None = None  # state of the random generator before that block; None for the first
    sweep: int = 0  # index of the engine's sweep over that block
    place: int = 0  # index in the order of its rows
    start_value: float | None = None  # of the untrained model
    drops: int = 0  # of the learning rate so far
    drop_epoch: int = 0  # after which the rate was dropped last
    stages: list[int] = field(default_factory=list)  # epochs kept of each learning rate before the current one


def choose_label_scale(spread: float, loss: Loss) -> float:
    """Return the power of 4 that brings the standard deviation of the labels near 1, so that learning rates carry over.

    Ratings from 1 to 5 keep their scale. With a power of 4, scaling labels and undoing it in the model are exact.
    """
    if not loss.scales_labels or spread == 0:
        return 1.0
    return float(4.0 ** np.round(np.log2(spread) / 2))


def epochs_of(at: Position) -> tuple[int, ...]:
    """Return how many epochs of each learning rate lead to the best one.

    >>> epochs_of(Position(best_epoch=7)), epochs_of(Position(best_epoch=7, drops=1, drop_epoch=10, stages=[7]))
    ((7,), (7,))
    """
    last = max(at.best_epoch - at.drop_epoch, 0)
    return (*at.stages, last) if last else tuple(at.stages)


def shape_of(found: RowStats) -> RowShape:
    """Return the shape of the rows, as engines need it."""
    return RowShape(found.rows, max(found.longest, 1))


class Run:
    """Trains in pieces; `uninterrupted()` is a context manager that defers interrupts."""

    seconds_allowed: float | None = None
    checkpoint_seconds = 0.0  # minimum time between checkpoints at the ends of epochs

    def __init__(
        self,
        blocks: Blocks,
        found: RowStats,
        features: PlannedFeatures,
        grouping: Grouping,
        recipe: Recipe,
        held_out: Blocks | None = None,
        uninterrupted: Callable[[], AbstractContextManager[Any]] = nullcontext,
        start: Parameters | None = None,
        negatives: Negatives | None = None,
    ):
        self.negatives = negatives
        self.schedule: Schedule | None = None  # says when the learning rate drops, if there are no validation rows
        self.blocks, self.recipe, self.features, self.held_out = blocks, recipe, features, held_out
        self.uninterrupted = uninterrupted
        self.n_rows, self.label_scale, self.weight_scale = found.rows, float(blocks.label_scale), blocks.weight_scale
        self.total_weight = found.weight / self.weight_scale
        mean, spread = found.label_mean / self.label_scale, found.label_spread / self.label_scale
        self.baseline = recipe.loss.baseline(mean, spread)
        self.grouping = grouping
        # No function of the run itself: its memory is to be free as soon as nobody holds it.
        self.has_start = start is not None  # from which parameters to begin, instead of random ones
        self._first = (found, recipe.loss.prior(mean, self.total_weight), start)
        self.engine = self._make_engine(*self._first)
        self.at, self.kept, self.is_finite = Position(), None, True  # type: Position, Parameters | None, bool
        self.best_arrays: dict[str, np.ndarray] = {}  # of the engine, to go back to when the learning rate drops
        self.average = Average(self.engine, start is not None) if recipe.averaging else None
        self.begun, self.epoch_begun, self.is_released = seconds_without_compiling(), 0.0, False

    def _make_engine(self, found: RowStats, bias: float, start: Parameters | None) -> Engine:
        plan, shape, fields = self.features.plan, shape_of(found), self.features.fields
        kind = plan.traits.engine(self.recipe, self.grouping.step_rows > 0)
        return kind(plan, self.grouping, shape, self.recipe, bias, self.label_scale, start, fields)

    # Training

    def seconds(self) -> float:
        """Return the running time without compiling, total across resumes."""
        return seconds_without_compiling() - self.begun

    def is_over(self) -> bool:
        """Return whether all epochs are done, or `patience` epochs brought no improvement."""
        return self.at.epoch > self.recipe.n_epochs or self._is_stalled(self.at)

    def _is_stalled(self, at: Position) -> bool:
        """Return whether `patience` epochs brought no improvement since the best one, or since the last drop."""
        return at.is_stalled(self.recipe.patience, at.drop_epoch)

    def why_over(self) -> str:
        """Return the reason why training ends."""
        return self.at.why_over(self.recipe, self._is_stalled(self.at))

    def is_out_of_time(self) -> bool:
        """Return whether no time is left, total across resumes."""
        return self.seconds_allowed is not None and self.seconds() >= self.seconds_allowed

    def has_trained(self) -> bool:
        """Return whether anything has been trained, if only a part of the first epoch."""
        return self.at.epoch > 1 or self.at.rows > 0

    def begin_after(self, at: Position) -> float | None:
        """Begin after the epochs of another run; the first parameters count as its last epoch. Return their metric."""
        metrics = {} if self.held_out is None else self._evaluate(self.held_out)
        value, last = metrics.get(self.recipe.metric), at.epoch - 1
        self.at = Position(epoch=at.epoch, best_epoch=last, best_value=value, drops=at.drops, history=at.history)
        self._set_rate()
        if self.held_out is not None:  # otherwise the last parameters are the best
            self._keep()
        self.epoch_begun = self.seconds()
        return value

    def pieces(self) -> Iterator[PieceFinished]:
        """Train the rest of the epoch; visit blocks, and the rows of each, in random order."""
        draw = np.random.default_rng([self.recipe.seed, self.at.epoch])
        numbers = np.arange(self.blocks.source.n_blocks)
        if self.recipe.shuffle:
            numbers = draw.permutation(numbers.size)
        if self.at.draw is not None:  # resumed: earlier blocks have drawn their orders already
            draw.bit_generator.state = self.at.draw
        for number in numbers[self.at.block :]:
            rows = self.blocks.rows(int(number))
            n_rows = rows.labels.size
            order = self.engine.visiting_order(n_rows, draw) if self.recipe.shuffle else np.arange(n_rows)
            drawn = rows if self.negatives is None else self.negatives.drawn(int(number), rows, draw)
            yield from self._block_pieces(drawn, order)
            self.at = replace(self.at, block=self.at.block + 1, draw=dict(draw.bit_generator.state), sweep=0, place=0)

    def _block_pieces(self, rows: Rows | DrawnRows, order: np.ndarray) -> Iterator[PieceFinished]:
        sweeps, size = self.engine.sweeps(), self.engine.piece_rows()
        while self.at.sweep < len(sweeps):
            for start in range(self.at.place, order.size, size):
                piece = order[start : start + size]
                with self.uninterrupted():
                    loss, diverged = sweeps[self.at.sweep](rows, piece)
                    self.is_finite = diverged < 0
                    fresh = piece.size if self.at.sweep == 0 else 0  # later sweeps see the same rows again
                    self.at = replace(
                        self.at, place=start + piece.size, rows=self.at.rows + fresh, loss=self.at.loss + loss
                    )
                if diverged >= 0:
                    raise self._not_finite(self.at.rows - piece.size + diverged)
                yield self._piece_finished()
            self.at = replace(self.at, sweep=self.at.sweep + 1, place=0)

    def _piece_finished(self) -> PieceFinished:
        mean = self.at.loss / max(self.total_weight * self.at.rows / self.n_rows, 1e-30)
        shown = self.recipe.loss.report(mean, self.label_scale)
        return PieceFinished(self.at.epoch, self.at.rows, self.n_rows, shown, self.seconds() - self.epoch_begun)

    def finish_epoch(self) -> EpochFinished:
        """Evaluate the epoch, keep its parameters if they are the best so far, and move to the next epoch."""
        at, mean = self.at, self.at.loss / max(self.total_weight, 1e-30)
        if self.average is not None:
            with self.uninterrupted():
                self.average.update(at.epoch)
        metrics = {} if self.held_out is None else self._evaluate(self.held_out)
        self._check_divergence(mean, metrics, at.epoch)
        best = bool(metrics) and is_better(self.recipe.metric, metrics[self.recipe.metric], at.best_value)
        shown = self.recipe.loss.report(mean, self.label_scale)
        event = EpochFinished(at.epoch, shown, metrics, self.seconds() - self.epoch_begun, best)
        with self.uninterrupted():
            self._begin_epoch(event)
        return event

    def judge_start(self) -> dict[str, float | None]:
        """Let the constant prediction compete: the untrained model is kept if no epoch is better. Return its metrics.

        The factors of an untrained model are small but random, so its scores would rank rows by luck.
        """
        metrics = {} if self.held_out is None else self._evaluate(self.held_out, self._constants)
        self.at = replace(self.at, start_value=metrics.get(self.recipe.metric))
        return metrics

    def best_epoch(self) -> int:
        """Return the epoch to keep: 0 is the untrained model."""
        at = self.at
        is_none_better = at.best_value is not None and is_better(self.recipe.metric, at.start_value, at.best_value)
        return 0 if at.start_value is not None and is_none_better else at.best_epoch

    def _begin_epoch(self, last: EpochFinished) -> None:
        """Move to the start of the next epoch; without validation rows the last epoch counts as best."""
        at = self.at.begin_epoch(last, self.recipe.metric, block=0, draw=None, sweep=0, place=0)
        if last.best:
            self._keep()
        is_due = self.schedule is not None and self.schedule.ends_at(last.epoch)
        if is_due or (self.best_arrays and at.drops < self.recipe.rate_drops and self._is_stalled(at)):
            at = replace(at, drops=at.drops + 1, drop_epoch=last.epoch, stages=[*epochs_of(at)])
            self._go_back()
        self.at, self.epoch_begun = at, self.seconds()
        self._set_rate()

    def _judged(self) -> AbstractContextManager[Any]:
        """Let the engine score by the parameters that are evaluated and kept: the current ones, or their average."""
        return nullcontext() if self.average is None else self.average.in_use()

    def _keep(self) -> None:
        """Keep a copy of the evaluated parameters; with the optimiser state if the learning rate may drop."""
        self.kept, self.best_arrays = None, {}  # free the old copy before making the new one
        with self._judged():
            if self.recipe.rate_drops:
                self.best_arrays = {name: array.copy() for name, array in self.engine.state().items()}
            else:
                self.kept = self._parameters()

    def _go_back(self) -> None:
        """Return to the parameters of the best epoch; without validation rows, to the average over epochs."""
        best = self.best_arrays or ({} if self.average is None else self.average.arrays)
        for name, array in self.engine.state().items() if best else ():
            array[...] = best[name]
        if self.average is not None:
            self.average.restart()

    def _set_rate(self) -> None:
        if self.at.drops:
            self.engine.set_rate(self.recipe.learning_rate / RATE_DROP**self.at.drops)

    # Saving and restoring

    def state(self) -> State | None:
        """Return everything needed to resume; None if the loss is not finite or the parameters were released."""
        if not self.is_finite or self.is_released:
            return None
        values = {"position": asdict(self.at), "seconds": self.seconds(), "epoch_begun": self.epoch_begun}
        best = {} if self.kept is None else self.kept.arrays()
        parts = {"engine": self.engine.state(), "best": best, "best_arrays": self.best_arrays}
        if self.average is not None:
            values["averaged"], parts["average"] = self.average.epoch, self.average.arrays
        return values, {f"{part}.{name}": array for part, named in parts.items() for name, array in named.items()}

    def restore(self, state: State) -> None:
        """Restore the state of a run with the same data and options."""
        values, arrays = state
        for name, array in self.engine.state().items():
            saved = arrays.get(f"engine.{name}")
            if saved is None or saved.shape != array.shape or saved.dtype != array.dtype:
                raise CheckpointError(f"the checkpoint does not match this run: array {name!r} is missing or differs")
            array[...] = saved
        best = _part("best", arrays)
        self.kept, self.best_arrays = Parameters.from_arrays(best) if best else None, _part("best_arrays", arrays)
        if self.average is not None:
            self.average.epoch, self.average.arrays = values["averaged"], _part("average", arrays)
        self.at = Position(**values["position"])
        self._set_rate()
        self.begun, self.epoch_begun = seconds_without_compiling() - values["seconds"], values["epoch_begun"]

    # Evaluation

    def _evaluate(
        self, held_out: Blocks, scores: Callable[[Rows], np.ndarray] | None = None
    ) -> dict[str, float | None]:
        """Return the metrics of the validation rows, computed in bounded memory; none if there are no rows."""
        scores = scores or self.scores
        metrics = Metrics(self.recipe.loss, shown_metrics(self.recipe.loss, self.recipe.metric))
        for number, rows in enumerate(held_out):
            if self.negatives is None:
                metrics.add(rows.labels, scores(rows), rows.weights)
                continue
            for differences, weights in self.negatives.differences(number, rows, scores):
                metrics.add(np.ones(differences.size), differences, weights)
        if metrics.rows and not metrics.weight > 0 and self.negatives is not None:
            raise DataValueError("no validation row can be compared: its context was seen with every item")
        if metrics.rows and not metrics.weight > 0:
            raise DataValueError("all validation rows have weight 0; at least one must have a positive weight")
        return metrics.values() if metrics.rows else {}

    def scores(self, rows: Rows) -> np.ndarray:
        """Return the score of every row by the evaluated parameters, on the scale of the original labels."""
        with self.uninterrupted() if self.average is not None else nullcontext(), self._judged():
            found = self.engine.scores(rows)
        return found * np.float32(self.label_scale) + np.float32(self.recipe.score_shift)

    def _constants(self, rows: Rows) -> np.ndarray:
        """Return the score of every row without its features."""
        return self.scores(rows._replace(indptr=np.zeros_like(rows.indptr)))

    def _parameters(self, last: bool = False) -> Parameters:
        """Return a copy of the current parameters, with the optimiser state if it is to be kept."""
        states = None
        if self.recipe.keep_state:
            states = self.engine.states(np.array([self.label_scale], np.float32), self.features.value_scales)
        return replace(self.engine.parameters(last), states=states)

    def best_parameters(self) -> Parameters:
        """Return the best parameters on the scale of the original data, checked to be finite. This ends the run."""
        self.is_released = True
        is_worse = bool(self.at.best_epoch) and not self.best_epoch()
        is_constant = is_worse or not (self.has_start or self.has_trained())
        if is_constant:
            self.kept, self.average, self.engine = None, None, self._make_engine(*self._first)
        elif self.best_arrays:
            self.average = None
            self.engine.exchange(self.best_arrays)
        with self._judged():
            found, self.kept = self.kept or self._parameters(last=True), None
        if is_constant:  # untrained factors are small but random: their pairs would add noise, much of it in long rows
            found = found.constant()
        with np.errstate(over="ignore", invalid="ignore"):
            found = found.undo_scaling(self.label_scale, self.grouping.undo(self.features.value_scales))
        found = replace(found, bias=found.bias + np.float32(self.recipe.score_shift))
        if not all(np.isfinite(array).all() for array in found.arrays().values()):
            raise self._divergence("some parameters are not finite", self.at.best_epoch, None)
        return found

    def _check_divergence(self, mean: float, metrics: dict[str, float | None], epoch: int) -> None:
        if what := divergence(self.recipe.loss, mean, self.baseline, metrics, self.engine.state()["bias"], epoch):
            raise self._divergence(what, epoch, None)

    def _advice(self) -> str:
        return f"Lower learning_rate (now {self.recipe.learning_rate:g})"

    def _odd_label(self) -> float | None:
        """Return the largest label if it is absurd compared with the others."""
        parts = [np.abs(rows.labels) for rows in self.blocks if rows.labels.size]
        largest = max((float(part.max()) for part in parts), default=0.0)
        typical = float(np.median(parts[0])) if parts else 0.0
        return largest * self.label_scale if largest > ODD_LABEL * max(typical, 1e-3) else None

    def _not_finite(self, row: int) -> DivergenceError:
        what = f"the loss stopped being finite after {row} row{'' if row == 1 else 's'} of epoch {self.at.epoch}"
        return self._divergence(what, self.at.epoch, row)

    def _divergence(self, what: str, epoch: int, row: int | None) -> DivergenceError:
        largest = max((float(np.abs(rows.values).max(initial=0)) for rows in self.blocks), default=0.0)
        advice = self._advice()
        if odd := self._odd_label():
            advice = f"Check for a wrong label: one is {odd:.3g}, over {ODD_LABEL:g} times the typical one. {advice}"
        if largest > 10:
            advice += f" or check for outliers (some values are {largest:.3g} times the typical size of their feature)"
        return DivergenceError(f"training diverged: {what}. {advice}.", epoch=epoch, row=row)


def _part(name: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return copies of the arrays of one part of a state; those of a checkpoint may be read-only."""
    first = f"{name}."
    return {key.removeprefix(first): array.copy() for key, array in arrays.items() if key.startswith(first)}
