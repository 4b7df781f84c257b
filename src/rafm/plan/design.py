"""Arrange training rows for Gibbs sampling: blocks of features that never share a row, and parts of rows for threads.

A field with at most one feature per row is one block. Other fields are divided greedily: a feature goes to the first
block that has none of the features it shares a row with.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ..jit.compile import kernel
from ..kernels.gibbs_tables import Design
from ..kernels.tables import Rows
from .ranks import RankPlan

MAX_PARTS, PART_ROWS = 8, 1 << 14  # parts of rows: most, and fewest rows of one
PART_SHARE = 4  # rows of a part per feature whose moments are joined
DRAW_WORK = 8  # of a feature, relative to that of a nonzero
SMALL_BLOCK = 512  # features of a block whose sums are kept in several copies
COPIES = 4  # consecutive rows often have the same feature, and would wait for each other's sum
WORD_BITS = 64


@dataclass(frozen=True)
class Arrangement:
    """Rows for the sampler, order[i]: the number in the plan of its feature i. row_order[r]: its row r as given."""

    design: Design
    order: np.ndarray
    row_order: np.ndarray
    n_fields: int

    def is_certain(self) -> np.ndarray:
        """Return per factor and field whether every row has one feature of the field, of value 1, with the factor."""
        design, n_rows = self.design, self.design.labels.size
        found = np.zeros((design.active.shape[1], self.n_fields), bool)
        for block in np.flatnonzero((design.places < 0) & (np.diff(design.starts) == n_rows)):
            values = design.values[design.starts[block] : design.starts[block + 1]]
            whole = design.active[block] == design.bounds[block + 1] - design.bounds[block]
            is_alone = np.count_nonzero(design.fields == design.fields[block]) == 1
            found[:, design.fields[block]] = whole & is_alone & bool((values == 1).all())
        return found

    @property
    def places(self) -> np.ndarray:
        """Position in the sampler's order of each feature of the plan."""
        found = np.empty_like(self.order)
        found[self.order] = np.arange(self.order.size)
        return found


@kernel()
def _survey_fields(rows, fields, latest, entries, owners, squares):  # type: ignore[no-untyped-def]
    """Count the nonzeros of each field and the rows that have some, and sum the squares of its values."""
    indptr, indices, values = rows.indptr, rows.indices, rows.values
    for r in range(indptr.size - 1):
        for e in range(indptr[r], indptr[r + 1]):
            k, x = fields[indices[e]], np.float64(values[e])
            owners[k] += latest[k] != r
            latest[k] = r
            entries[k] += 1
            squares[k] += x * x


@kernel()
def _sort_columns(indptr, indices, ends, rows):  # type: ignore[no-untyped-def]
    """List the rows of each feature; ends[i] must be the start of its list, and becomes its end."""
    for r in range(indptr.size - 1):
        for e in range(indptr[r], indptr[r + 1]):
            rows[ends[indices[e]]] = r
            ends[indices[e]] += 1


@kernel()
def _colour(features, starts, rows, used, colours):  # type: ignore[no-untyped-def]
    """Give each feature the first colour that no row of it has used; return whether the colours sufficed."""
    for i in features:
        word, taken = 0, np.uint64(0)
        for word in range(used.shape[1]):
            taken = np.uint64(0)
            for e in range(starts[i], starts[i + 1]):
                taken |= used[rows[e], word]
            if ~taken:
                break
        if not ~taken:
            return False
        bit = np.uint64(0)
        while (taken >> bit) & np.uint64(1):
            bit += np.uint64(1)
        for e in range(starts[i], starts[i + 1]):
            used[rows[e], word] |= np.uint64(1) << bit
        colours[i] = word * WORD_BITS + np.int64(bit)
    return True


@kernel()
def _count_slots(rows, row_order, cuts, homes, counts):  # type: ignore[no-untyped-def]
    """Count the nonzeros of each slot; see `_place_entries`."""
    for s in range(cuts.size - 1):
        for place in range(cuts[s], cuts[s + 1]):
            r = row_order[place]
            for e in range(rows.indptr[r], rows.indptr[r + 1]):
                slot, stride, _ = homes[rows.indices[e]]
                counts[slot + s * stride] += 1


@kernel()
def _place_entries(rows, row_order, cuts, homes, ends, ids, values):  # type: ignore[no-untyped-def]
    """Write the nonzeros slot by slot, in the order of rows; ends[slot] must be the start of a slot.

    homes: per feature, its slot in the first part, how many further on it is in the next part, and its place in its
    block. All features of a leading block share one slot.
    """
    for s in range(cuts.size - 1):
        for place in range(cuts[s], cuts[s + 1]):
            r = row_order[place]
            for e in range(rows.indptr[r], rows.indptr[r + 1]):
                slot, stride, own = homes[rows.indices[e]]
                at = ends[slot + s * stride]
                ids[at] = place if stride else own
                if values.size:
                    values[at] = rows.values[e]
                ends[slot + s * stride] += 1


def _survey(rows: Rows, fields: np.ndarray, n_fields: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which fields have several features in some row, and the mean square of the part of a row in each field."""
    entries, owners = np.zeros((2, n_fields), np.int64)
    latest, squares = np.full(n_fields, -1, np.int64), np.zeros(n_fields)
    _survey_fields(rows, fields, latest, entries, owners, squares)
    sizes = squares / np.maximum(owners, 1)
    return entries > owners, np.where(sizes > 0, sizes, 1.0)


def _colours(rows: Rows, fields: np.ndarray, multiple: np.ndarray) -> np.ndarray:
    """Return a colour for each feature, such that features of one field and colour never share a row."""
    n = fields.size
    colours = np.zeros(n, np.int64)
    if not multiple.any():
        return colours
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows.indices, minlength=n))])
    columns = np.empty(rows.indices.size, np.int32)
    _sort_columns(rows.indptr, rows.indices, starts[:-1].copy(), columns)
    for field in np.flatnonzero(multiple):
        features, words = np.flatnonzero(fields == field), 1
        while not _colour(features, starts, columns, np.zeros((rows.labels.size, words), np.uint64), colours):
            words *= 2
    return colours


def _main_block(bounds: np.ndarray, entries: np.ndarray, n_rows: int) -> int:
    """Return the block to sort the rows by: the one with most features, of those that half of the rows have."""
    sizes = np.where(2 * entries >= n_rows, np.diff(bounds), 0)
    return int(sizes.argmax()) if sizes.max(initial=0) > 0 else -1


def _cut_rows(runs: np.ndarray, n_rows: int, n_blocks: int, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Return bounds of the parts in rows, and in features of the main block, none of which is in two parts.

    Parts have about the same work: that of their rows, and that of drawing the features of the main block.
    """
    room = int(np.clip(n_rows // max(PART_SHARE * largest, PART_ROWS), 1, MAX_PARTS))
    parts, size = 1 << (room.bit_length() - 1), runs.size - 1  # a power of 2, to be shared equally
    work = n_blocks * runs + DRAW_WORK * np.arange(size + 1)
    wanted = np.arange(parts) * ((n_blocks * n_rows + DRAW_WORK * size) / parts)
    features = np.minimum(np.searchsorted(work, wanted), size)
    beyond = ((wanted - DRAW_WORK * size) / n_blocks).astype(np.int64)  # rows without a feature of the main block
    starts = np.where(wanted <= work[-1], runs[features], beyond)
    return np.array([*starts, n_rows]), np.array([*features, size])


def arrange_rows(rows: Rows, plan: RankPlan, fields: np.ndarray | None) -> Arrangement:
    """Arrange numbered rows; fields has the field of every feature, by default one for all."""
    n, n_rows = plan.n_features, rows.labels.size
    fields = np.zeros(n, np.int64) if fields is None else fields.astype(np.int64)
    n_fields = int(fields.max(initial=-1)) + 1
    multiple, sizes = _survey(rows, fields, n_fields)
    colours = _colours(rows, fields, multiple)
    order = np.lexsort((np.arange(n), colours, fields))
    changes = np.flatnonzero(np.diff(fields[order]) | np.diff(colours[order])) + 1
    bounds = np.concatenate([[0], changes, [n]]) if n else np.zeros(1, np.int64)
    places, block_of = np.empty(n, np.int64), np.empty(n, np.int64)
    places[order], block_of[order] = np.arange(n), np.repeat(np.arange(bounds.size - 1), np.diff(bounds))
    entries = np.bincount(block_of[rows.indices], minlength=bounds.size - 1)
    main = _main_block(bounds, entries, n_rows)
    row_order, runs = _sort_rows(rows, block_of, places - bounds[block_of], bounds, main)
    others = np.delete(np.diff(bounds), main) if main >= 0 else np.diff(bounds)
    cuts, main_cuts = _cut_rows(runs, n_rows, max(bounds.size - 1, 1), int(others.max(initial=0)))
    is_leading = entries == n_rows
    if main >= 0:
        is_leading[main] = True
    strides = np.where(is_leading, 0, np.diff(bounds))
    spans, slots, ids, values = _entries(rows, row_order, cuts, strides, block_of, places - bounds[block_of])
    design = Design(
        labels=rows.labels[row_order],
        weights=np.zeros(0, np.float32) if (rows.weights == 1).all() else rows.weights[row_order],
        cuts=cuts,
        bounds=bounds,
        fields=fields[order[bounds[:-1]]],
        field_bounds=np.searchsorted(fields[order], np.arange(n_fields + 1)),
        sizes=sizes,
        active=_active(plan, order, bounds),
        starts=np.concatenate([[0], np.cumsum(entries)]),
        ids=ids,
        values=values,
        places=np.where(is_leading, -1, slots),
        spans=spans,
        lanes=np.where(is_leading & (np.diff(bounds) <= SMALL_BLOCK), COPIES - 1, 0),
        main=main,
        runs=runs,
        main_cuts=main_cuts,
    )
    return Arrangement(design, order, row_order, n_fields)


def _sort_rows(
    rows: Rows, block_of: np.ndarray, numbers: np.ndarray, bounds: np.ndarray, main: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows in the order of their feature of the main block, and where the rows of each such feature begin."""
    if main < 0:
        return np.arange(rows.labels.size), np.zeros(1, np.int64)
    size = int(bounds[main + 1] - bounds[main])
    of_row = np.full(rows.labels.size, size, np.int64)  # rows without one come last
    own = block_of[rows.indices] == main
    of_row[np.repeat(np.arange(of_row.size), np.diff(rows.indptr))[own]] = numbers[rows.indices[own]]
    order = np.argsort(of_row, kind="stable")
    return order, np.searchsorted(of_row[order], np.arange(size + 1))


def _entries(
    rows: Rows, row_order: np.ndarray, cuts: np.ndarray, strides: np.ndarray, block_of: np.ndarray, place_of: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return where each slot begins, the first slot of each block, and id and value of all nonzeros, slot by slot."""
    n_slots, size = np.maximum(strides * (cuts.size - 1), 1), rows.indices.size
    slots, counts = np.cumsum(n_slots) - n_slots, np.zeros(int(n_slots.sum()), np.int64)
    stride = strides[block_of]
    homes = np.stack([slots[block_of] + np.where(stride > 0, place_of, 0), stride, place_of], axis=1)
    _count_slots(rows, row_order, cuts, homes, counts)
    spans = np.concatenate([[0], np.cumsum(counts)])
    ids, values = np.empty(size, np.uint32), np.empty(0 if (rows.values == 1).all() else size, np.float32)
    _place_entries(rows, row_order, cuts, homes, spans[:-1].copy(), ids, values)
    return spans, slots, ids, values


def _active(plan: RankPlan, order: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return per block how many of its features have factor f; 0 stands for the weights, which all have."""
    lengths = np.concatenate([[0], np.cumsum(plan.block_ranks)]).astype(np.int64)[plan.levels()][order]
    factors = range(int(sum(plan.block_ranks)) + 1)
    counted = [[int((lengths[a:b] >= f).sum()) for f in factors] for a, b in pairwise(bounds)]
    return np.array(counted, np.int64).reshape(bounds.size - 1, len(factors))
