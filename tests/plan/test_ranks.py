"""Which rank every feature gets, how features are numbered, and what a plan costs."""

from fractions import Fraction
from itertools import pairwise

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import make_world

from rafm.errors import ConfigError
from rafm.families import FAMILIES
from rafm.options import resolve
from rafm.plan.ranks import (
    NearestRank,
    RankPlan,
    Thresholds,
    assign_levels,
    check_ranks,
    describe_plan,
    plan_ranks,
)
from rafm.rows.checked import Batch, check_batch
from rafm.train.dispatch import train_model

rank_sets = st.sets(st.integers(1, 600), min_size=1, max_size=5).map(sorted)
counts_of_features = st.lists(st.integers(1, 10_000), min_size=1, max_size=20).map(np.array)


# ---- Levels


@given(counts=counts_of_features, ranks=rank_sets, scale=st.sampled_from([0.1, 0.5, 1.0, 2.0, 3.7, 16.0]))
def test_the_nearest_rank_is_the_argmin_of_the_paper(counts, ranks, scale):
    """Within 1e-12, for logarithms are rounded; exact ties have their own test."""
    levels = NearestRank(scale)(counts, ranks)
    for count, level in zip(counts, levels):
        distances = naive.nearest_levels(count, ranks, scale)
        assert distances[level - 1] <= min(distances) + 1e-12


@given(low=st.integers(1, 40), high=st.integers(1, 40), scale=st.sampled_from([0.25, 1.0, 2.0]))
def test_a_tie_goes_to_the_lower_level_as_the_first_minimum_does(low, high, scale):
    """c n is nearer to the lower rank, or as near, if (c n)^2 <= D_1 D_2: no logarithm, no rounding."""
    ranks = (low**2, low**2 + high) if high % 2 else (low**2, (low + high) ** 2)
    product = Fraction(ranks[0] * ranks[1]) / Fraction(scale) ** 2
    counts = np.arange(1, 2 * int(product**0.5) + 2)
    expected = [1 if count * count <= product else 2 for count in counts.tolist()]
    assert NearestRank(scale)(counts, ranks).tolist() == expected


def test_one_rank_leaves_no_choice():
    assert NearestRank()(np.array([1, 1000]), (8,)).tolist() == [1, 1]


def test_a_larger_scale_never_lowers_a_level():
    counts, ranks = np.arange(1, 2000), (8, 32, 128)
    levels = [NearestRank(scale)(counts, ranks) for scale in (0.5, 1, 2, 16)]
    for lower, upper in pairwise(levels):
        assert (lower <= upper).all()
        assert (lower < upper).any()


@pytest.mark.parametrize("scale", [0, -1, np.nan, np.inf])
def test_a_scale_that_is_not_positive_is_refused(scale):
    with pytest.raises(ConfigError) as caught:
        NearestRank(scale)
    assert caught.value.key == "rank_scale"


@given(counts=counts_of_features, minimum=st.lists(st.integers(1, 10_000), min_size=0, max_size=3).map(sorted))
def test_thresholds_count_how_many_of_them_are_reached(counts, minimum):
    ranks = [2**k for k in range(len(minimum) + 1)]
    levels = Thresholds(tuple(minimum))(counts, ranks)
    assert levels.tolist() == [1 + sum(count >= least for least in minimum) for count in counts]


@pytest.mark.parametrize("minimum", [(), (5, 10), (10, 5, 7)], ids=str)
def test_thresholds_must_rise_and_fit_the_ranks(minimum):
    with pytest.raises(ConfigError, match="ascending thresholds") as caught:
        Thresholds(minimum)(np.array([1]), (4, 8) if minimum != (10, 5, 7) else (4, 8, 16, 32))
    assert caught.value.key == "levels"


def test_levels_may_be_given_one_by_one():
    levels = np.array([2, 0, 1])
    assert assign_levels(np.array([1, 1, 1]), (4, 8), levels).tolist() == [2, 0, 1]


IMPOSSIBLE = {
    "too few": [1, 2],
    "negative": [1, -1, 2],
    "above the number of ranks": [1, 3, 2],
    "not whole": [1.0, 2.0, 2.0],
}


@pytest.mark.parametrize("as_rule", [False, True], ids=["given", "by a rule"])
@pytest.mark.parametrize("levels", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_levels_are_refused(levels, as_rule):
    """Kernels trust levels, so those of a rule are checked like those given one by one."""
    rule = (lambda counts, ranks: levels) if as_rule else np.array(levels)
    with pytest.raises(ConfigError, match="levels must") as caught:
        assign_levels(np.array([5, 5, 5]), (4, 8), rule)
    assert caught.value.key == "levels"


# ---- Ranks

BAD_RANKS = {
    "zero": ("rafm", (0, 8)),
    "negative": ("rafm", (-8, 8)),
    "falling": ("rafm", (8, 4)),
    "twice the same": ("rafm", (4, 8, 8)),
    "not whole": ("rafm", (4.0, 8.5)),
    "whole numbers as floats": ("rafm", 8.0),
    "text": ("rafm", "8,32"),
    "truth values": ("rafm", (True, False)),
    "a table": ("rafm", ((4, 8), (16, 32))),
    "absurd": ("rafm", (8, 1 << 20)),
    "none for rafm": ("rafm", ()),
    "none for fm": ("fm", ()),
    "none for mrma": ("mrma", ()),
    "two for fm": ("fm", (8, 32)),
}


@pytest.mark.parametrize(("family", "ranks"), BAD_RANKS.values(), ids=BAD_RANKS)
def test_bad_ranks_are_refused(family, ranks):
    with pytest.raises(ConfigError) as caught:
        check_ranks(family, ranks)
    assert caught.value.key == "ranks"


def test_ranks_that_do_not_rise_come_with_the_way_out():
    with pytest.raises(ConfigError, match=r"Write them as \(4, 8\)"):
        check_ranks("difacto", (8, 4, 4))


@pytest.mark.parametrize(
    ("family", "given", "expected"),
    [("rafm", 8, (8,)), ("fm", [8], (8,)), ("difacto", np.array([1, 3]), (1, 3)), ("lr", (8, 4), ()), ("lr", None, ())],
)
def test_good_ranks_become_a_tuple_of_whole_numbers(family, given, expected):
    assert check_ranks(family, given) == expected
    assert all(type(rank) is int for rank in check_ranks(family, given))


def test_an_unknown_family_is_refused():
    with pytest.raises(ConfigError, match="rafm, fm, lr, difacto, mrma") as caught:
        check_ranks("deepfm", (8,))
    assert caught.value.key == "model"


def test_a_rank_above_the_number_of_features_works():
    model = tiny_model(ranks=(4, 64), levels=np.array([2, 1]))
    assert model.parameters.factors[1].shape == (1, 64)


def test_an_empty_frequency_bin_works():
    """No feature is seen often enough for the middle rank, nor for the top one."""
    model = tiny_model(ranks=(4, 500, 1000))
    assert model.plan.sizes == (2, 2, 0, 0, 0)
    assert [block.shape for block in model.parameters.factors] == [(2, 4), (0, 500), (0, 1000)]


def tiny_model(**options):
    rows = Batch(np.array([0, 2, 3]), np.array([0, 1, 1]), np.ones(3), 2, np.array([0, 1]))
    return train_model(check_batch(rows), resolve(task="binary", n_epochs=2, **options))


# ---- Plans


@given(
    counts=st.lists(st.integers(0, 50), min_size=1, max_size=25).map(np.array),
    family=st.sampled_from([*FAMILIES]),
    ranks=st.sampled_from([(8,), (2, 8), (1, 4, 20)]),
)
def test_features_are_numbered_by_falling_level_then_falling_count(counts, family, ranks):
    ranks = {"lr": (), "fm": ranks[:1]}.get(family, ranks)
    plan, order = plan_ranks(family, ranks, counts, NearestRank())
    assert sorted(order) == np.flatnonzero(counts).tolist()
    numbered = [(-level, -count, place) for level, count, place in zip(plan.levels(), counts[order], order)]
    assert numbered == sorted(numbered)
    if family in ("rafm", "difacto"):
        np.testing.assert_array_equal(plan.levels(), NearestRank()(counts[order], ranks))
    else:
        assert (plan.levels() == len(ranks)).all()


def test_a_level_goes_before_a_count():
    """Features seen 9, 1, 5, 5 and 0 times, the rare one on top: levels given one by one need not follow counts."""
    plan, order = plan_ranks("rafm", (2, 8), np.array([9, 1, 5, 5, 0]), np.array([1, 2, 0, 1, 2]))
    assert order.tolist() == [1, 0, 3, 2]
    assert plan.sizes == (4, 3, 1, 0)


@given(levels=st.lists(st.integers(0, 3), max_size=12))
def test_sizes_count_the_features_that_reach_each_level(levels):
    plan, _ = plan_ranks("rafm", (1, 2, 3), np.ones(len(levels), int), np.array(levels, int))
    assert plan.sizes == (*(sum(level >= k for level in levels) for k in range(4)), 0)
    assert [plan.members(k) for k in range(4)] == [levels.count(k) for k in range(4)]
    assert plan.levels().tolist() == sorted(levels, reverse=True)


PARAMETERS = {
    "lr": (RankPlan("lr", (), (10, 0)), 1 + 10),
    "fm": (RankPlan("fm", (8,), (10, 10, 0)), 1 + 10 + 80),
    "rafm": (RankPlan("rafm", (4, 16), (10, 9, 2, 0)), 1 + 10 + 9 * 4 + 2 * 16),
    "difacto": (RankPlan("difacto", (4, 16), (10, 9, 2, 0)), 1 + 10 + 9 * 4 + 2 * 12),
    "mrma": (RankPlan("mrma", (4, 16), (10, 10, 10, 0)), 1 + 10 + 10 * 20 + 10 * 2),
}


@pytest.mark.parametrize(("plan", "expected"), PARAMETERS.values(), ids=PARAMETERS)
def test_parameters_are_counted_as_in_the_paper(plan, expected):
    assert plan.n_parameters == expected


def test_a_difacto_vector_grows_by_the_difference_of_ranks():
    world = make_world("difacto", (3, 8, 20), [3, 2, 1])
    assert world.plan.block_ranks == (3, 5, 12)


def test_a_plan_is_described_by_hand_counted_figures():
    """Five features seen 10, 6, 4, 2 and 2 times in 8 rows; two have both ranks, one has no vector."""
    plan = RankPlan("rafm", (4, 16), (5, 4, 2, 0))
    low, high, fm = describe_plan(plan, np.array([10, 6, 4, 2, 2]), n_rows=8)
    assert low == {
        "rank": 4,
        "features": 4,
        "share_of_nonzeros": 22 / 24,
        "parameters": 16,
        "bytes": 64,
        "factors_per_row": 4 * 22 / 8,
    }
    assert high == {
        "rank": 16,
        "features": 2,
        "share_of_nonzeros": 16 / 24,
        "parameters": 32,
        "bytes": 128,
        "factors_per_row": 16 * 16 / 8,
    }
    assert fm == {
        "rank": 16,
        "features": 5,
        "share_of_nonzeros": 1.0,
        "parameters": 80,
        "bytes": 320,
        "factors_per_row": 16 * 24 / 8,
    }


def test_a_plan_without_ranks_has_no_lines():
    assert describe_plan(RankPlan("lr", (), (3, 0)), np.array([1, 1, 1]), n_rows=2) == []
