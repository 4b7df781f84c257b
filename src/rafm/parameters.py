"""Where the numbers of a model lie: one record per feature in one flat array.

A training record is [weight, its state, one state per block, vectors]; a scoring record is [weight, vectors]. Vectors
are padded to multiples of 4 elements and lie on whole cache lines where they fill them; a record touches no line that
it could avoid.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .groups import Grouping, one_group
from .kernels import GROUPS, Scratch, Tables, Work
from .ranks import RankPlan

LINE = 16  # float32 numbers in a cache line
OWN = ("lists", "values", "ends")  # the scratch that threads do not share
INITIAL_SPREAD = 0.01  # standard deviation of fresh vectors
INITIAL_STATE = 1.0  # AdaGrad accumulators


def _round_up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _alignment(size: int) -> int:
    """Return the largest power of two up to a cache line that divides a padded size.

    >>> [_alignment(size) for size in (4, 8, 12, 32, 40)]
    [4, 8, 4, 16, 8]
    """
    return min(size & -size, LINE)


def _record_size(size: int) -> int:
    """Round a record up to whole cache lines, or to a power of two within one.

    >>> [_record_size(size) for size in (1, 3, 5, 12, 17, 36)]
    [1, 4, 8, 16, 32, 48]
    """
    return 1 << (size - 1).bit_length() if size <= LINE else _round_up(size, LINE)


def aligned_zeros(size: int, dtype: Any) -> np.ndarray:
    """Return zeros that start on a cache line.

    >>> aligned_zeros(5, np.float32).ctypes.data % 64
    0
    """
    item = np.dtype(dtype).itemsize
    raw = np.zeros(size + 64 // item, dtype)
    skip = -(raw.ctypes.data // item) % (64 // item)
    return raw[skip : skip + size]


@dataclass(frozen=True)
class RecordLayout:
    """Places of weights, states and vectors within records, and of records within the array."""

    plan: RankPlan
    with_states: bool

    @cached_property
    def widths(self) -> list[int]:
        """Padded length of each block's vectors."""
        return [_round_up(rank, 4) for rank in self.plan.block_ranks]

    @cached_property
    def offsets(self) -> list[int]:
        """Where each block's vector starts within a record."""
        end = 2 + len(self.widths) if self.with_states else 1
        places = []
        for width in self.widths:
            places.append(_round_up(end, _alignment(width)))
            end = places[-1] + width
        return places

    @cached_property
    def strides(self) -> list[int]:
        """Size of the record of a feature of level k = 0 .. m."""
        ends = [2 if self.with_states else 1, *(o + w for o, w in zip(self.offsets, self.widths))]
        return [_record_size(end) for end in ends]

    def place(self, counts: Sequence[int]) -> tuple[np.ndarray, int]:
        """Return per level its origin when counts[k] records of level k are packed, top level first; and their size.

        Feature i of level k lies at origin[k] + i * strides[k]. Each level starts on a new cache line.
        """
        origins, end = np.zeros(len(counts), np.int64), 0
        for level in range(len(counts) - 1, -1, -1):
            origins[level] = end - self.plan.sizes[level + 1] * self.strides[level]
            end = _round_up(end + int(counts[level]) * self.strides[level], LINE)
        return origins, end

    @cached_property
    def members(self) -> list[int]:
        """Number of features of exactly level k = 0 .. m."""
        return [self.plan.members(level) for level in range(self.plan.n_levels + 1)]

    def tables(self, bounds: np.ndarray | None = None, dtype: Any = np.float32) -> Tables:
        """Return the arrays that kernels navigate by; bounds are those of a Grouping."""
        bounds = one_group(self.plan.sizes) if bounds is None else bounds
        skip = _round_up(1 + 2 * self.plan.n_levels, 4)
        return Tables(
            sizes=np.array(self.plan.sizes, np.int64),
            origins=self.place(self.members)[0],
            strides=np.array(self.strides, np.int64),
            offsets=np.array(self.offsets, np.int64),
            widths=np.array(self.widths, np.int64),
            part=_round_up(skip + (2 if self.plan.nested else 1) * sum(self.widths), LINE),
            skip=skip,
            starts=np.concatenate([[0], np.cumsum(self.widths)]).astype(np.int64),
            shares=(1 / np.array(self.plan.block_ranks, float)).astype(dtype),
            bounds=np.ascontiguousarray(bounds),
            head_origins=self.place(bounds[:, 0, -1] - bounds[:, 0, 0])[0],
            nested=self.plan.nested,
        )

    def views(self, records: np.ndarray) -> Iterator[tuple[int, slice, np.ndarray]]:
        """Yield for each level its number, its feature numbers, and its records as the rows of a view."""
        origins, _ = self.place(self.members)
        for level, stride in enumerate(self.strides):
            ids = slice(self.plan.sizes[level + 1], self.plan.sizes[level])
            place = slice(origins[level] + ids.start * stride, origins[level] + ids.stop * stride)
            yield level, ids, records[place].reshape(-1, stride)

    def pack(self, weights: np.ndarray, factors: Sequence[np.ndarray]) -> np.ndarray:
        """Return records that hold these weights and, per block, these vectors; states are at their start."""
        records = aligned_zeros(self.place(self.members)[1], weights.dtype)
        for level, ids, view in self.views(records):
            view[:, 0] = weights[ids]
            if self.with_states:
                view[:, 1 : 2 + level] = INITIAL_STATE
            for offset, block in zip(self.offsets, factors[:level]):
                view[:, offset : offset + block.shape[1]] = block[ids]
        return records

    def unpack(self, records: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return the weights of all features and, per block, the vectors of the features that have it."""
        plan = self.plan
        weights = np.empty(plan.n_features, records.dtype)
        sizes = zip(plan.sizes[1:], plan.block_ranks)
        factors = [np.empty((size, rank), records.dtype) for size, rank in sizes]
        for level, ids, view in self.views(records):
            weights[ids] = view[:, 0]
            for offset, block in zip(self.offsets, factors[:level]):
                block[ids] = view[:, offset : offset + block.shape[1]]
        return weights, factors


def initial_factors(plan: RankPlan, seed: int, dtype: Any = np.float32) -> list[np.ndarray]:
    """Draw fresh vectors, block by block, from a normal distribution of spread 0.01."""
    draw = np.random.default_rng(seed)
    blocks = []
    for size, rank in zip(plan.sizes[1:], plan.block_ranks):
        blocks.append(draw.standard_normal((size, rank), dtype=np.float32) * np.float32(INITIAL_SPREAD))
    return [block.astype(dtype, copy=False) for block in blocks]


@dataclass(frozen=True)
class Parameters:
    """The trained numbers of a model: bias, weights, and per block the vectors of the features that have it.

    The bias is an array of one number. MRMA has mixture weights too, one per feature and rank.
    """

    bias: np.ndarray
    weights: np.ndarray
    factors: list[np.ndarray]
    mixture: np.ndarray | None = None

    def rearranged(self, grouping: Grouping) -> Parameters:
        """Return these parameters in the order that the grouping was made from."""
        mixture = None if self.mixture is None else grouping.undo(self.mixture)
        return Parameters(self.bias, grouping.undo(self.weights), [*map(grouping.undo, self.factors)], mixture)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all arrays by name, vectors as factors.1, factors.2, ...; from_arrays takes them back."""
        named = {"bias": self.bias, "weights": self.weights}
        named |= {f"factors.{level}": block for level, block in enumerate(self.factors, start=1)}
        return named if self.mixture is None else named | {"mixture": self.mixture}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Parameters:
        """Return the parameters that these arrays are."""
        n_levels = sum(name.startswith("factors.") for name in arrays)
        factors = [arrays[f"factors.{level}"] for level in range(1, n_levels + 1)]
        return cls(arrays["bias"], arrays["weights"], factors, arrays.get("mixture"))

    def undo_scaling(self, label_scale: float, value_scales: np.ndarray) -> Parameters:
        """Return what these parameters are for labels label_scale times as large, and feature i value_scales[i] times.

        Exact if label_scale is a power of 4 and value_scales are powers of 2.
        """
        grow, root = np.float32(label_scale), np.float32(np.sqrt(label_scale))
        factors = [block * root / value_scales[: len(block), None] for block in self.factors]
        return Parameters(self.bias * grow, self.weights * grow / value_scales, factors, self.mixture)


def make_scratch(tables: Tables, longest: int, dtype: Any = np.float32) -> Scratch:
    """Return scratch for scoring rows, none longer than the longest."""
    widest = int(tables.widths.max(initial=0))
    return Scratch(aligned_zeros(widest, dtype), np.zeros(longest, np.int64), np.zeros(tables.strides.size, np.int64))


def make_work(
    layout: RecordLayout, tables: Tables, longest: int, batch_size: int = 1, dtype: Any = np.float32, threads: int = 1
) -> Work:
    """Return scratch for mini-batches of so many rows, none longer than the longest."""
    levels, kept = tables.strides.size, batch_size if threads > 1 else 1

    def zeros(*shape: int, dtype: Any = dtype) -> np.ndarray:
        return aligned_zeros(math.prod(shape), dtype).reshape(shape)

    return Work(
        sums=zeros(2 * batch_size * int(tables.starts[-1])),
        parts=zeros(kept * GROUPS * tables.part),
        slopes=zeros(batch_size, levels),
        losses=zeros(batch_size, dtype=np.float64),
        heads=zeros(layout.place(tables.bounds[:, 0, -1] - tables.bounds[:, 0, 0])[1]),
        lists=zeros(3, batch_size, longest + 1, dtype=np.int64),
        values=zeros(batch_size, longest + 1),
        ends=zeros(batch_size, levels, dtype=np.int64),
    )


def work_beside(work: Work) -> Work:
    """Return the scratch of a further thread: a row's list is its own, all else is shared."""
    arrays = ((name, getattr(work, name)) for name in OWN)
    own = {name: aligned_zeros(array.size, array.dtype).reshape(array.shape) for name, array in arrays}
    return work._replace(**own)
