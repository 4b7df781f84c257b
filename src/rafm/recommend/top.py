"""Exact top-k of a catalogue for many contexts: blocked matrix products, then the few best again in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..errors import ConfigError
from ..model.model import Model
from ..model.pairs import pair_products
from ..rows.blocks import take_rows
from ..rows.checked import CheckedRows
from ..rows.numbering import number_rows
from .select import exact_products, select_candidates
from .sides import own_scores, row_levels, side_vectors, used_coordinates

BLOCK_BYTES = 1 << 23  # of scores, per thread
CHUNK_ROWS = 1 << 14  # contexts whose vectors are kept at a time
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


class Shelf(NamedTuple):
    """Neighbours in the order of the catalogue that use the same coordinates; vectors: psi, one item per column."""

    places: slice
    coordinates: np.ndarray
    vectors: np.ndarray


@dataclass(frozen=True)
class Catalogue:
    """Items to choose from, prepared for many contexts."""

    model: Model
    items: CheckedRows
    known: np.ndarray = field(init=False)  # whether an id belongs to the items' side

    def __post_init__(self) -> None:
        object.__setattr__(self, "known", np.unique(self.items.indices))

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
        """Vectors psi of all items in that order."""
        return side_vectors(self.model, self.items, "item")[self.order]

    @cached_property
    def shelves(self) -> list[Shelf]:
        """Items of each level."""
        ends = np.cumsum([0, *np.bincount(row_levels(self.model, self.items), minlength=self.model.plan.n_levels + 1)])
        parts = zip(map(slice, ends[:-1], ends[1:]), used_coordinates(self.model))
        return [Shelf(part, used, self.vectors[part][:, used].T.copy()) for part, used in parts]

    def recommend(
        self, contexts: CheckedRows, top: int = 10, exclude: Sequence[np.ndarray] | None = None, threads: int = 1
    ) -> Recommended:
        """Return the best items of each context.

        exclude: for each context, row numbers of items that must not be recommended.
        """
        self._check(contexts, top, exclude)
        found = Recommended(np.full((contexts.n_rows, top), -1), np.full((contexts.n_rows, top), np.nan))
        with ThreadPoolExecutor(max(1, threads), "rafm") as pool:
            for first in range(0, contexts.n_rows, CHUNK_ROWS):
                some = slice(first, min(first + CHUNK_ROWS, contexts.n_rows))
                scorer = self.scorer(take_rows(contexts, some.start, some.stop))
                part = Recommended(found.items[some], found.scores[some])
                seen = None if exclude is None else exclude[some]
                [*pool.map(lambda rows: self._fill(part, rows, scorer, seen), self._blocks(part))]  # noqa: B023
        return found

    def scorer(self, contexts: CheckedRows) -> Scorer:
        """Return what scores these contexts against all items."""
        kind = MixtureScorer if self.model.plan.traits.has_mixture else ProductScorer
        return kind(self, contexts)

    def _blocks(self, part: Recommended) -> list[slice]:
        n_rows, n_contexts = max(1, BLOCK_BYTES // (4 * max(self.items.n_rows, 1))), len(part.items)
        return [slice(start, min(start + n_rows, n_contexts)) for start in range(0, n_contexts, n_rows)]

    def _check(self, contexts: CheckedRows, top: int, exclude: Any) -> None:
        if top < 1:
            raise ConfigError(f"top must be at least 1, found {top}", key="top")
        if exclude is not None and len(exclude) != contexts.n_rows:
            raise ConfigError(f"exclude has {len(exclude)} entries for {contexts.n_rows} contexts", key="exclude")
        both = np.intersect1d(self.known, contexts.indices)
        if both.size:
            raise ConfigError(
                f"feature {both[0]} occurs in contexts and in items; a feature must be on one side only", key="items"
            )

    def _fill(self, part: Recommended, some: slice, scorer: Scorer, exclude: Sequence[np.ndarray] | None) -> None:
        """Fill in the best items of some contexts."""
        scores, slacks = scorer.approximate(some)
        if exclude is not None:
            for r, items in enumerate(exclude[some]):
                scores[r, self.places[items]] = -np.inf
        top = min(part.items.shape[1], self.items.n_rows)
        rows, columns = _candidates(scores, slacks, top)
        values, items = scorer.exact(rows + some.start, columns), self.order[columns]
        order = np.lexsort((items, -values, rows))
        rows, items, values = rows[order], items[order], values[order]
        place = np.arange(rows.size) - np.searchsorted(rows, rows)  # rank within its context
        kept = place < top
        part.items[some][rows[kept], place[kept]] = items[kept]
        part.scores[some][rows[kept], place[kept]] = values[kept]


class Scorer:
    """Scores contexts against all items of a catalogue, in its order."""

    def __init__(self, catalogue: Catalogue, contexts: CheckedRows):
        self.catalogue, self.model, self.contexts = catalogue, catalogue.model, contexts
        self.bias = float(self.model.parameters.bias[0])

    def approximate(self, some: slice) -> tuple[np.ndarray, np.ndarray]:
        """Return float32 scores of some contexts, and bounds of their errors."""
        raise NotImplementedError

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return float64 scores of pairs of contexts and items."""
        raise NotImplementedError


class ProductScorer(Scorer):
    """Scores by inner products."""

    def __init__(self, catalogue: Catalogue, contexts: CheckedRows):
        super().__init__(catalogue, contexts)
        self.vectors = side_vectors(self.model, contexts, "context")
        self.own = own_scores(self.model, contexts).astype(float) + self.bias
        largest = np.abs(catalogue.vectors).max(axis=0, initial=0)
        bounds = ROUNDING * self.vectors.shape[1] * (np.abs(self.vectors) @ largest)
        self.slacks, self.shelves = bounds.astype(np.float32), catalogue.shelves

    def approximate(self, some: slice) -> tuple[np.ndarray, np.ndarray]:
        scores = np.empty((some.stop - some.start, self.catalogue.items.n_rows), np.float32)
        for shelf in self.shelves:
            scores[:, shelf.places] = self.vectors[some, shelf.coordinates] @ shelf.vectors
        return scores, self.slacks[some]

    def exact(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        products = np.empty(rows.size)
        exact_products(self.vectors, self.catalogue.vectors, rows, columns, products)
        return products + self.own[rows]


class MixtureScorer(Scorer):
    """Scores pair by pair: MRMA's mixtures are no inner products."""

    def __init__(self, catalogue: Catalogue, contexts: CheckedRows):
        super().__init__(catalogue, contexts)
        self.scores = self.bias + mixture_scores(self.model, contexts, catalogue.items)[:, catalogue.order]

    def approximate(self, some: slice) -> tuple[np.ndarray, np.ndarray]:
        scores = self.scores[some].astype(np.float32)
        return scores, ROUNDING * np.abs(scores).max(axis=1, initial=0)

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


def _candidates(scores: np.ndarray, slacks: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of all entries that may belong to the best of their row."""
    heap, listed = np.empty(top, np.float32), np.empty(scores.shape[1], np.int64)
    room = scores.shape[0] * (top + 32)
    while True:
        rows, columns = np.empty(room, np.int64), np.empty(room, np.int64)
        needed = select_candidates(scores, slacks, heap, listed, rows, columns)
        if needed <= room:
            return rows[:needed], columns[:needed]
        room = needed


def excluded_items(seen: CheckedRows, contexts: CheckedRows, catalogue: Catalogue) -> Iterator[np.ndarray]:
    """Yield for each context the items that occur with it in the seen rows.

    A seen row has the features of a context and of an item; ids that occur in no item belong to the context.
    """
    keys = {key: row for row, key in enumerate(row_keys(catalogue.items))}
    found: dict[Any, list[int]] = {}
    for context, item in zip(row_keys(seen, catalogue.known, inside=False), row_keys(seen, catalogue.known)):
        if item in keys:
            found.setdefault(context, []).append(keys[item])
    for key in row_keys(contexts):
        yield np.unique(np.array(found.get(key, []), np.int64))


def row_keys(rows: CheckedRows, ids: np.ndarray | None = None, inside: bool = True) -> Iterator[bytes]:
    """Yield the sorted ids of each row as bytes; only those inside, or outside, of the given ids."""
    kept = np.ones(rows.indices.size, bool) if ids is None else np.isin(rows.indices, ids) == inside
    for a, b in zip(rows.indptr[:-1], rows.indptr[1:]):
        yield np.sort(rows.indices[a:b][kept[a:b]]).astype(np.int64).tobytes()
