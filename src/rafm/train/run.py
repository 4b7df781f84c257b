"""One training run: where it is, the numbers in training, and the best of them so far.

A run is trained piece by piece. Between pieces it can be saved and restored, and goes on as if nothing had happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import CheckpointError, DataValueError, DivergenceError
from ..kernels.tables import Rows
from ..losses.loss import Loss
from ..metrics import is_better, shown_metrics
from ..metrics.evaluation import Metrics
from ..model.parameters import Parameters
from ..options import TrainingOptions
from ..plan.features import Features
from ..plan.grouping import Grouping
from ..rows.stats import Survey
from .engine import Engine, RowShape
from .engines import make_engine
from .events import EpochFinished, PieceFinished
from .loader import Blocks, visiting_order

ABSURD = 100.0  # an epoch's loss above this many times that of the best constant counts as diverged

State = tuple[dict[str, Any], dict[str, np.ndarray]]  # plain values, and named arrays


@dataclass(frozen=True)
class Position:
    """How far a run is: all that decides what comes next, besides the numbers in training."""

    epoch: int = 1
    rows: int = 0  # trained in this epoch
    loss: float = 0.0  # summed over them
    block: int = 0  # place in the order of blocks
    draw: dict[str, Any] | None = None  # the generator of orders before that block; None for the first
    sweep: int = 0  # of the engine, over that block
    place: int = 0  # in the order of its rows
    best_epoch: int = 0
    best_value: float | None = None  # of the metric
    history: list[dict[str, Any]] = field(default_factory=list)


def label_scale(spread: float, loss: Loss) -> float:
    """Return the power of 4 that brings the spread of the labels near 1, so that learning rates mean the same.

    Ratings from 1 to 5 keep their scale. With a power of 4, dividing labels and undoing it in the model are exact.
    """
    if not loss.scales_labels or spread == 0:
        return 1.0
    return float(4.0 ** np.round(np.log2(spread) / 2))


def shape_of(found: Survey) -> RowShape:
    """Return what engines need to know of the rows."""
    return RowShape(found.rows, max(found.longest, 1))


class Run:
    """Trains piece by piece; `whole()` is a context that no interrupt breaks into."""

    def __init__(
        self,
        blocks: Blocks,
        found: Survey,
        features: Features,
        grouping: Grouping,
        options: TrainingOptions,
        held_out: Blocks | None = None,
        whole: Callable[[], AbstractContextManager[Any]] = nullcontext,
        start: Parameters | None = None,
    ):
        self.blocks, self.options, self.features, self.held_out, self.whole = blocks, options, features, held_out, whole
        self.n_rows, self.total_weight, self.label_scale = found.rows, found.weight, float(blocks.label_scale)
        mean, spread = found.label_mean / self.label_scale, found.label_spread / self.label_scale
        self.baseline = options.loss.baseline(mean, spread)
        bias, self.grouping = options.loss.prior(mean, found.weight), grouping
        self.engine: Engine = make_engine(
            features.plan, grouping, shape_of(found), options, bias, self.label_scale, start
        )
        self.at, self.kept, self.is_finite = Position(), None, True  # type: Position, Parameters | None, bool
        self.begun, self.epoch_begun, self.is_given_away = time.perf_counter(), 0.0, False

    # Going on

    def seconds(self) -> float:
        """Return how long the run has been going, also before it was restored."""
        return time.perf_counter() - self.begun

    def is_over(self) -> bool:
        """Tell whether all epochs are trained, or too many of them brought nothing better."""
        waited, patience = self.at.epoch - 1 - self.at.best_epoch, self.options.patience
        return self.at.epoch > self.options.n_epochs or (patience is not None and waited >= patience)

    def why_over(self) -> str:
        """Return why training ends."""
        if not self.is_over():
            return "time"
        return "epochs" if self.at.epoch > self.options.n_epochs else "patience"

    def is_out_of_time(self) -> bool:
        """Tell whether the time that was given is used up, in all lives of the run together."""
        return self.options.max_seconds is not None and self.seconds() >= self.options.max_seconds

    def pieces(self) -> Iterator[PieceFinished]:
        """Train what is left of the epoch; blocks, and the rows of each, are visited in random order."""
        draw = np.random.default_rng([self.options.seed, self.at.epoch])
        numbers = np.arange(self.blocks.source.n_blocks)
        if self.options.shuffle:
            numbers = draw.permutation(numbers.size)
        if self.at.draw is not None:
            draw.bit_generator.state = self.at.draw
        for number in numbers[self.at.block :]:
            rows = self.blocks.rows(int(number))
            n_rows = rows.labels.size
            order = visiting_order(n_rows, draw) if self.options.shuffle else np.arange(n_rows)
            yield from self._block_pieces(rows, order)
            self.at = replace(self.at, block=self.at.block + 1, draw=dict(draw.bit_generator.state), sweep=0, place=0)

    def _block_pieces(self, rows: Rows, order: np.ndarray) -> Iterator[PieceFinished]:
        sweeps, size = self.engine.sweeps(), self.engine.piece_rows()
        while self.at.sweep < len(sweeps):
            for start in range(self.at.place, order.size, size):
                piece = order[start : start + size]
                with self.whole():
                    loss, diverged = sweeps[self.at.sweep](rows, piece)
                    self.is_finite = diverged < 0
                    fresh = piece.size if self.at.sweep == 0 else 0
                    self.at = replace(
                        self.at, place=start + piece.size, rows=self.at.rows + fresh, loss=self.at.loss + loss
                    )
                if diverged >= 0:
                    raise self._not_finite(self.at.rows - piece.size + diverged)
                yield self._piece_finished()
            self.at = replace(self.at, sweep=self.at.sweep + 1, place=0)

    def _piece_finished(self) -> PieceFinished:
        mean = self.at.loss / max(self.total_weight * self.at.rows / self.n_rows, 1e-30)
        shown = self.options.loss.report(mean, self.label_scale)
        return PieceFinished(self.at.epoch, self.at.rows, self.n_rows, shown, self.seconds() - self.epoch_begun)

    def finish_epoch(self) -> EpochFinished:
        """Judge the epoch, keep its parameters if they are the best so far, and go to the next."""
        at, mean = self.at, self.at.loss / max(self.total_weight, 1e-30)
        metrics = {} if self.held_out is None else self._judge(self.held_out)
        self._check_sense(mean, metrics, at.epoch)
        best = bool(metrics) and is_better(self.options.metric, metrics[self.options.metric], at.best_value)
        shown = self.options.loss.report(mean, self.label_scale)
        event = EpochFinished(at.epoch, shown, metrics, self.seconds() - self.epoch_begun, best)
        with self.whole():
            self._begin_epoch(event)
        return event

    def _begin_epoch(self, last: EpochFinished) -> None:
        """Go to the start of the next epoch; without validation rows the last one counts as best."""
        at = Position(
            epoch=last.epoch + 1,
            best_epoch=last.epoch if last.best or not last.metrics else self.at.best_epoch,
            best_value=last.metrics[self.options.metric] if last.best else self.at.best_value,
            history=[*self.at.history, last.entry()],
        )
        if last.best:
            self.kept = None  # two copies would be one too many
            self.kept = self._parameters()
        self.at, self.epoch_begun = at, self.seconds()

    # Saving and restoring

    def state(self) -> State | None:
        """Return all that is needed to go on from here; None once the loss is not finite or the numbers are gone."""
        if not self.is_finite or self.is_given_away:
            return None
        values = {"position": asdict(self.at), "seconds": self.seconds(), "epoch_begun": self.epoch_begun}
        best = {} if self.kept is None else self.kept.arrays()
        arrays = {f"engine.{name}": array for name, array in self.engine.state().items()}
        return values, arrays | {f"best.{name}": array for name, array in best.items()}

    def restore(self, state: State) -> None:
        """Go to where another run of the same data and options was."""
        values, arrays = state
        for name, array in self.engine.state().items():
            saved = arrays.get(f"engine.{name}")
            if saved is None or saved.shape != array.shape or saved.dtype != array.dtype:
                raise CheckpointError(f"the checkpoint has other arrays than this run: {name!r} does not fit")
            array[...] = saved
        best = {name.removeprefix("best."): array for name, array in arrays.items() if name.startswith("best.")}
        self.kept = Parameters.from_arrays(best) if best else None
        self.at = Position(**values["position"])
        self.begun, self.epoch_begun = time.perf_counter() - values["seconds"], values["epoch_begun"]

    # Judging

    def _judge(self, held_out: Blocks) -> dict[str, float | None]:
        """Return the metrics of the validation rows, in bounded memory; none if there are no rows."""
        metrics = Metrics(self.options.loss, shown_metrics(self.options.loss, self.options.metric))
        for rows in held_out:
            metrics.add(rows.labels, self.scores(rows), rows.weights)
        if metrics.rows and not metrics.weight > 0:
            raise DataValueError("the validation rows have no weight; at least one must be above 0")
        return metrics.values() if metrics.rows else {}

    def scores(self, rows: Rows) -> np.ndarray:
        """Return the score of every row, for labels as they came."""
        return self.engine.scores(rows) * np.float32(self.label_scale) + np.float32(self.options.score_shift)

    def _parameters(self, last: bool = False) -> Parameters:
        """Return a copy of the numbers in training, with their states if they are to be kept."""
        states = None
        if self.options.keep_state:
            states = self.engine.states(np.array([self.label_scale], np.float32), self.features.value_scales)
        return replace(self.engine.parameters(last), states=states)

    def best_parameters(self) -> Parameters:
        """Return the parameters to keep, for labels and values as they came; they must be finite. This ends the run."""
        self.is_given_away = True
        found, self.kept = self.kept or self._parameters(last=True), None
        with np.errstate(over="ignore", invalid="ignore"):
            found = found.undo_scaling(self.label_scale, self.grouping.undo(self.features.value_scales))
        found = replace(found, bias=found.bias + np.float32(self.options.score_shift))
        if not all(np.isfinite(array).all() for array in found.arrays().values()):
            raise self._divergence("some parameters are not finite", self.at.best_epoch, None)
        return found

    def _check_sense(self, mean: float, metrics: dict[str, float | None], epoch: int) -> None:
        shown = self.options.loss.report(mean)
        if shown > ABSURD * max(self.baseline, 0.1):
            what = f"the training loss of epoch {epoch} is {shown:.4g}, a constant would have {self.baseline:.4g}"
            raise self._divergence(what, epoch, None)
        if any(value is not None and not np.isfinite(value) for value in metrics.values()):
            raise self._divergence(f"the validation loss of epoch {epoch} is not finite", epoch, None)

    def _not_finite(self, row: int) -> DivergenceError:
        what = f"the loss stopped being finite after {row} rows of epoch {self.at.epoch}"
        return self._divergence(what, self.at.epoch, row)

    def _divergence(self, what: str, epoch: int, row: int | None) -> DivergenceError:
        largest = max((float(np.abs(rows.values).max(initial=0)) for rows in self.blocks), default=0.0)
        advice = f"Lower learning_rate (now {self.options.learning_rate:g})"
        if largest > 10:
            advice += f" or look for outliers (some values are {largest:.3g} times the usual size of their feature)"
        return DivergenceError(f"training diverged: {what}. {advice}.", epoch=epoch, row=row)
