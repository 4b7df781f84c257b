"""Records hold what was packed, lie on cache lines, and scale exactly."""

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import FAMILIES, TOLERANCE, make_world, pack_rows, random_rows, split_levels, worlds

from rafm.kernels.tables import LINE_FLOATS
from rafm.model.parameters import Parameters
from rafm.model.scores import score
from rafm.plan.layout import PAGE_FLOATS, RecordLayout
from rafm.plan.ranks import RankPlan
from rafm.plan.scratch import make_scoring_scratch, make_training_scratch
from rafm.rows.memory import CAN_RELEASE

ODD = RankPlan("rafm", (1, 3, 17, 70), (40, 33, 20, 7, 3, 0))


@pytest.mark.parametrize("with_states", [False, True])
@given(world=worlds(families=(*FAMILIES, "mrma")))
def test_what_is_packed_is_unpacked(with_states, world):
    layout = world.layout(with_states)
    weights, factors = world.arrays(np.float32)
    found_weights, found_factors = layout.unpack(layout.pack(weights, factors))
    np.testing.assert_array_equal(found_weights, weights)
    assert len(found_factors) == len(factors)
    for found, expected in zip(found_factors, factors):
        np.testing.assert_array_equal(found, expected)


@given(world=worlds())
def test_records_never_overlap(world):
    """Each feature's record starts where the tables say, and no other record reaches into it."""
    layout = world.layout()
    tables, end = layout.tables(), layout.place_levels(layout.members)[1]
    taken = np.zeros(end, int)
    for number, level in enumerate(world.model["levels"]):
        start = tables.origins[level] + number * tables.strides[level]
        assert 0 <= start <= end - tables.strides[level]
        taken[start : start + tables.strides[level]] += 1
    assert taken.max(initial=0) <= 1


@given(world=worlds())
def test_states_start_at_1(world):
    for level, _, view in world.layout().views(world.layout().pack(*world.arrays())):
        assert (view[:, 1 : 2 + level] == 1).all()


@pytest.mark.parametrize("with_states", [False, True])
@given(world=worlds())
def test_records_touch_no_cache_line_they_could_avoid(with_states, world):
    """Within a line strides are powers of two, beyond it whole lines; vectors of whole lines start on one."""
    layout = world.layout(with_states)
    for stride in layout.strides:
        assert stride % LINE_FLOATS == 0 if stride > LINE_FLOATS else stride & (stride - 1) == 0
    for offset, width, rank in zip(layout.offsets, layout.widths, world.plan.block_ranks):
        assert width % 4 == 0 <= width - rank < 4
        assert offset % 4 == 0
        assert width % LINE_FLOATS or offset % LINE_FLOATS == 0
    origins, _ = layout.place_levels(layout.members)
    for level, stride in enumerate(layout.strides):
        assert (origins[level] + world.plan.sizes[level + 1] * stride) % LINE_FLOATS == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 2])
def test_no_two_threads_write_to_one_page(dtype, threads):
    world = make_world("rafm", (3, 70), [2] * 30)
    layout = world.layout()
    works = make_training_scratch(layout, layout.tables(split_levels(world.plan, [0, 0, 7])), 30, 5, dtype, threads)
    pages = []
    for number, work in enumerate(works):
        for name, array in work._asdict().items():
            assert not array.any()
            assert array.ctypes.data % 64 == 0
            start, stop = array.ctypes.data // 4096, (array.ctypes.data + array.nbytes - 1) // 4096
            owner = "both" if name in ("passed", "heads") else number
            pages += [(page, owner) for page in range(start, stop + 1) if array.size]
    owners = dict(pages)
    assert all(owners[page] == owner for page, owner in pages)
    assert len(set(owners.values())) == threads + 1


def test_a_scoring_record_has_no_states():
    assert RecordLayout(ODD, with_states=False).offsets[0] < RecordLayout(ODD, with_states=True).offsets[0]
    plan = RankPlan("lr", (), (100, 0))
    assert (
        RecordLayout(plan, with_states=False).place_levels([100])[1] == 112
    )  # a weight each, rounded up to whole lines


@pytest.mark.parametrize("ranks", [(16,), (32,), (128, 512)])
def test_scoring_records_of_whole_lines_cost_one_line_more_than_their_factors(ranks):
    sizes = (50, 50, 10, 0)[: len(ranks) + 1]
    layout = RecordLayout(RankPlan("rafm", ranks, (*sizes, 0)), with_states=False)
    factors = sum(rank * size for rank, size in zip(ranks, sizes[1:]))
    assert layout.place_levels(layout.members)[1] == factors + LINE_FLOATS * 50


def test_heads_have_their_own_places_one_per_head_and_each_group_its_own_pages():
    layout = RecordLayout(ODD, with_states=True)
    bounds = split_levels(ODD, [2, 1, 0, 3, 1])
    tables, (_, end) = layout.tables(bounds), layout.place_heads(bounds)
    groups = [
        [
            tables.head_origins[level, group] + i * tables.strides[level]
            for level, (first, stop) in enumerate(zip(bounds[:, 0, group], bounds[:, 0, group + 1]))
            for i in range(first, stop)
        ]
        for group in range(2)
    ]
    places = [*groups[0], *groups[1]]
    assert min(map(len, groups)) > 0
    assert max(groups[0]) // PAGE_FLOATS < min(groups[1]) // PAGE_FLOATS
    assert len(set(places)) == 7
    assert min(places) == 0
    assert max(places) < end


# ---- Fresh numbers


def fresh_numbers(plan, seed):
    layout = RecordLayout(plan, with_states=True)
    return layout.unpack(layout.fresh(seed))


def test_fresh_vectors_have_the_shapes_of_the_plan_and_a_spread_of_a_hundredth():
    plan = RankPlan("difacto", (10, 40), (2000, 2000, 500, 0))
    weights, (low, high) = fresh_numbers(plan, seed=1)
    assert not weights.any()
    assert (low.shape, high.shape) == ((2000, 10), (500, 30))
    assert low.dtype == high.dtype == np.float32
    assert low.std() == pytest.approx(0.01, rel=0.03)
    assert abs(low.mean()) < 4 * 0.01 / np.sqrt(low.size)


def test_the_seed_decides_fresh_vectors():
    plan = RankPlan("fm", (5,), (9, 9, 0))
    first, again, other = (fresh_numbers(plan, seed)[1][0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_vectors_are_drawn_block_after_block_however_many_at_a_time(chunk, monkeypatch):
    monkeypatch.setattr("rafm.plan.layout.CHUNK", chunk)
    plan = RankPlan("rafm", (3, 5), (9, 8, 4, 0))
    draw = np.random.default_rng(7)
    _, factors = fresh_numbers(plan, seed=7)
    for block, shape in zip(factors, [(8, 3), (4, 5)], strict=True):
        np.testing.assert_array_equal(block, draw.standard_normal(shape, np.float32) * np.float32(0.01))


# ---- Taking numbers out


@pytest.mark.parametrize("last", [False, True])
def test_numbers_come_out_in_any_order(last, monkeypatch):
    monkeypatch.setattr("rafm.plan.layout.CHUNK", 1000)
    plan = RankPlan("rafm", (4, 16), (20_000, 20_000, 5_000, 0))
    layout, draw = RecordLayout(plan, with_states=True), np.random.default_rng(0)
    weights, factors = np.arange(20_000, dtype=np.float32), layout.unpack(layout.fresh(0))[1]
    records = layout.pack(weights, factors)
    places = np.concatenate([draw.permutation(5_000), 5_000 + draw.permutation(15_000)])
    found, (low, high) = layout.unpack(records, places, last)
    np.testing.assert_array_equal(found, weights[places])
    np.testing.assert_array_equal(low, factors[0][places])
    np.testing.assert_array_equal(high, factors[1][places[:5_000]])


def test_groups_of_features_are_given_back_but_for_a_few_pages():
    plan = RankPlan("fm", (32,), (50_000, 50_000, 0))
    layout = RecordLayout(plan, with_states=True)
    records = layout.fresh(0)
    places = np.concatenate([np.arange(0, 50_000, 2), np.arange(1, 50_000, 2)]).argsort()
    layout.unpack(records, places, last=True)
    assert not CAN_RELEASE or np.count_nonzero(records) < records.size / 10


# ---- Scaling


@given(
    world=worlds(families=("rafm", "difacto", "fm", "lr")),
    power=st.integers(-6, 6),
    value_powers=st.lists(st.integers(-5, 10), min_size=9, max_size=9),
)
def test_scaling_by_powers_is_exact(world, power, value_powers):
    """Scores of values that are 2^b times as large are 4^a times as large, bit by bit."""
    grow = 2.0 ** np.array(value_powers[: world.plan.n_features])
    weights, factors = world.arrays(np.float32)
    before = Parameters(np.array([world.model["bias"]], np.float32), weights, factors)
    after = before.undo_scaling(4.0**power, grow.astype(np.float32))
    rows = random_rows(np.random.default_rng(0), world.plan.n_features, 6, 5)
    larger = [(ids, values * grow[ids]) for ids, values in rows]
    found = [score_with(world, *pair) for pair in ((before, rows), (after, larger))]
    np.testing.assert_array_equal(found[0] * np.float32(4.0**power), found[1])
    assert found[1].dtype == np.float32


def score_with(world, parameters, rows):
    layout = world.layout(with_states=False)
    records = layout.pack(parameters.weights, parameters.factors)
    return score(pack_rows(rows, dtype=np.float32), layout.tables(), records, parameters.bias[0])


def test_scaling_keeps_mixture_weights():
    world = make_world("mrma", (3, 5), [2, 2])
    weights, factors = world.arrays(np.float32)
    mixture = world.model["mixture"].astype(np.float32)
    scaled = Parameters(np.ones(1, np.float32), weights, factors, mixture).undo_scaling(16.0, np.ones(2, np.float32))
    np.testing.assert_array_equal(scaled.mixture, mixture)
    np.testing.assert_array_equal(scaled.weights, 16 * weights)
    np.testing.assert_array_equal(scaled.factors[1], 4 * factors[1])


def test_work_is_large_enough_for_the_longest_row():
    world = make_world("rafm", (3, 70), [2] * 30)
    layout = world.layout()
    (work,) = make_training_scratch(
        layout, layout.tables(split_levels(world.plan, [0, 0, 7])), longest=30, batch_size=5
    )
    assert work.sums.size == 2 * 5 * (4 + 72)
    assert (work.places.shape, work.ends.shape, work.slopes.shape) == ((10, 31), (10, 3), (5, 3))
    assert (work.losses.size, work.heads.size) == (5, PAGE_FLOATS + 4 * layout.strides[2])
    assert make_scoring_scratch(layout.tables(), longest=30).places.size == 30
    row = (np.arange(30), np.ones(30))
    assert world.scores([row])[0] == pytest.approx(naive.score(world.model, row), rel=TOLERANCE)
