"""Groups hold about as many occurrences each, and rows split by them lose nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import PRECISION, pack_rows, random_rows, seeds, split_levels, worlds

from rafm.kernels.tables import GROUPS
from rafm.plan.grouping import Grouping, deal
from rafm.plan.ranks import RankPlan


@given(worlds(), seeds(), st.booleans())
def test_rows_are_split_by_group_and_rise_in_each(world, seed, with_heads):
    heads = [members // 2 if with_heads else 0 for members in world.layout().members]
    bounds, n_features = split_levels(world.plan, heads), world.plan.n_features
    given_rows = random_rows(np.random.default_rng(seed), n_features, 6, n_features)
    rows = Grouping(np.arange(n_features), bounds).split(pack_rows(given_rows))
    second = {i for level in bounds for part in level for i in range(part[1], part[2])}
    for r, (ids, values) in enumerate(given_rows):
        a, middle, b = rows.indptr[r], rows.middles[r], rows.indptr[r + 1]
        expected = [[i for i in ids if (i in second) == is_second] for is_second in (False, True)]
        assert [rows.indices[a:middle].tolist(), rows.indices[middle:b].tolist()] == expected
        assert dict(zip(rows.indices[a:b], rows.values[a:b])) == dict(zip(ids, values.astype(PRECISION)))


@pytest.mark.parametrize("threshold", [np.inf, 20.0])
def test_groups_have_about_as_many_occurrences_each(threshold):
    counts = np.sort(np.random.default_rng(0).zipf(1.5, 4000).clip(max=500))[::-1]
    plan = RankPlan("fm", (8,), (4000, 4000, 0))
    grouping = deal(plan, counts, threshold)
    shares = np.bincount(grouping.group_of(), weights=counts[grouping.order], minlength=GROUPS) / counts.sum()
    np.testing.assert_allclose(shares, 1 / GROUPS, atol=0.01)
    assert sorted(grouping.order) == list(range(4000))
    heads = grouping.bounds[1, 0, -1]
    assert heads == (counts > threshold).sum()
    assert set(grouping.order[:heads]) == set(range(heads))
