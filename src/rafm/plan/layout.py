"""Memory layout of the parameters: one record per feature in one flat array.

A training record is [weight, its state, one state per factor block, vectors]; a scoring record is [weight, vectors]. If
the optimiser has slots, they follow each vector, and the weight has one more state. If fields have weights, the number
of the feature's field follows the weight and its states. Vectors are padded to multiples of 4 elements and aligned so
that a record spans as few cache lines as possible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..kernels.tables import GROUPS, LINE_FLOATS, Tables
from ..rows.memory import release_pages, zeroed_pages
from .grouping import one_group
from .ranks import RankPlan

PAGE_FLOATS = 1 << 10  # float32 values in a page; hardware prefetchers do not cross pages
CHUNK = 1 << 12  # features whose vectors are drawn or copied at a time
FirstSlot = Callable[[np.ndarray], np.ndarray]
INITIAL_SPREAD = 0.01  # standard deviation of fresh vectors
INITIAL_STATE = 1.0  # initial value of AdaGrad's accumulators


def round_up(size: int, unit: int) -> int:
    """Round the size up to a multiple of the unit."""
    return -(-size // unit) * unit  # integer division rounds down, so negate twice


def _alignment(size: int) -> int:
    """Return the largest power of two up to a cache line that divides a padded size.

    >>> [_alignment(size) for size in (4, 8, 12, 32, 40)]
    [4, 8, 4, 16, 8]
    """
    return min(size & -size, LINE_FLOATS)


def _record_size(size: int) -> int:
    """Round a record up to whole cache lines, or to a power of two within one.

    >>> [_record_size(size) for size in (1, 3, 5, 12, 17, 36)]
    [1, 4, 8, 16, 32, 48]
    """
    return 1 << (size - 1).bit_length() if size <= LINE_FLOATS else round_up(size, LINE_FLOATS)


@dataclass(frozen=True)
class RecordLayout:
    """Positions of weights, states and vectors within records, and of records within the array."""

    plan: RankPlan
    with_states: bool
    n_slots: int = 0

    @cached_property
    def n_weight_states(self) -> int:
        """Number of states of a weight."""
        return 0 if not self.with_states else 2 if self.n_slots else 1

    @cached_property
    def has_fields(self) -> bool:
        """Whether a record has the field of its feature, which follows the weight and its states."""
        return self.plan.n_field_weights > 0

    @cached_property
    def first_state(self) -> int:
        """Position of the first block state within a record, and its length without blocks."""
        return 1 + self.n_weight_states + self.has_fields

    @cached_property
    def widths(self) -> list[int]:
        """Padded length of each block's vectors."""
        return [round_up(rank, 4) for rank in self.plan.block_ranks]

    @cached_property
    def offsets(self) -> list[int]:
        """Position of each block's vector within a record."""
        end = self.first_state + (len(self.widths) if self.with_states else 0)
        places = []
        for width in self.widths:
            places.append(round_up(end, _alignment(width)))
            end = places[-1] + (1 + self.n_slots) * width
        return places

    @cached_property
    def strides(self) -> list[int]:
        """Record size of a feature of level k, for k = 0 .. m."""
        vectors = (o + (1 + self.n_slots) * w for o, w in zip(self.offsets, self.widths))
        ends = [self.first_state, *vectors]
        return [_record_size(end) for end in ends]

    def place_levels(self, counts: Sequence[int]) -> tuple[np.ndarray, int]:
        """Return the origin of each level when counts[k] records of level k are packed, and the total size.

        The top level comes first, and each level starts on a new cache line. The record of feature i of level k starts
        at origin[k] + i * strides[k].
        """
        origins, end = np.zeros(len(counts), np.int64), 0
        for level in range(len(counts) - 1, -1, -1):
            # Features of this level start at number sizes[level + 1], so the origin may be negative.
            origins[level] = end - self.plan.sizes[level + 1] * self.strides[level]
            end = round_up(end + int(counts[level]) * self.strides[level], LINE_FLOATS)
        return origins, end

    def place_heads(self, bounds: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the origin of the heads' gradient sums per level and group, and their total size."""
        origins, end = np.zeros((len(self.strides), GROUPS), np.int64), 0
        for group in range(GROUPS):
            end = round_up(end, PAGE_FLOATS)  # groups are written by different threads: no page in common
            for level, stride in enumerate(self.strides):
                first, stop = bounds[level, 0, group : group + 2]
                origins[level, group] = end - first * stride
                end = round_up(end + int(stop - first) * stride, LINE_FLOATS)
        return origins, end

    @cached_property
    def members(self) -> list[int]:
        """Number of features of exactly level k = 0 .. m."""
        return [self.plan.members(level) for level in range(self.plan.n_levels + 1)]

    def tables(self, bounds: np.ndarray | None = None, dtype: Any = np.float32) -> Tables:
        """Return the lookup tables of the kernels; bounds are those of a Grouping (default: one group)."""
        bounds = one_group(self.plan.sizes) if bounds is None else bounds
        whole, kinds = sum(self.widths), 2 if self.plan.nested else 1  # S, and T if there are dependent factors
        weighted, sums = kinds * whole, kinds * whole * (2 if self.has_fields else 1)
        return Tables(
            sizes=np.array(self.plan.sizes, np.int64),
            origins=self.place_levels(self.members)[0],
            strides=np.array(self.strides, np.int64),
            offsets=np.array(self.offsets, np.int64),
            widths=np.array(self.widths, np.int64),
            part=round_up(sums + 1 + 2 * self.plan.n_levels, LINE_FLOATS),
            scalars=sums,
            starts=np.concatenate([[0], np.cumsum(self.widths)]).astype(np.int64),
            shares=(1 / np.array(self.plan.block_ranks, float)).astype(dtype),
            bounds=np.ascontiguousarray(bounds),
            head_origins=self.place_heads(bounds)[0],
            states=self.first_state,
            nested=self.plan.nested,
            row=(5 if self.has_fields and self.plan.nested else 2) * whole,
            field=1 + self.n_weight_states,
            weighted=weighted,
        )

    def views(self, records: np.ndarray) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield (level, slice of feature numbers, records as rows of a view) for each level."""
        origins, _ = self.place_levels(self.members)
        for level, stride in enumerate(self.strides):
            ids = slice(self.plan.sizes[level + 1], self.plan.sizes[level])
            span = slice(origins[level] + ids.start * stride, origins[level] + ids.stop * stride)
            yield level, ids, records[span].reshape(-1, stride)

    def pack(
        self,
        weights: np.ndarray,
        factors: Sequence[np.ndarray],
        state: float = INITIAL_STATE,
        first_slot: FirstSlot | None = None,
    ) -> np.ndarray:
        """Return records with these weights and, per block, these vectors; all states get the same value.

        first_slot: computes the first slot of vectors.
        """
        records = self._empty(state, weights.dtype)
        for _, ids, view in self.views(records):
            view[:, 0] = weights[ids]
        for number, block in enumerate(factors):
            self._put_vectors(records, number, 0, block, first_slot)
        return records

    def fresh(
        self,
        seed: int,
        state: float = INITIAL_STATE,
        first_slot: FirstSlot | None = None,
        spread: float = INITIAL_SPREAD,
    ) -> np.ndarray:
        """Return initial records: weights 0, vectors normally distributed with standard deviation `spread`."""
        normal, scale = np.random.default_rng(seed).standard_normal, np.float32(spread)

        def draw(number: int, features: slice, rank: int) -> np.ndarray:
            return normal((features.stop - features.start, rank), dtype=np.float32) * scale

        return self.drawn(draw, state, first_slot)

    def drawn(
        self,
        draw: Callable[[int, slice, int], np.ndarray],
        state: float = INITIAL_STATE,
        first_slot: FirstSlot | None = None,
    ) -> np.ndarray:
        """Return initial records: weights 0; draw(block, features, rank) returns the vectors of some features."""
        records = self._empty(state, np.float32)
        for number, (size, rank) in enumerate(zip(self.plan.sizes[1:], self.plan.block_ranks)):
            for first in range(0, size, CHUNK):
                vectors = draw(number, slice(first, min(first + CHUNK, size)), rank)
                self._put_vectors(records, number, first, vectors, first_slot)
        return records

    def put_fields(self, records: np.ndarray, fields: np.ndarray) -> None:
        """Write the field of every feature."""
        for _, ids, view in self.views(records):
            view[:, 1 + self.n_weight_states] = fields[ids]

    def _empty(self, state: float, dtype: Any) -> np.ndarray:
        """Return records of zeros with initialised states."""
        records = zeroed_pages(self.place_levels(self.members)[1], dtype)
        for level, _, view in self.views(records):
            if self.with_states:
                view[:, 1] = view[:, self.first_state : self.first_state + level] = state
        return records

    def _put_vectors(
        self, records: np.ndarray, number: int, first: int, vectors: np.ndarray, first_slot: FirstSlot | None
    ) -> None:
        """Write vectors of one block, those of features first, first + 1, ..."""
        offset, width, rank = self.offsets[number], self.widths[number], self.plan.block_ranks[number]
        for level, ids, view in self.views(records):
            start, stop = max(first, ids.start), min(first + len(vectors), ids.stop)
            if level > number and start < stop:  # block number p exists from level p + 1 on
                own, part = view[start - ids.start : stop - ids.start], vectors[start - first : stop - first]
                own[:, offset : offset + rank] = part
                if first_slot is not None:
                    own[:, offset + width : offset + width + rank] = first_slot(part)

    def state_places(self, level: int) -> np.ndarray:
        """Return the positions of a block's state and slots within a record, without padding."""
        offset, width, rank = self.offsets[level], self.widths[level], self.plan.block_ranks[level]
        slots = [offset + slot * width + np.arange(rank) for slot in range(1, self.n_slots + 1)]
        return np.concatenate([[self.first_state + level], *slots]).astype(np.int64)

    def put_states(self, records: np.ndarray, weights: np.ndarray, factors: Sequence[np.ndarray]) -> None:
        """Write the states of weights and of blocks, as `states` returns them."""
        for level, ids, view in self.views(records):
            view[:, 1 : 1 + self.n_weight_states] = weights[ids]
            for number, block in enumerate(factors[:level]):
                view[:, self.state_places(number)] = block[ids]

    def states(self, records: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the states of the weights and, per block, each vector's state followed by its slots."""
        weights = np.empty((self.plan.n_features, self.n_weight_states), records.dtype)
        sizes = zip(self.plan.sizes[1:], self.plan.block_ranks)
        factors = [np.empty((size, 1 + self.n_slots * rank), records.dtype) for size, rank in sizes]
        for level, ids, view in self.views(records):
            weights[ids] = view[:, 1 : 1 + self.n_weight_states]
            for number, block in enumerate(factors[:level]):
                block[ids] = view[:, self.state_places(number)]
        return weights, factors

    def unpack(
        self, records: np.ndarray, places: np.ndarray | None = None, last: bool = False
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the weights of all features and, per block, the vectors of the features that have it.

        places[i] is the number under which feature i is stored (default: i). `last` says that the records are no
        longer needed: their pages are released as they are copied, so that parameters are not in memory twice.
        """
        plan = self.plan
        places = np.arange(plan.n_features) if places is None else places
        weights = np.empty(plan.n_features, records.dtype)
        sizes = zip(plan.sizes[1:], plan.block_ranks)
        factors = [np.empty((size, rank), records.dtype) for size, rank in sizes]
        for level, ids, view in self.views(records):
            start = self.place_levels(self.members)[0][level]
            for first in range(ids.start, ids.stop, CHUNK):
                some = slice(first, min(first + CHUNK, ids.stop))
                own = view[places[some] - ids.start]
                weights[some] = own[:, 0]
                for offset, block in zip(self.offsets, factors[:level]):
                    block[some] = own[:, offset : offset + block.shape[1]]
                for run in contiguous_ranges(places[some]) if last else ():
                    release_pages(
                        records, start + run.start * self.strides[level], start + run.stop * self.strides[level]
                    )
        return weights, factors


def contiguous_ranges(numbers: np.ndarray) -> list[slice]:
    """Return the ranges of consecutive integers among distinct numbers.

    >>> contiguous_ranges(np.array([7, 2, 3, 8]))
    [slice(2, 4, None), slice(7, 9, None)]
    """
    numbers = np.sort(numbers)
    parts = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1) if numbers.size else []
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts]
