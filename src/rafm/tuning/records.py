"""Results of a trial, and the trials on the frontier of value against size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..flag_values import value_text
from ..metrics import is_better

COMPLETE, PRUNED, DIVERGED, TOO_LARGE, TIMED_OUT = "complete", "pruned", "diverged", "too large", "out of time"


@dataclass(frozen=True)
class Record:
    """One trial.

    Parameters
    ----------
    number : int
        From 1.
    state : str
        "complete"; or why not: "pruned", "diverged", "too large" or "out of time".
    value : float or None
        Best value of the metric on the validation rows.
    parameters : int
        Number of parameters of the model.
    epochs : int
        Number of epochs that were trained.
    seconds : float
        What the trial took.
    settings : dict
        Options that differ from those given; empty for the defaults.
    """

    number: int
    state: str
    value: float | None = None
    parameters: int = 0
    epochs: int = 0
    seconds: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        return self.state == COMPLETE and self.value is not None


def frontier(records: Sequence[Record], metric: str) -> list[Record]:
    """Return the complete trials that no other one beats in both size and value, the smallest first.

    >>> tried = [Record(1, COMPLETE, 0.5, 100), Record(2, COMPLETE, 0.6, 50), Record(3, COMPLETE, 0.7, 80)]
    >>> [record.number for record in frontier(tried, "log_loss")]
    [2, 1]
    """
    found: list[Record] = []
    rank = _order(metric)
    for record in sorted((one for one in records if one.is_complete), key=lambda one: (one.parameters, rank(one))):
        if not found or is_better(metric, record.value, found[-1].value):
            found.append(record)
    return found


def _order(metric: str) -> Any:
    sign = 1 if is_better(metric, 0.0, 1.0) else -1
    return lambda record: sign * record.value


def settings_text(settings: dict[str, Any]) -> str:
    """Return settings as text.

    >>> settings_text({"ranks": (8, 32), "l2": 0.003}), settings_text({})
    ('ranks=8,32 l2=0.003', 'defaults')
    """
    return " ".join(f"{name}={value_text(value)}" for name, value in settings.items()) or "defaults"
