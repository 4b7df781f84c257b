"""Keep what is trained within the size asked for: a candidate that is too large is cut before it is compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..checks import SIZES
from ..compress.budget import Budget, cut_within, cutter_of
from ..model.model import Model
from ..options import Options
from ..rows.stats import RowStats
from .events import Event, Finished
from .outcome import GIVEN_UP, Outcome
from .resources import Resources
from .steps.measured import validation_metric
from .validation import Validation

MORE_BYTES = 256  # of a file, for options that the model will have in the end


@dataclass(frozen=True)
class Limits:
    """The maximum size of a model, if there is one; sizes: the options that say so."""

    budget: Budget
    sizes: dict[str, Any]

    @classmethod
    def of(cls, options: Options, resources: Resources) -> Limits:
        """Return the limits that options set."""
        sizes = {name: limit for name in SIZES if (limit := getattr(options, name)) is not None}
        return cls(Budget(**sizes, reserved_bytes=resources.reserved_bytes + MORE_BYTES), sizes)

    def __bool__(self) -> bool:
        return bool(self.sizes)

    def fitted(self, outcome: Outcome, validation: Validation) -> Outcome:
        """Return the outcome of a trial with a model that is small enough, and the metric of that.

        A RaFM keeps at least rank 1, which may be too much: then it is given up.
        """
        if not self or outcome.model is None or not self.budget.excess(outcome.model):
            return outcome
        (part,) = validation.parts
        cutter = cutter_of(outcome.model, part.found.squares_of(outcome.model.numbering.ids))
        if self.budget.excess(cutter.smallest()):
            return replace(outcome, model=None, best_value=None, last_value=None, reason=GIVEN_UP)
        model = cut_within(cutter, self.budget)
        return replace(outcome, model=model, last_value=validation_metric(model, part.valid, outcome.recipe.metric))

    def kept(self, events: Iterable[Event], found: RowStats) -> Iterator[Event]:
        """Pass events through; cut the last model if it is too large. found: statistics of the rows."""
        for event in events:
            if self and isinstance(event, Finished):
                model = replace(event.model, options={**event.model.options, **self.sizes})
                event = replace(event, model=self._cut(model, found) if self.budget.excess(model) else model)
            yield event

    def _cut(self, model: Model, found: RowStats) -> Model:
        """Return the model cut to the limits, without its head if that alone is too large."""
        importance = found.squares_of(model.numbering.ids)
        cutter = cutter_of(model, importance)
        if model.head is not None and self.budget.excess(cutter.smallest()):
            cutter = cutter_of(replace(model, head=None), importance)
        return cut_within(cutter, self.budget)
