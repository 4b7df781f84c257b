"""What a run found out on rows that were held out, so that training can be repeated on all rows."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Way:
    """How a sampled model is cut and distilled.

    is_balanced: whether axes suit the products of the largest field with all others. without: fields, by number, whose
    features keep no vectors. pull: towards the vectors that were cut.
    """

    is_balanced: bool = False
    without: tuple[int, ...] = ()
    pull: float = 50.0


@dataclass(frozen=True)
class Schedule:
    """Settings and lengths of a training that needs no validation rows.

    epochs: at each learning rate, of which every further one is a fifth of the one before. rank: that of the large
    model to be cut, None if ranks are not measured; parameters: the size that it was cut to; fine_epochs: those after
    the cut, and fine_drops how often the learning rate has dropped by then. Of samplers: rank and parameters, the way
    of the cut, and the bytes that the history takes in a file.
    """

    learning_rate: float
    l2: float | None  # None: as given, one per rank
    epochs: tuple[int, ...]
    rank: int | None = None
    parameters: int = 0
    fine_epochs: int = 0
    fine_drops: int = 0
    way: Way | None = None
    history_bytes: int = 0

    @property
    def n_epochs(self) -> int:
        """Number of epochs before the cut."""
        return sum(self.epochs)

    def plain(self) -> dict[str, Any]:
        """Return the schedule as a checkpoint has it: JSON has no tuples."""
        return {**asdict(self), "epochs": [*self.epochs]}

    @classmethod
    def from_plain(cls, kept: dict[str, Any] | None) -> Schedule | None:
        """Return the schedule of a checkpoint, if there is one."""
        if kept is None:
            return None
        way = kept.get("way")
        way = None if way is None else Way(**{**way, "without": tuple(way["without"])})
        return cls(**{**kept, "epochs": tuple(kept["epochs"]), "way": way})

    def ends_at(self, epoch: int) -> bool:
        """Return whether the learning rate drops after this epoch.

        >>> [epoch for epoch in range(9) if Schedule(0.2, 0.01, (3, 2, 1)).ends_at(epoch)]
        [3, 5]
        """
        return epoch in [sum(self.epochs[:number]) for number in range(1, len(self.epochs))]
