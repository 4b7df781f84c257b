"""Cut a RaFM to a size: a lower rank for each level, or fewer levels.

The vectors of each level are rotated to axes of their own, which changes no score, and all of them are cut to the same
rank. The ranks still ascend with the level. Optimiser state must be one number per vector, and stays as it is.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..model.model import Model
from .cut import cut_level
from .lengths import BISECTIONS, LEAST_PRICE, lengths_up_to, missed
from .rotation import rotated

Ranks = tuple[int, ...]


class LevelCutter:
    """Cuts one RaFM to any number of factors; the parameters are those of Cutter."""

    def __init__(self, model: Model, importance: np.ndarray | None = None):
        self.model = model
        importance = (model.counts if importance is None else importance).astype(float)
        self.blocks = [rotated(block, importance[: len(block)]) for block in model.parameters.factors]
        self.choices = [(1, *lengths_up_to(rank)[1:]) if rank > 1 else (1,) for rank in model.plan.ranks]
        pairs = zip(self.blocks, self.choices)
        self.losses = [missed(block, importance[: len(block)], lengths).sum(axis=0) for block, lengths in pairs]

    @property
    def n_factors(self) -> int:
        """Number of factors before the cut."""
        return sum(block.size for block in self.blocks)

    def smallest(self) -> Model:
        """Return the smallest model that a cut can reach."""
        return self.cut((1,))

    def choose(self, budget: float) -> Ranks:
        """Return the rank of each level, of as many levels as fit into this many factors in total."""
        for level in range(len(self.blocks), 0, -1):
            if (found := self._ranks(level, budget)) is not None:
                return found
        return (1,)

    def _ranks(self, level: int, budget: float) -> Ranks | None:
        """Return the best ranks of the first levels within the budget, None if none are."""

        def size(ranks: Ranks) -> int:
            return sum(rank * len(block) for rank, block in zip(ranks, self.blocks))

        if size(found := self._best(level, 0.0)) <= budget:
            return found
        high = max(float(losses.max()) for losses in self.losses) + 1e-300
        if size(self._best(level, high)) > budget:
            return None
        low = high * LEAST_PRICE
        for _ in range(BISECTIONS):
            price = float(np.sqrt(low) * np.sqrt(high))
            low, high = (price, high) if size(self._best(level, price)) > budget else (low, price)
        return self._best(level, high)

    def _best(self, level: int, price: float) -> Ranks:
        """Return the ascending ranks that minimise the loss plus the price of all factors, level by level."""
        best: dict[int, tuple[float, Ranks]] = {0: (0.0, ())}  # by the rank of the last level
        for block, lengths, losses in zip(self.blocks[:level], self.choices, self.losses):
            grown = {}
            for length, loss in zip(lengths, losses):
                if lower := [pair for last, pair in best.items() if last < length]:
                    cost, ranks = min(lower)
                    grown[length] = (cost + float(loss) + price * length * len(block), (*ranks, length))
            best = grown
        return min(best.values())[1]

    def cut(self, ranks: Ranks) -> Model:
        """Return the model with these ranks, and as many levels."""
        low = cut_level(self.model, len(ranks))
        factors = [block[:, :rank].copy() for block, rank in zip(self.blocks, ranks)]
        return replace(
            low,
            plan=replace(low.plan, ranks=tuple(ranks)),
            parameters=replace(low.parameters, factors=factors),
        )
