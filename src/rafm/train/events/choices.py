"""Events about what is tried, on which rows, and what is chosen."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...files.terminal import counted
from .event import Event

if TYPE_CHECKING:
    from ..decision import Decision
    from ..recipe import Recipe


@dataclass(frozen=True)
class Decided(Event):
    """No option names the model: the rows decide which one is usual for them."""

    kind = "decided"
    level = logging.INFO
    decision: Decision
    n_rows: int

    def lines(self) -> list[str]:
        """Return the line that says what the rows ask for, and how to train another model."""
        usual = self.decision.recipes[0]
        if self.decision.reason == "quick":
            model = "a linear model" if not usual.ranks else f"a factorization machine of rank {usual.ranks[0]}"
            told = f"{self.n_rows} rows: {model}, at most {usual.n_epochs} epochs"
            return [f"{told} (use `effort` standard to try others)"]
        if self.decision.reason == "sampled":
            rank = usual.large_rank or usual.ranks[0]
            size = f"{rank}, to be cut to vectors of measured length" if usual.measured else f"{rank}"
            model = f"a factorization machine of rank {size}"
            return [f"{self.n_rows} ratings: sampling {model} (use `optimizer` adagrad for gradient steps)"]
        if self.decision.obstacle is not None:
            reason = f"because measuring them {self.decision.obstacle}; use `ranks` auto to measure anyway"
            return [f"{self.n_rows} rows: ranks by count, {reason}"]
        seconds = f"about {self.decision.seconds:.0f} s"
        return [f"{self.n_rows} rows: measuring ranks, {seconds} (use `ranks` 8,32,128 for ranks by count)"]

    def values(self) -> dict[str, Any]:
        """Return the record; rank: that of a sampled model."""
        usual, told = self.decision.recipes[0], {"reason": self.decision.reason, "rows": self.n_rows}
        if self.decision.reason == "sampled":
            return {**told, "rank": usual.large_rank or usual.ranks[0]}
        return {**told, "seconds": self.decision.seconds, "obstacle": self.decision.obstacle}


@dataclass(frozen=True)
class HeldOut(Event):
    """Some of the rows are held out to choose the number of epochs; by samplers, to measure the noise.

    n_valid: 0 if the rows cannot be split. n_folds: if more than one, each row is held out once.
    """

    kind = "held_out"
    level = logging.INFO
    begins_table = True
    n_rows: int  # of all rows
    n_valid: int
    n_folds: int = 1
    for_noise: bool = False

    def lines(self) -> list[str]:
        """Return the line that says which rows choose the number of epochs.

        >>> HeldOut(n_rows=8000, n_valid=800).lines()
        ['holding out 800 of 8000 rows to choose the number of epochs']
        >>> HeldOut(200, 200, n_folds=10).lines()
        ['holding out each of 10 folds of 200 rows to choose the number of epochs']
        """
        if not self.n_valid:
            if self.n_rows == 1:
                return ["a single row cannot be held out: training on it"]
            return [f"{self.n_rows} rows are too few, or too similar, to hold any out: training on all of them"]
        held_out = f"{self.n_valid} of" if self.n_folds == 1 else f"each of {self.n_folds} folds of"
        purpose = "measure the noise" if self.for_noise else "choose the number of epochs"
        return [f"holding out {held_out} {self.n_rows} rows to {purpose}"]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        return {"rows": self.n_rows, "valid_rows": self.n_valid, "folds": self.n_folds}


@dataclass(frozen=True)
class NotHeldOut(Event):
    """No rows choose the number of epochs, and there are more epochs than usually do good."""

    kind = "not_held_out"
    level = logging.WARNING
    n_rows: int
    n_epochs: int

    def lines(self) -> list[str]:
        """Return the warning."""
        return [
            f"warning: no validation rows choose the number of epochs, and {self.n_epochs} may be too many for "
            f"{counted(self.n_rows, 'row')}; lower `n_epochs`, or hold out rows with `validation_fraction`"
        ]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        return {"rows": self.n_rows, "epochs": self.n_epochs}


@dataclass(frozen=True)
class OneClass(Event):
    """All rows have the same label, which is known before any are held out."""

    kind = "one_class"
    n_rows: int

    def values(self) -> dict[str, Any]:
        """Return the record."""
        return {"rows": self.n_rows}


@dataclass(frozen=True)
class Slowed(Event):
    """The best epoch was one of the first, or training diverged; it starts again with a lower learning rate.

    share: of the learning rate that was tried first.
    """

    kind = "slowed"
    level = logging.INFO
    begins_table = True
    share: float
    diverged: bool = False

    def lines(self) -> list[str]:
        """Return the line that says what is tried next."""
        reason = "training diverged" if self.diverged else "the best epoch came early"
        return [f"{reason}: trying {self.share:g} times the learning rate"]


@dataclass(frozen=True)
class Trying(Event):
    """No option names the model: another candidate is tried on the validation rows."""

    kind = "trying"
    begins_table = True
    recipe: Recipe

    def lines(self) -> list[str]:
        """Return the line that says which model is tried."""
        given, ranks = self.recipe, ",".join(map(str, self.recipe.ranks))
        model = f"{given.model} of rank {ranks}" if ranks else given.model
        return [f"for comparison: {'sampling' if given.optimizer.is_sampler else 'training'} {model}"]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        given = self.recipe
        return {"model": given.model, "ranks": list(given.ranks), "optimizer": given.optimizer.name}


@dataclass(frozen=True)
class Chosen(Event):
    """The validation rows have chosen between candidates; their values by name, None for those that were given up."""

    kind = "chosen"
    level = logging.INFO
    metric: str
    metrics: dict[str, float | None]
    recipe: Recipe

    def lines(self) -> list[str]:
        """Return the line that compares the candidates."""
        shown = [f"{name} {'given up' if found is None else f'{found:.5f}'}" for name, found in self.metrics.items()]
        option = "model" if self.recipe.optimizer.has_steps or self.recipe.optimizer.is_sampler else "ranks"
        choice = f"using {self.recipe.name} (to choose another, set `{option}`)"
        return [f"validation {self.metric}: {', '.join(shown)}; {choice}"]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        return {"metric": self.metric, "values": self.metrics, "chosen": self.recipe.name}


@dataclass(frozen=True)
class NotRetrained(Event):
    """The model of the trial is kept: the rows held out were needed to calibrate it."""

    kind = "not_retrained"
    level = logging.INFO
    n_rows: int
    n_valid: int

    def lines(self) -> list[str]:
        """Return the line that says on how many rows the model was trained."""
        return [f"the model was trained on {counted(self.n_rows, 'row')}; the {self.n_valid} held out calibrate it"]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        return {"rows": self.n_rows, "valid_rows": self.n_valid}


@dataclass(frozen=True)
class Selected(Event):
    """The number of epochs is chosen; training starts again on all rows."""

    kind = "selected"
    level = logging.INFO
    begins_table = True
    n_epochs: int
    n_rows: int

    def lines(self) -> list[str]:
        """Return the line that says what is trained on all rows.

        >>> Selected(n_epochs=7, n_rows=8000).lines()
        ['training on all 8000 rows for 7 epochs']
        """
        return [f"training on all {counted(self.n_rows, 'row')} for {counted(self.n_epochs, 'epoch')}"]

    def values(self) -> dict[str, Any]:
        """Return the record."""
        return {"epochs": self.n_epochs, "rows": self.n_rows}
