"""Which rows are held out: equal rows together, a share of each class, whatever the order, batches and memory."""

import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st

from rafm.rows.blocks import join_rows, pick_rows, take_rows
from rafm.rows.checked import Batch, check_batch
from rafm.rows.hashes import row_hashes
from rafm.rows.holdout import RowCounts, Side
from rafm.rows.source import InMemory
from rafm.rows.spill import SpilledRows, SpillOptions


def rows_of(rows, labels=None, weights=None, n_features=2000):
    """Return rows from lists of (id, value)."""
    entries = [entry for row in rows for entry in row]
    indptr = np.cumsum([0, *map(len, rows)])
    ids, values = np.array(entries, float).reshape(-1, 2).T
    labels = np.zeros(len(rows)) if labels is None else np.asarray(labels, float)
    return check_batch(Batch(indptr, ids.astype(int), values, n_features, labels, weights))


def table(n_rows, n_values=50, width=3, seed=0, positive=0.5):
    """Return rows of one value per column, and labels."""
    draw = np.random.default_rng(seed)
    codes = draw.integers(0, n_values, (n_rows, width)) + n_values * np.arange(width)
    return rows_of([[(code, 1.0) for code in row] for row in codes], draw.random(n_rows) < positive)


def counted(source, seed=0):
    counts = RowCounts(seed)
    for number in range(source.n_blocks):
        counts.add(source.block(number))
    return counts


def folds(data, split):
    return split.folds_of(data, 0)


entry = st.tuples(st.integers(0, 30), st.sampled_from([0.0, -0.0, 1.0, 2.5, -1.0]))
any_rows = st.lists(st.lists(entry, max_size=5, unique_by=lambda pair: pair[0]), min_size=1, max_size=60)


@examples(0.6)
@given(any_rows, st.integers(0, 2**40), st.randoms(use_true_random=False))
def test_a_hash_depends_on_the_features_of_its_row_and_the_seed_alone(rows, seed, random):
    """Compared with the row as a set of nonzero entries, in any order, among other rows."""
    found = row_hashes(rows_of(rows), seed)
    shuffled = [random.sample(row, len(row)) for row in rows]
    np.testing.assert_array_equal(row_hashes(rows_of(shuffled), seed), found)
    np.testing.assert_array_equal(row_hashes(rows_of([*shuffled[::-1], [(7, 1.0)]]), seed)[:-1], found[::-1])
    meanings = [frozenset((i, x) for i, x in row if x) for row in rows]
    for a, one in zip(meanings, found):
        for b, other in zip(meanings, found):
            assert (a == b) == (one == other)


@examples(0.6)
@given(any_rows, st.floats(0.01, 0.9), st.integers(0, 100), st.data())
def test_equal_rows_are_on_the_same_side_and_neither_side_is_empty(rows, share, seed, data):
    labels = data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows)))
    batch = rows_of(rows, labels)
    counts = counted(InMemory(batch), seed)
    sides = folds(batch, counts.hold_out(share, True))
    meanings = [frozenset((i, x) for i, x in row if x) for row in rows]
    for meaning in set(meanings):
        own = [side for one, side in zip(meanings, sides) if one == meaning]
        assert len(set(own)) == 1 or len(own) > 10
    if len(set(meanings)) >= 4 and len(rows) <= 10:  # no row is frequent; two of either kind at least, or one kind
        assert {*sides.tolist()} == {0, 1}


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5])
@pytest.mark.parametrize("positive", [0.5, 0.02, 0.98])
def test_the_share_is_exact_in_each_class_of_different_rows(share, positive):
    data = table(4000, n_values=500, positive=positive)
    held_out = folds(data, counted(InMemory(data)).hold_out(share, True)) == 0
    for label in (0, 1):
        own = data.labels == label
        assert held_out[own].sum() == pytest.approx(share * own.sum(), abs=3)  # bins may hold two rows


def test_two_rows_of_the_rarer_class_go_to_both_sides():
    data = rows_of([[(i, 1.0)] for i in range(200)], [1.0, 1.0, *[0.0] * 198])
    for seed in range(20):
        held_out = folds(data, counted(InMemory(data), seed).hold_out(0.1, True)) == 0
        assert held_out[:2].sum() == 1
        assert held_out.sum() == pytest.approx(20, abs=1)


def test_another_seed_holds_out_other_rows():
    data = table(2000, n_values=500)
    one, other = (folds(data, counted(InMemory(data), seed).hold_out(0.1, True)) == 0 for seed in (0, 1))
    assert 5 < (one & other).sum() < 50  # a tenth of a tenth


def test_weights_count_instead_of_rows():
    """A row of weight 3 is as good as three rows, and one of weight 0 as none."""
    draw = np.random.default_rng(0)
    weights = draw.integers(0, 4, 600)
    data = table(600, n_values=500)
    weighted = check_batch(Batch(data.indptr, data.indices, data.values, 1500, data.labels, weights.astype(float)))
    repeated = pick_rows(data, np.repeat(np.arange(600), weights))
    split, expected = (counted(InMemory(one)).hold_out(0.2, True) for one in (weighted, repeated))
    used = weights > 0
    np.testing.assert_array_equal(folds(data, split)[used], folds(data, expected)[used])


def test_rows_that_are_repeated_very_often_are_on_both_sides():
    """Four kinds of rows, 250 times each: a kind that is held out would never be learnt."""
    data = rows_of([[(i % 2, 1.0), (2 + i // 2 % 2, 1.0)] for i in range(1000)], np.arange(1000) % 2)
    sides = folds(data, counted(InMemory(data)).hold_out(0.1, True))
    kinds = np.arange(1000) % 4
    for kind in range(4):
        assert 10 < (sides[kinds == kind] == 0).sum() < 45


@pytest.mark.parametrize("n_folds", [2, 5, 10])
def test_folds_are_of_equal_size_and_mixture(n_folds):
    data = table(1000, n_values=500, positive=0.1)
    found = folds(data, counted(InMemory(data)).deal(n_folds, True))
    for chosen in (data.labels == 1, data.labels == 0):
        sizes = np.bincount(found[chosen], minlength=n_folds)
        assert sizes.size == n_folds
        assert sizes.max() - sizes.min() <= 3


def test_batches_memory_and_disk_make_no_difference(monkeypatch):
    monkeypatch.setattr("rafm.rows.blocks.BLOCK_ROWS", 300)
    data = table(2000, n_values=20, width=2, positive=0.3)  # many equal rows
    expected = folds(data, counted(InMemory(data)).hold_out(0.1, True)) == 0
    for megabytes in (0, 1000):
        parts = [take_rows(data, first, min(first + 170, 2000)) for first in range(0, 2000, 170)]
        source = SpilledRows(iter(parts), SpillOptions(megabytes), 40)
        counts = counted(source)
        for inside in (True, False):
            side = Side(source, counts.hold_out(0.1, True), counts.first_rows, 0, inside)
            for _ in range(2):  # again, from the kept bits
                found = join_rows([side.block(number) for number in range(side.n_blocks)])
                chosen = pick_rows(data, np.flatnonzero(expected == inside))
                np.testing.assert_array_equal(found.indices, chosen.indices)
                np.testing.assert_array_equal(found.labels, chosen.labels)
