"""Draw an item for each row that its context was not seen with, for losses of pairs.

The items are the distinct item parts of the training rows: the features of the fields that the recipe names. What is
drawn depends on the seed, the epoch and the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ...errors import ConfigError, DataValueError
from ...jit.compile import kernel
from ...kernels.tables import Rows
from ...losses.loss import Loss
from ...plan.fields import FeatureFields
from ...rows.pairs import DrawnRows, Items, join_items, pick_items, side_keys
from .loader import Blocks

MOST_DRAWS = 16  # for a row; if all were seen with its context, it is left out of the epoch
VALID_DRAWS = 4  # other items per validation row
CHUNK_ROWS = 1 << 16  # validation rows that are in memory as pairs
JUDGED = 3  # sets the draws for validation rows apart from those for other purposes
NEVER = -1


def item_features(fields: FeatureFields | None, names: Sequence[str]) -> np.ndarray:
    """Return which features belong to items: those of the named fields."""
    if fields is None:
        raise DataValueError(
            "ranking needs fields to tell items from contexts: those of a table or of libffm rows, --fields FILE for "
            "rows of ids, or fields= for matrices"
        )
    for name in names:
        if name not in fields.names:
            known = ", ".join(fields.names[:20])
            raise ConfigError(f"item_fields has {name!r}, but the fields of the rows are {known}", key="item_fields")
    is_item = np.isin(fields.numbers, [fields.names.index(name) for name in names])
    if is_item.all():
        raise ConfigError("item_fields has all fields of the rows; name only those of the item", key="item_fields")
    return is_item


class Numbers:
    """Numbers of 64-bit keys, by their first occurrence."""

    def __init__(self, keys: np.ndarray):
        self.sorted, self.first = np.unique(keys, return_index=True)
        self.numbers = np.argsort(np.argsort(self.first))

    def of(self, keys: np.ndarray) -> np.ndarray:
        """Return the number of each key, NEVER if it did not occur."""
        at = np.minimum(np.searchsorted(self.sorted, keys), self.sorted.size - 1)
        return np.where(self.sorted[at] == keys, self.numbers[at], NEVER).astype(np.int32)


def distinct_rows(blocks: Iterable[Rows], sizes: Sequence[int], numbers: Numbers, is_own: np.ndarray) -> Items:
    """Return the features of one side of all rows that differ in it, in the order of their first rows."""
    first, parts, start = np.sort(numbers.first), [], 0
    for rows, size in zip(blocks, sizes):
        own = first[(first >= start) & (first < start + size)] - start
        parts.append(pick_items(rows, own, is_own))
        start += size
    return join_items(parts)


class Seen:
    """The items of each context, ascending."""

    def __init__(self, contexts: np.ndarray, items: np.ndarray, n_contexts: int):
        known = (contexts >= 0) & (items >= 0)
        contexts, items = contexts[known], items[known]
        self.items = items[np.lexsort((items, contexts))]
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(contexts, minlength=n_contexts))]).astype(np.int64)

    def has(self, contexts: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Return whether each context was seen with an item."""
        found = np.zeros(items.size, np.bool_)
        _mark_seen(self.indptr, self.items, contexts, items, found)
        return found


@kernel()
def _mark_seen(indptr, seen, contexts, items, found):  # type: ignore[no-untyped-def]
    """Set found[r] if items[r] is among those seen with contexts[r]."""
    for r in range(items.size):
        if contexts[r] >= 0:
            first, stop = indptr[contexts[r]], indptr[contexts[r] + 1]
            while first < stop:
                middle = (first + stop) // 2
                if seen[middle] < items[r]:
                    first = middle + 1
                else:
                    stop = middle
            found[r] = first < indptr[contexts[r] + 1] and seen[first] == items[r]


class Negatives:
    """Draws items for training and validation rows. The numbers of contexts, 4 bytes per row, stay in memory."""

    def __init__(self, blocks: Blocks, is_item: np.ndarray, loss: Loss, seed: int, held_out: Blocks | None = None):
        self.is_item, self.seed = is_item, seed
        keys = [side_keys(rows, is_item) for rows in blocks]
        self._contexts, self._items = (Numbers(np.concatenate(side)) for side in zip(*keys))
        self.contexts = [self._contexts.of(own) for own, _ in keys]
        numbers = [self._items.of(own) for _, own in keys]
        self.items = distinct_rows(blocks, [own.size for own in self.contexts], self._items, is_item)
        if self.items.n_items < 2:
            raise DataValueError("ranking needs at least two different items in the training rows")
        both, chosen = np.concatenate(self.contexts), np.concatenate(numbers)
        self.seen = Seen(both, chosen, self._contexts.sorted.size)
        chances = loss.negative_chances(np.bincount(chosen, minlength=self.items.n_items))
        self.cumulative = None if chances is None else np.cumsum(chances) / chances.sum()
        self.held_out = [] if held_out is None else [*self._judged_blocks(held_out)]

    def _judged_blocks(self, held_out: Blocks) -> Iterator[tuple[np.ndarray, Seen]]:
        """Yield the contexts of each block, and what its rows show besides the training rows."""
        for rows in held_out:
            contexts, items = side_keys(rows, self.is_item)
            numbers = self._contexts.of(contexts)
            yield numbers, Seen(numbers, self._items.of(items), self._contexts.sorted.size)

    # Drawing

    def drawn(self, number: int, rows: Rows, draw: np.random.Generator) -> DrawnRows:
        """Return a block of training rows with an item for each."""
        return DrawnRows(rows, self._draw(self.contexts[number], [self.seen], draw), self.items, self.is_item)

    def _draw(self, contexts: np.ndarray, seen: list[Seen], draw: np.random.Generator) -> np.ndarray:
        drawn, left = np.zeros(contexts.size, np.int32), np.arange(contexts.size)
        for _ in range(MOST_DRAWS):
            drawn[left] = self._any(left.size, draw)
            left = left[np.logical_or.reduce([known.has(contexts[left], drawn[left]) for known in seen])]
            if not left.size:
                break
        drawn[left] = NEVER
        return drawn

    def _any(self, size: int, draw: np.random.Generator) -> np.ndarray:
        """Return items, all as likely or by their counts."""
        if self.cumulative is None:
            return draw.integers(self.items.n_items, size=size, dtype=np.int32)
        found = np.searchsorted(self.cumulative, draw.random(size), side="right")
        return np.minimum(found, self.items.n_items - 1).astype(np.int32)  # the last sum may round to less than 1

    # Validation

    def differences(
        self, number: int, rows: Rows, scores: Callable[[Rows], np.ndarray]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield differences of scores between validation rows and others, always the same ones, and their weights."""
        (contexts, own), items = self.held_out[number], self.items.in_one_group()
        for turn in range(VALID_DRAWS):
            draw = np.random.default_rng([self.seed, JUDGED, number, turn])
            drawn = DrawnRows(rows, self._draw(contexts, [self.seen, own], draw), items, self.is_item)
            for first in range(0, contexts.size, CHUNK_ROWS):
                pairs = drawn.pairs(np.arange(first, min(first + CHUNK_ROWS, contexts.size)))
                found = scores(Rows(*pairs))
                yield found[::2] - found[1::2], pairs.weights[::2]
