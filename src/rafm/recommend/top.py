"""Exact top-k of a catalogue for many contexts: blocked matrix products, then the few best again in float64."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..model.model import Model
from ..model.pairs import pair_products
from ..rows.blocks import take_rows
from ..rows.checked import CheckedRows
from ..rows.numbering import number_rows
from .select import select_candidates
from .sides import own_scores, side_vectors

BLOCK_BYTES = 1 << 26  # of scores, per thread
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
        object.__setattr__(self, "known", np.unique(self.items.indices))

    @cached_property
    def vectors(self) -> np.ndarray:
        """Vectors psi of all items."""
        return side_vectors(self.model, self.items, "item")

    @cached_property
    def sizes(self) -> np.ndarray:
        """Absolute psi, for bounds of the rounding error."""
        return np.abs(self.vectors)

    def recommend(
        self, contexts: CheckedRows, top: int = 10, exclude: Sequence[np.ndarray] | None = None, threads: int = 1
    ) -> Recommended:
        """Return the best items of each context.

        exclude: for each context, row numbers of items that must not be recommended.
        """
        self._check(contexts, top, exclude)
        n_rows = max(1, BLOCK_BYTES // (4 * max(self.items.n_rows, 1)))
        starts = range(0, contexts.n_rows, n_rows)

        def best(start: int) -> Recommended:
            stop = min(start + n_rows, contexts.n_rows)
            seen = None if exclude is None else exclude[start:stop]
            return self._best(take_rows(contexts, start, stop), min(top, self.items.n_rows), seen)

        with ThreadPoolExecutor(max(1, threads), "rafm") as pool:
            parts = [*pool.map(best, starts)]
        return _padded(parts, contexts.n_rows, top)

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

    def _best(self, contexts: CheckedRows, top: int, exclude: Sequence[np.ndarray] | None) -> Recommended:
        scores, slacks, exact = self._scored(contexts)
        if exclude is not None:
            for r, items in enumerate(exclude):
                scores[r, items] = -np.inf
        rows, columns = _candidates(scores, slacks, top)
        values = exact(rows, columns)
        order = np.lexsort((columns, -values, rows))
        rows, columns, values = rows[order], columns[order], values[order]
        place = np.arange(rows.size) - np.searchsorted(rows, rows)  # rank within its context
        kept = place < top
        found = Recommended(np.full((contexts.n_rows, top), -1), np.full((contexts.n_rows, top), np.nan))
        found.items[rows[kept], place[kept]] = columns[kept]
        found.scores[rows[kept], place[kept]] = values[kept]
        return found

    def _scored(self, contexts: CheckedRows) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return scores in float32, bounds of their errors, and a function that scores pairs in float64."""
        model = self.model
        bias = float(model.parameters.bias[0])
        if model.plan.traits.has_mixture:
            full = bias + mixture_scores(model, contexts, self.items)
            return full.astype(np.float32), ROUNDING * np.abs(full).max(axis=1, initial=0), lambda r, i: full[r, i]
        vectors, own = side_vectors(model, contexts, "context"), own_scores(model, contexts).astype(float)
        slacks = ROUNDING * vectors.shape[1] * (np.abs(vectors) @ self.sizes.max(axis=0, initial=0))

        def exact(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
            pairs = np.einsum("ij,ij->i", vectors[rows].astype(float), self.vectors[columns].astype(float))
            return np.asarray(pairs + own[rows] + bias)

        return vectors @ self.vectors.T, slacks.astype(np.float32), exact


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
    heap, room = np.empty(top, np.float32), scores.shape[0] * (top + 32)
    while True:
        rows, columns = np.empty(room, np.int64), np.empty(room, np.int64)
        needed = select_candidates(scores, slacks, heap, rows, columns)
        if needed <= room:
            return rows[:needed], columns[:needed]
        room = needed


def _padded(parts: Sequence[Recommended], n_contexts: int, top: int) -> Recommended:
    """Join parts, with -1 and NaN if there are fewer items than asked for."""
    whole = Recommended(np.full((n_contexts, top), -1), np.full((n_contexts, top), np.nan))
    start = 0
    for part in parts:
        stop, n = start + len(part.items), part.items.shape[1]
        whole.items[start:stop, :n], whole.scores[start:stop, :n] = part.items, part.scores
        start = stop
    return whole


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
