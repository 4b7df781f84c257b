"""Give every feature the rank it needs: rotate the vectors of a trained model, and cut each to a length of its own.

This is the last step of default training. Validation rows choose the smallest size that is as good as the whole. A
model that is trained on all rows afterwards keeps the same share of its coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..compress.budget import cutter_of
from ..compress.cut import Cutter
from ..compress.levels import LevelCutter
from ..model.describe import SHORTENED
from ..model.model import Model
from ..rows.source import RowSource
from ..rows.stats import RowStats
from .events import Event, Finished, Shortened
from .outcome import Outcome
from .policy import MOST_HALVINGS, STEPS_OF_HALVING, is_as_good
from .steps.measured import validation_loss
from .validation import Validation


@dataclass(frozen=True)
class Share:
    """How much of the coordinates of a model is needed, and its validation loss with all and with these."""

    share: float
    loss_before: float
    loss: float


def needed_share(outcome: Outcome, validation: Validation) -> Share | None:
    """Return the share that the model of a trial needs; None for all of it, or if there is no time to find out.

    Models with measured ranks have been cut before.
    """
    if outcome.model is None or outcome.recipe.measured or outcome.reason == "time":
        return None
    (part,) = validation.parts
    return measure_share(outcome.model, part.valid, part.found)


def measure_share(model: Model, valid: RowSource, found: RowStats) -> Share | None:
    """Return the least share of the coordinates that is as good as all of them on validation rows, None if it is all.

    Shares are halved as long as that does no harm; bisection on a log scale finds the limit.
    """
    if not can_be_shortened(model):
        return None
    cutter, whole = _cutter(model, found), validation_loss(model, valid)
    losses = {0: whole}  # by the number of steps

    def is_good(step: int) -> bool:
        losses[step] = validation_loss(_cut(cutter, _share(step)), valid)
        return is_as_good(losses[step], whole)

    good, bad, most = 0, STEPS_OF_HALVING, MOST_HALVINGS * STEPS_OF_HALVING
    while bad <= most and is_good(bad):
        good, bad = bad, bad + STEPS_OF_HALVING
    bad = min(bad, most + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_good(middle) else (good, middle)
    return Share(_share(good), whole, losses[good]) if good else None


def with_share(events: Iterable[Event], needed: Share | None, found: RowStats) -> Iterator[Event]:
    """Pass events through; shorten the vectors of the last model, unless time is over.

    found: statistics of the rows, of which those of the last training are a part.
    """
    for event in events:
        if isinstance(event, Finished) and needed is not None and event.reason != "time" and event.model.best_epoch:
            model = shortened(event.model, needed.share, found)
            yield Shortened(event.model.n_parameters, model.n_parameters, needed.loss_before, needed.loss)
            event = replace(event, model=model)
        yield event


def shortened_for(model: Model | None, needed: Share | None, found: RowStats) -> Model | None:
    """Return the model of a trial as it will be in the end, if it is to be shortened."""
    return model if model is None or needed is None else shortened(model, needed.share, found)


def can_be_shortened(model: Model) -> bool:
    """Return whether a model has vectors to cut, and no optimiser state that is as long as they are."""
    states = model.parameters.states
    has_short_states = states is None or all(block.shape[1] == 1 for block in states.factors)
    return bool(model.plan.ranks) and model.plan.traits.can("be compressed") and has_short_states


def shortened(model: Model, share: float, found: RowStats) -> Model:
    """Return the model with this share of its coordinates, those that carry most."""
    small = _cut(_cutter(model, found), share)
    return replace(small, options={**small.options, SHORTENED: share})


def _cutter(model: Model, found: RowStats) -> Cutter | LevelCutter:
    return cutter_of(model, found.squares_of(model.numbering.ids))


def _cut(cutter: Cutter | LevelCutter, share: float) -> Model:
    lengths = cutter.choose(share * cutter.n_factors)
    return cutter.cut(lengths)  # type: ignore[arg-type]  # each cuts to what it has chosen


def _share(step: int) -> float:
    return 0.5 ** (step / STEPS_OF_HALVING)
