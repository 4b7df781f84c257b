"""What a run found out on rows that were held out, so that training can be repeated on all rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CutSettings:
    """How a sampled model is cut and distilled.

    is_balanced: whether axes suit the products of the largest field with all others. without: fields, by number, whose
    features keep no vectors. prior_precision: of the prior around the vectors that were cut.
    """

    is_balanced: bool = False
    without: tuple[int, ...] = ()
    prior_precision: float = 50.0


@dataclass(frozen=True)
class Schedule:
    """Settings and lengths of a training that needs no validation rows.

    epochs: at each learning rate, of which every further one is a fifth of the one before. rank: that of the large
    model to be cut, None if ranks are not measured; parameters: the size that it was cut to; fine_epochs: those after
    the cut, and fine_drops how often the learning rate has dropped by then. Of samplers: rank and parameters,
    settings of the cut, the bytes that the history takes in a file, the variance of the labels, and the best precision
    of the prior in distillation and inverse temperature of the first sweeps.
    """

    learning_rate: float | None  # None: of a sampler, which has none
    l2: float | None  # None: as given, one per rank
    epochs: tuple[int, ...]
    rank: int | None = None
    parameters: int = 0
    fine_epochs: int = 0
    fine_drops: int = 0
    settings: CutSettings | None = None
    history_bytes: int = 0
    noise: float | None = None
    prior_precision: float | None = None
    inverse_temperature: float | None = None

    @property
    def n_epochs(self) -> int:
        """Number of epochs before the cut."""
        return sum(self.epochs)

    def ends_at(self, epoch: int) -> bool:
        """Return whether the learning rate drops after this epoch.

        >>> [epoch for epoch in range(9) if Schedule(0.2, 0.01, (3, 2, 1)).ends_at(epoch)]
        [3, 5]
        """
        return epoch in [sum(self.epochs[:number]) for number in range(1, len(self.epochs))]
