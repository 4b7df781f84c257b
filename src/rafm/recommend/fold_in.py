"""Vectors of contexts from their history: the optimum of the loss over all pairs, given the rest of the model.

A context with known sums (c, p) gets a feature of its own, u = (w, v), with value 1. Its scores are s + u.z, with s
those that it has without and z = [1, q] of each item, so the loss is quadratic in u, and

    (sum g z z' over the history + a sum z z' over all items + penalty) u = sum g (1 - s) z - a sum s z

Only the Gram matrix of the items is needed besides the history: a context costs the cube of the rank once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..errors import ConfigError
from ..model.model import Model
from ..rows.checked import CheckedRows
from .sides import own_scores, signed_sums

CROSS = np.sqrt(2.0)  # a pair across the sides counts 2, see train/whole_data/engine.py
BLOCK_ITEMS = 4096  # of a matrix product


@dataclass(frozen=True)
class FoldIn:
    """What contexts are folded in against: a model that was trained by the loss over all pairs, and the items."""

    model: Model
    items: CheckedRows

    def __post_init__(self) -> None:
        if "unseen_weight" not in self.model.options:
            raise ConfigError(
                "history needs a model that was trained with loss='whole-data'; others have no best vector for it",
                key="history",
            )

    @cached_property
    def designs(self) -> np.ndarray:
        """Vectors [1, q, own term] of the items."""
        return np.column_stack([np.ones(self.items.n_rows), *self._sums(self.items)]).astype(np.float32)

    @cached_property
    def gram(self) -> np.ndarray:
        """Sum of z [1, q, own term] over the items."""
        found = np.zeros((self.designs.shape[1],) * 2)
        for first in range(0, len(self.designs), BLOCK_ITEMS):
            block = self.designs[first : first + BLOCK_ITEMS]
            found += block.T @ block
        return found[:-1]

    def _sums(self, rows: CheckedRows) -> tuple[np.ndarray, np.ndarray]:
        """Return the vectors of a side, scaled so that their products are pairs, and its own terms."""
        vectors = np.hstack([CROSS * sums for sign, sums in signed_sums(self.model, rows) if sign > 0])
        return vectors, own_scores(self.model, rows)

    def steps(
        self, contexts: CheckedRows, history: Sequence[np.ndarray], weights: Sequence[np.ndarray] | None = None
    ) -> np.ndarray:
        """Return u = [w, v] of each context, 0 without a history.

        history: row numbers of items. weights: of these, 1 by default.
        """
        vectors, own = self._sums(contexts)
        known = np.column_stack([own, vectors, np.ones(len(own))])
        found = np.zeros((len(own), self.designs.shape[1] - 1), np.float32)
        for row, items in enumerate(history):
            if len(items):
                chosen = np.ones(len(items)) if weights is None else np.asarray(weights[row], float)
                found[row] = self._solve(known[row], np.asarray(items), chosen)
        return found

    def _solve(self, known: np.ndarray, items: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return u of one context; known: [own term, vector, 1]."""
        options, wide = self.model.options, self.designs[items].astype(float)
        a, z, g = options["unseen_weight"], wide[:, :-1], weights / options.get("weight_scale", 1.0)
        penalty = self._l2 * (g.sum() + a * len(self.designs)) ** self.model.loss.penalty_power  # type: ignore[attr-defined]
        hessian = z.T @ (g[:, None] * z) + a * self.gram[:, :-1] + penalty * np.eye(z.shape[1])
        return np.linalg.solve(hessian, z.T @ (g * (1 - wide @ known)) - a * (self.gram @ known))

    @cached_property
    def _l2(self) -> float:
        found = self.model.options["l2"]
        return float(found[-1] if isinstance(found, list) else found)


def added_vectors(steps: np.ndarray) -> np.ndarray:
    """Return what is added to the vectors phi of contexts, see sides.py: both sums, but not their last coordinate."""
    half = steps[:, 1:] / np.float32(CROSS)
    return np.hstack([half, half, np.zeros((len(steps), 1), np.float32)])
