"""Rows with other items: against rows put together entry by entry."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rafm.kernels.tables import Rows
from rafm.plan.grouping import deal
from rafm.plan.ranks import RankPlan
from rafm.rows.pairs import DrawnRows, join_items, pick_items, side_keys

N_FEATURES = 12
IS_ITEM = np.arange(N_FEATURES) % 3 == 0  # items may have several features, between those of contexts


def packed(rows):
    """Return dicts of feature and value as numbered rows in one group."""
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([i for row in rows for i in sorted(row)], np.int32)
    values = np.array([row[i] for row in rows for i in sorted(row)], np.float32)
    ones = np.ones(len(rows), np.float32)
    return Rows(indptr, indptr[1:], indices, values, ones, np.arange(1, len(rows) + 1, dtype=np.float32))


def unpacked(rows, group_of=None):
    """Return rows as dicts; check that the numbers of each group ascend, and that the second follows the first."""
    found = []
    for r in range(rows.labels.size):
        a, middle, b = rows.indptr[r], rows.middles[r], rows.indptr[r + 1]
        for first, stop, group in ((a, middle, 0), (middle, b, 1)):
            assert (np.diff(rows.indices[first:stop]) > 0).all()
            assert group_of is None or (group_of[rows.indices[first:stop]] == group).all()
        found.append(dict(zip(rows.indices[a:b].tolist(), rows.values[a:b].tolist())))
    return found


def part(row, inside):
    return {i: x for i, x in row.items() if IS_ITEM[i] == inside}


some_rows = st.lists(
    st.dictionaries(st.integers(0, N_FEATURES - 1), st.sampled_from([1.0, -2.0, 0.5]), max_size=8), min_size=1
)


@given(rows=some_rows, in_groups=st.booleans(), seed=st.integers(0, 99))
def test_each_row_is_followed_by_its_context_with_the_other_item(rows, in_groups, seed):
    rng, group_of, numbered = np.random.default_rng(seed), None, packed(rows)
    if in_groups:
        grouping = deal(RankPlan("fm", (4,), (N_FEATURES, N_FEATURES, 0)), np.arange(N_FEATURES, 0, -1))
        group_of, numbered = grouping.group_of(), grouping.split(numbered)
    chosen = rng.permutation(len(rows))[: rng.integers(1, len(rows) + 1)]
    items, drawn = pick_items(numbered, chosen, IS_ITEM), rng.integers(-1, chosen.size, len(rows)).astype(np.int32)
    order = rng.permutation(len(rows))
    pairs = DrawnRows(numbered, drawn, items, IS_ITEM).pairs(order)
    found = unpacked(pairs, group_of)
    assert found[::2] == [rows[r] for r in order]
    known = [r for r in range(order.size) if drawn[order[r]] >= 0]
    for r in known:
        row, other = rows[order[r]], rows[chosen[drawn[order[r]]]]
        assert found[2 * r + 1] == {**part(row, False), **part(other, True)}
    weights = np.where(drawn[order] < 0, 0, 1 + order)
    assert pairs.weights.tolist() == np.repeat(weights, 2).tolist()
    assert pairs.labels.tolist() == [1.0, 0.0] * order.size


@given(rows=some_rows)
def test_keys_tell_sides_apart_and_nothing_else(rows):
    for inside, keys in zip((False, True), side_keys(packed(rows), IS_ITEM)):
        parts = [tuple(sorted(part(row, inside).items())) for row in rows]
        assert [[a == b for b in keys] for a in keys] == [[a == b for b in parts] for a in parts]


@given(rows=some_rows, others=some_rows)
def test_joined_items_are_those_of_the_parts(rows, others):
    parts = [pick_items(packed(own), np.arange(len(own)), IS_ITEM) for own in (rows, others)]
    joined = join_items(parts).in_one_group()
    found = [joined.indices[a:b].tolist() for a, b in zip(joined.indptr, joined.indptr[1:])]
    assert found == [sorted(part(row, True)) for row in [*rows, *others]]
