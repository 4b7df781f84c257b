"""Recall and NDCG of recommendations for contexts with held-out items, among all items that they were not seen with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from ...kernels import whole_data as kernels
from ...kernels.tables import Rows
from ...metrics.top_items import values_at
from ..steps.negatives import Seen
from .engine import WholeDataEngine
from .pairs import CONTEXT, ITEM, Pairs, pairs_of

AT = 20  # length of the lists
MOST_CONTEXTS = 1000  # drawn if there are more: scoring them takes about as long as a sweep
BLOCK_CONTEXTS = 128  # scored at a time
DRAWN = 4  # sets the draw apart from those for other purposes


@dataclass(frozen=True)
class Judge:
    """Contexts, the held-out items of each, and the items that it was seen with."""

    contexts: np.ndarray
    starts: np.ndarray
    targets: np.ndarray
    hidden: Seen

    @classmethod
    def of(cls, held_out: Iterable[Rows], pairs: Pairs, is_item: np.ndarray, seed: int) -> Judge:
        """Draw contexts among those of the rows that are known from training; items that are new cannot be found."""
        found = [pairs_of(rows, is_item, pairs) for rows in held_out]
        contexts, items = (np.concatenate([np.zeros(0, np.int32), *parts]) for parts in zip(*found))
        known = Seen(pairs.contexts, pairs.items, pairs.starts.size - 1)
        is_new = ~known.has(contexts, items)
        codes = np.unique(contexts[is_new].astype(np.int64) * pairs.tables[ITEM].n_items + items[is_new])
        contexts, targets = codes // pairs.tables[ITEM].n_items, codes % pairs.tables[ITEM].n_items
        drawn = np.unique(contexts)
        if drawn.size > MOST_CONTEXTS:
            drawn = np.sort(np.random.default_rng([seed, DRAWN]).choice(drawn, MOST_CONTEXTS, replace=False))
        kept = np.isin(contexts, drawn)
        starts = np.concatenate(
            [[0], np.cumsum(np.bincount(np.searchsorted(drawn, contexts[kept]), minlength=drawn.size))]
        )
        return cls(drawn, starts.astype(np.int64), targets[kept], known)

    def values(self, engine: WholeDataEngine) -> dict[str, float | None]:
        """Return the means of the metrics; none if there are no contexts."""
        if not self.contexts.size:
            return {}
        better = np.empty(self.targets.size, np.int64)
        with threadpool_limits(1, "blas"):
            blocks = range(0, self.contexts.size, BLOCK_CONTEXTS)
            engine.each(lambda first: self._rank(engine, first, better), blocks)
        owners = np.repeat(np.arange(self.contexts.size), np.diff(self.starts))
        hits = np.zeros((self.contexts.size, AT), bool)
        hits[owners[better < AT], better[better < AT]] = True
        found = values_at(hits, np.diff(self.starts), AT)
        return {name: float(found[name].mean()) for name in ("ndcg", "recall")}

    def _rank(self, engine: WholeDataEngine, first: int, better: np.ndarray) -> None:
        """Count the items before each held-out one of some contexts."""
        own, items = self.contexts[first : first + BLOCK_CONTEXTS], engine.sums[ITEM]
        scores = engine.sums[CONTEXT][own, 1:] @ items[:, 1:].T + items[:, 0]
        places = self.starts[first : first + own.size + 1]
        seen = [self.hidden.items[a:b] for a, b in zip(self.hidden.indptr[own], self.hidden.indptr[own + 1])]
        hidden_starts = np.cumsum([0, *(one.size for one in seen)])
        kernels.count_better(scores, places, self.targets, hidden_starts, np.concatenate(seen), better)
