"""What one training run does: a value for every option, and what policy.py has added from the rows."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from ..options import Options, resolve


@dataclass(frozen=True)
class Recipe(Options):
    """All that one run does. Options stay as the user gave them; one recipe is made from another.

    large_rank: of the model that is to be cut, None to choose it by the rows.
    """

    large_rank: int | None = None

    @classmethod
    def of(cls, options: Options) -> Recipe:
        """Return the recipe that follows options to the letter."""
        if isinstance(options, cls):
            return options
        return cls(**{one.name: getattr(options, one.name) for one in fields(Options)})

    @classmethod
    def like(cls, options: Options, names: tuple[str, ...], **chosen: Any) -> Recipe:
        """Return a recipe of its own, which takes only these of the options; chosen: what it does instead."""
        taken = {name: getattr(options, name) for name in names}
        return cls.of(resolve(task=options.loss.task, keep_state=options.keep_state, **taken, **chosen))

    def with_settings(self, rate: float | None, l2: float | None) -> Recipe:
        """Return the recipe with settings that were found, and nothing left to find but what depends on rows alone.

        l2: one for all ranks, None to keep what there is.
        """
        found: dict[str, Any] = {"learning_rate": rate, "l2": self.l2 if l2 is None else (l2,) * len(self.l2)}
        return replace(self, **found, searched=(), adaptable=self.adaptable & {"init_scale"})

    @property
    def name(self) -> str:
        """Name of the candidate in messages."""
        if not (self.optimizer.has_steps or self.optimizer.is_sampler):
            return f"{self.model} of rank {','.join(map(str, self.ranks))}"
        if self.optimizer.is_sampler:
            return "sampled and cut" if self.measured else "sampled fm"
        return "measured" if self.measured else self.model

    @property
    def needs_validation(self) -> bool:
        """Whether a run finds its settings by validation rows."""
        is_calibrated = self.optimizer.is_sampler and self.loss.is_classification
        return bool(self.measured or self.searched or self.rate_drops or is_calibrated)
