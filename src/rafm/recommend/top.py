"""Exact top-k of a catalogue for many contexts: matrix products tile by tile, then the few best again in float64.

Contexts and items are sorted by level. A tile of scores then needs only the coordinates of the lower of the two levels,
and stays in the cache while its best are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..errors import ConfigError
from ..files.terminal import counted
from ..model.model import Model
from ..model.pairs import pair_products
from ..rows.blocks import take_rows
from ..rows.checked import CheckedRows
from ..rows.numbering import number_rows
from .rerank import LEADING, reranked
from .select import add_candidates, drop_beaten, exact_products
from .sides import coordinates_by_level, own_scores, refuse_field_vectors, row_levels, side_vectors

CHUNK_ROWS = 1 << 14  # contexts whose vectors are kept at a time
BLOCK_ROWS, TILE_ITEMS = 256, 2048  # contexts and items of a tile
LEADING_ROWS = 1 << 10  # the same, if the leading items of each are scored again
LIST_ROOM = 1024  # entries of a list of candidates beyond a tile
ROUNDING = 4 * np.finfo(np.float32).eps


@dataclass(frozen=True)
class Recommended:
    """Best items of each context.

    Parameters
    ----------
    items : ndarray of shape (n_contexts, top)
        Row numbers of the items, best first; ties by row number. -1 where there are fewer items.
    scores : ndarray of shape (n_contexts, top)
        Scores of context and item together, NaN where there is no item.
    """

    items: np.ndarray
    scores: np.ndarray


@dataclass(frozen=True)
class Catalogue:
    """Items to choose from, prepared for many contexts."""

    model: Model
    items: CheckedRows
    known: np.ndarray = field(init=False)  # whether an id belongs to the items' side

    def __post_init__(self) -> None:
        refuse_field_vectors(self.model, "recommend")
        object.__setattr__(self, "known", np.unique(self.items.indices))

    @cached_property
    def levels(self) -> np.ndarray:
        """Level of each item, ascending."""
        return np.sort(row_levels(self.model, self.items))

    @cached_property
    def order(self) -> np.ndarray:
        """Row numbers of the items by level: those of a low level have zeros in most coordinates."""
        return np.argsort(row_levels(self.model, self.items), kind="stable")

    @cached_property
    def places(self) -> np.ndarray:
        """Place of each item in that order."""
        return np.argsort(self.order)

    @cached_property
    def vectors(self) -> np.ndarray:
        """Vectors psi of all items in that order, coordinates of low levels first."""
        vectors = side_vectors(self.model, self.items, "item")
        return np.ascontiguousarray(vectors[np.ix_(self.order, coordinates_by_level(self.model)[0])])

    @cached_property
    def largest(self) -> np.ndarray:
        """Largest absolute value of each coordinate."""
        return np.abs(self.vectors).max(axis=0, initial=0)

    def recommend(
        self, contexts: CheckedRows, top: int = 10, exclude: Sequence[np.ndarray] | None = None, threads: int = 1
    ) -> Recommended:
        """Return the best items of each context.

        exclude: for each context, row numbers of items that must not be recommended.
        """
        self._check(contexts, top, exclude)
        found = Recommended(np.full((contexts.n_rows, top), -1), np.full((contexts.n_rows, top), np.nan))
        chunk = CHUNK_ROWS if self.model.head is None else LEADING_ROWS
        with ThreadPoolExecutor(max(1, threads), "rafm") as pool, threadpool_limits(1, "blas"):
            for first in range(0, contexts.n_rows, chunk):
                some = slice(first, min(first + chunk, contexts.n_rows))
                seen = None if exclude is None else exclude[some]
                found.items[some], found.scores[some] = self._best(
                    take_rows(contexts, some.start, some.stop), top, seen, pool
                )
        return found

    def _best(
        self, contexts: CheckedRows, top: int, seen: Sequence[np.ndarray] | None, pool: ThreadPoolExecutor
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return items and scores of the best of a chunk of contexts."""
        n = top if self.model.head is None else max(top, LEADING)
        part = Recommended(np.full((contexts.n_rows, n), -1), np.full((contexts.n_rows, n), np.nan))
        scorer = self._scorer(contexts)
        blocks = np.array_split(scorer.order, range(BLOCK_ROWS, scorer.order.size, BLOCK_ROWS))
        [*pool.map(lambda rows: self._fill(part, rows, scorer, seen), blocks)]
        if self.model.head is None:
            return part.items, part.scores
        return reranked(self.model, contexts, self.items, part.items, top)

    def _scorer(self, contexts: CheckedRows) -> Scorer:
        """Return what scores these contexts against all items."""
        kind = MixtureScorer if self.model.plan.traits.has_mixture else ProductScorer
        return kind(self, contexts)

    def _check(self, contexts: CheckedRows, top: int, exclude: Any) -> None:
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}", key="top")
        if exclude is not None and len(exclude) != contexts.n_rows:
            raise ConfigError(
                f"exclude is for {counted(len(exclude), 'context')}, but there are {contexts.n_rows}", key="exclude"
            )
        both = np.intersect1d(self.known, contexts.indices)
        if both.size:
            raise ConfigError(
                f"feature {both[0]} occurs in contexts and in items; a feature must be on one side only. Give tables "
                "of contexts and of items different columns.",
                key="items",
            )

    def _fill(self, part: Recommended, block: np.ndarray, scorer: Scorer, seen: Sequence[np.ndarray] | None) -> None:
        """Fill in the best items of some contexts."""
        top = min(part.items.shape[1], self.items.n_rows)
        rows, columns = self._candidates(block, scorer, seen, top)
        values, items = scorer.exact(block[rows], columns), self.order[columns]
        order = np.lexsort((items, -values, rows))
        rows, items, values = rows[order], items[order], values[order]
        place = np.arange(rows.size) - np.searchsorted(rows, rows)  # rank within its context
        kept = place < top
        part.items[block[rows[kept]], place[kept]] = items[kept]
        part.scores[block[rows[kept]], place[kept]] = values[kept]

    def _candidates(
        self, block: np.ndarray, scorer: Scorer, seen: Sequence[np.ndarray] | None, top: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return rows of the block and places of all items that may belong to the best of their row."""
        hidden = Hidden([] if seen is None else [self.places[seen[row]] for row in block])
        lists = Candidates(scorer.slacks[block], top)
        for first in range(0, self.items.n_rows, TILE_ITEMS):
            tile = slice(first, min(first + TILE_ITEMS, self.items.n_rows))
            scores = scorer.approximate(block, tile)
            hidden.hide(scores, tile)
            lists.add(scores, first)
        return lists.found()


class Hidden:
    """Entries of a block of scores that must not be chosen."""

    def __init__(self, places: Sequence[np.ndarray]):
        columns = np.concatenate([np.zeros(0, np.int64), *places])
        rows = np.repeat(np.arange(len(places)), [len(one) for one in places])
        order = np.argsort(columns, kind="stable")
        self.rows, self.columns = rows[order], columns[order]

    def hide(self, scores: np.ndarray, tile: slice) -> None:
        """Set those of a tile to minus infinity."""
        a, b = np.searchsorted(self.columns, (tile.start, tile.stop))
        scores[self.rows[a:b], self.columns[a:b] - tile.start] = -np.inf


class Candidates:
    """Lists of what may belong to the best of each row, while scores come tile by tile."""

    def __init__(self, slacks: np.ndarray, top: int):
        n = slacks.size
        self.slacks, self.heaps = slacks, np.full((n, top), -np.inf, np.float32)
        self.lengths = np.zeros(n, np.int64)
        self.columns = np.empty((n, TILE_ITEMS + LIST_ROOM + 4 * top), np.int32)
        self.scores = np.empty(self.columns.shape, np.float32)

    def add(self, scores: np.ndarray, first: int) -> None:
        """Add the scores of the items from `first` on."""
        done = 0
        while (done := add_candidates(scores, first, done, self.slacks, self._lists())) < len(scores):
            self.columns = np.hstack([self.columns, np.empty_like(self.columns)])  # many equal scores
            self.scores = np.hstack([self.scores, np.empty_like(self.scores)])

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and columns of all candidates."""
        drop_beaten(self.slacks, self._lists())
        listed = np.arange(self.columns.shape[1]) < self.lengths[:, None]
        return np.nonzero(listed)[0], self.columns[listed].astype(np.int64)

    def _lists(self) -> tuple[np.ndarray, ...]:
        return self.heaps, self.lengths, self.columns, self.scores


class Scorer:
    """Scores contexts against all items of a catalogue, which are in its order."""

    slacks: np.ndarray  # bounds of the errors of approximate scores of each context

    def __init__(self, catalogue: Catalogue, contexts: CheckedRows):
        self.catalogue, self.model = catalogue, catalogue.model
        self.levels = row_levels(self.model, contexts)
        self.order = np.argsort(self.levels, kind="stable")  # of contexts, by level
        self.bias = float(self.model.parameters.bias[0])

    def approximate(self, block: np.ndarray, tile: slice) -> np.ndarray:
        """Return float32 scores of some contexts and items, less what is the same for all items."""
        raise NotImplementedError

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return float64 scores of pairs of contexts and items."""
        raise NotImplementedError


class ProductScorer(Scorer):
    """Scores by inner products."""

    def __init__(self, catalogue: Catalogue, contexts: CheckedRows):
        super().__init__(catalogue, contexts)
        order, self.widths = coordinates_by_level(self.model)
        self.vectors = np.ascontiguousarray(side_vectors(self.model, contexts, "context")[:, order])
        self.own = own_scores(self.model, contexts).astype(float) + self.bias
        self.slacks = (ROUNDING * order.size * (np.abs(self.vectors) @ catalogue.largest)).astype(np.float32)

    def approximate(self, block: np.ndarray, tile: slice) -> np.ndarray:
        level = min(self.levels[block[-1]], self.catalogue.levels[tile.stop - 1])
        n = self.widths[level]
        return np.asarray(self.vectors[block, :n] @ self.catalogue.vectors[tile, :n].T)

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        products = np.empty(rows.size)
        exact_products(self.vectors, self.catalogue.vectors, rows, columns, self.widths[self.levels], products)
        return products + self.own[rows]


class MixtureScorer(Scorer):
    """Scores pair by pair: MRMA's mixtures are no inner products."""

    def __init__(self, catalogue: Catalogue, contexts: CheckedRows):
        super().__init__(catalogue, contexts)
        self.scores = self.bias + mixture_scores(self.model, contexts, catalogue.items)[:, catalogue.order]
        self.slacks = (ROUNDING * np.abs(self.scores).max(axis=1, initial=0)).astype(np.float32)

    def approximate(self, block: np.ndarray, tile: slice) -> np.ndarray:
        return self.scores[block, tile].astype(np.float32)

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        return np.asarray(self.scores[rows, columns])


def mixture_scores(model: Model, contexts: CheckedRows, items: CheckedRows) -> np.ndarray:
    """Return MRMA's scores of all pairs of one context feature and one item feature, without the bias."""
    left, right = number_rows(contexts, model.numbering), number_rows(items, model.numbering)
    scores = np.add.outer(own_scores(model, contexts), own_scores(model, items)).astype(float)
    single = [np.flatnonzero(np.diff(rows.indptr) == 1) for rows in (left, right)]
    places = [rows.indptr[one] for rows, one in zip((left, right), single)]
    products = pair_products(model, left.indices[places[0]], right.indices[places[1]])
    scores[np.ix_(*single)] += products * np.outer(left.values[places[0]], right.values[places[1]])
    return scores
