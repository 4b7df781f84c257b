"""MRMA: its mixture of ranks against the definition, both passes against finite differences and a slow twin."""

import copy

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import ALL_RANKS, PRECISION, ROUNDING, RULE, TOLERANCE, make_world, pack_rows, pack_settings, seeds

from rafm.families.mrma import score_mixture
from rafm.kernels import mixture
from rafm.kernels.tables import optimizer_with

KINDS = ("squared", "logistic")
HUGE = float(np.finfo(PRECISION).max) ** 0.75  # whose square is none
PAIR = (np.array([1, 4]), np.array([1.5, -2.0]))
STEEP = {"learning_rate": 1e10}  # with states of 1e20, whose root a gradient cannot change: a step of exactly 1


def make_mixture(ranks=(3, 5, 8), n_features=6, seed=0):
    return make_world("mrma", ranks, [len(ranks)] * n_features, seed)


class Run:
    """A world's numbers as the kernels hold them, and the two passes over a batch of (row, label, weight)."""

    def __init__(self, world, dtype=PRECISION, states=1.0):
        self.layout = world.layout()
        self.tables = self.layout.tables(dtype=dtype)
        self.records = self.layout.pack(*world.arrays(dtype))
        *_, (level, _, view) = self.layout.views(self.records)
        view[:, 1 : 2 + level] = states
        self.bias = np.array([world.model["bias"], states], dtype)
        self.mixture = world.model["mixture"].astype(dtype)
        self.states = np.full_like(self.mixture, states)
        self.dtype = dtype

    def passes(self, batch, rule, factors=False, mix=False, pull=0.0):
        rows = pack_rows(*([item[part] for item in batch] for part in range(3)), dtype=self.dtype)
        order, usual = np.arange(len(batch)), {**rule, "optimizer": "adagrad"}
        settings = pack_settings(usual, self.mixture.shape[1], self.dtype, optimizer_with)
        known = (rows, order, self.tables, self.records, self.bias, self.mixture)
        result = mixture.train_factors(*known, settings) if factors else None
        if mix:
            mixture.train_mixture(*known, self.states, self.dtype(pull), settings)
        return result

    def numbers(self):
        weights, factors = self.layout.unpack(self.records)
        return {("w",): weights, **{("v", p, i): v for p, block in enumerate(factors) for i, v in enumerate(block)}}


@pytest.mark.parametrize("dtype", [PRECISION])
@given(
    ranks=st.lists(st.sampled_from(ALL_RANKS), min_size=1, max_size=3, unique=True).map(sorted),
    seed=seeds(),
    values=st.tuples(*[st.floats(-4, 4, width=16).filter(bool)] * 2),
)
def test_scores_match_the_definition(dtype, ranks, seed, values):
    world = make_mixture(ranks, 5, seed)
    rows = [(np.array(ids), np.array(values)) for ids in ((0, 1), (2, 4), (0, 4))]
    run = Run(world, dtype)
    found = score_mixture(pack_rows(rows, dtype=dtype), run.tables, run.records, run.bias[0], run.mixture)
    for score, row in zip(found, rows):
        size = 1 + naive.score_size(world.model, row)  # eight roundings of the largest sums
        assert abs(score - naive.mrma_score(world.model, row)) <= 8 * np.finfo(dtype).eps * size


def test_rows_without_exactly_two_known_features_keep_their_linear_part():
    world = make_mixture()
    rows = [(np.array(ids, int), np.ones(len(ids))) for ids in ([], [3], [0, 1, 2])]
    run = Run(world)
    found = score_mixture(pack_rows(rows), run.tables, run.records, run.bias[0], run.mixture)
    np.testing.assert_allclose(found, [naive.linear(world.model, row) for row in rows], rtol=ROUNDING)


def test_equal_mixture_weights_give_the_mean_of_the_ranks():
    world = make_mixture()
    world.model["mixture"][:] = 1
    run = Run(world)
    (found,) = score_mixture(pack_rows([PAIR]), run.tables, run.records, run.bias[0], run.mixture)
    products = [block[1] @ block[4] * PAIR[1].prod() for block in world.model["v"]]
    assert found == pytest.approx(naive.linear(world.model, PAIR) + np.mean(products), rel=ROUNDING)


@pytest.mark.interpreted
@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("kind", KINDS)
def test_the_factor_pass_follows_finite_differences(kind, weight):
    world, rule = make_mixture(), {**RULE, "kind": kind, "l2": 0.3, "l2_weights": 0.2, **STEEP}
    run = Run(world, states=1e20)
    before = {name: array.copy() for name, array in run.numbers().items()}
    loss, stopped = run.passes([(PAIR, 1.0, weight)], rule, factors=True)
    expected = naive.gradient(world.model, PAIR, 1.0, rule, weight)
    assert (loss, stopped) == (pytest.approx(weight * naive.loss(kind, naive.score(world.model, PAIR), 1.0)), -1)
    assert world.model["bias"] - run.bias[0] == pytest.approx(expected["bias",], rel=1e-9)
    for name, after in run.numbers().items():
        np.testing.assert_allclose(before[name] - after, expected[name], rtol=1e-6, atol=2e-8, err_msg=str(name))


@pytest.mark.interpreted
@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("kind", KINDS)
def test_the_mixture_pass_follows_finite_differences(kind, weight):
    world, rule = make_mixture(), {**RULE, "kind": kind, **STEEP}
    world.model["mixture"][:] += 2  # away from the floor
    label = naive.score(world.model, PAIR) - 0.05 if kind == "squared" else 1.0
    run = Run(world, states=1e20)
    run.passes([(PAIR, label, weight)], rule, mix=True)
    expected = weight * naive.mixture_gradient(world.model, PAIR, label, kind)
    np.testing.assert_allclose(world.model["mixture"] - run.mixture, expected, rtol=1e-6, atol=1e-9)
    assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("ranks", [(1, 3), (4, 17)])
@pytest.mark.parametrize("kind", KINDS)
def test_both_passes_match_the_twin_over_several_rows(kind, ranks):
    """AdaGrad states grow by the mean square over the rank, not over the padded vector."""
    rng = np.random.default_rng(1)
    world, run_rule = make_mixture(ranks), {**RULE, "kind": kind, "learning_rate": 0.2, "l2": 0.1, "l2_weights": 0.2}
    rule = {**run_rule, "optimizer": "adagrad"}
    batch = []
    for _ in range(8):
        ids = np.sort(rng.choice(6, 2, replace=False))
        batch.append(((ids, rng.normal(size=2)), float(rng.integers(0, 2)), float(rng.choice([0.0, 1.0, 2.0]))))
    run = Run(world)
    run.passes(batch, run_rule, factors=True, mix=True, pull=0.03)
    model, states = copy.deepcopy(world.model), naive.fresh_states(world.model)
    for row, label, weight in batch:
        naive.step_mrma_factors(model, states, row, label, weight, rule)
    mixture_states = np.ones_like(model["mixture"])
    for row, label, weight in batch:
        naive.step_mrma_mixture(model, mixture_states, row, label, weight, 0.03, rule, floor=0.01)
    np.testing.assert_allclose(run.bias, [model["bias"], states["bias",][0]], rtol=TOLERANCE)
    expected = dict(naive.numbers(model))
    for name, found in run.numbers().items():
        np.testing.assert_allclose(found, expected[name], rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(name))
    as_differences = max(1e-7, TOLERANCE)  # the twin's gradients are such
    np.testing.assert_allclose(run.mixture, model["mixture"], rtol=as_differences)
    np.testing.assert_allclose(run.states, mixture_states, rtol=as_differences)


def test_the_pull_brings_unused_mixture_weights_back_to_1():
    """With a slope of 0 only the penalty acts, and it stops at 1 exactly."""
    world = make_mixture()
    label = naive.score(world.model, PAIR)
    run = Run(world)
    before = run.mixture.copy()
    run.passes([(PAIR, label, 1.0)], {**RULE, "learning_rate": 1.0}, mix=True, pull=0.25)
    moved = np.clip(1 - before[PAIR[0]], -0.25, 0.25)
    np.testing.assert_allclose(run.mixture[PAIR[0]], before[PAIR[0]] + moved, rtol=10 * ROUNDING)
    run.passes([(PAIR, label, 1.0)], {**RULE, "learning_rate": 1.0}, mix=True, pull=100.0)
    assert (np.abs(run.mixture[PAIR[0]] - 1) < ROUNDING).all()
    others = np.setdiff1d(np.arange(6), PAIR[0])
    np.testing.assert_array_equal(run.mixture[others], before[others])


def test_mixture_weights_stay_positive():
    world = make_mixture()
    run = Run(world)
    run.passes([(PAIR, 1e6, 1.0)], {**RULE, "learning_rate": 1e3}, mix=True)
    assert run.mixture.min() == pytest.approx(float(mixture.FLOOR))


def test_rows_of_weight_0_change_nothing():
    world, rule = make_mixture(), {**RULE, "l2": 0.3, "l2_weights": 0.2, "learning_rate": 0.1}
    run = Run(world)
    before = run.records.copy(), run.bias.copy(), run.mixture.copy()
    run.passes([(PAIR, 5.0, 0.0)], rule, factors=True, mix=True, pull=0.1)
    for found, expected in zip((run.records, run.bias, run.mixture), before):
        np.testing.assert_array_equal(found, expected)


def test_the_factor_pass_stops_where_the_loss_is_not_finite():
    world = make_mixture()
    huge = (PAIR[0], np.array([HUGE, HUGE]))
    run = Run(world)
    loss, stopped = run.passes([(PAIR, 1.0, 1.0), (huge, 1.0, 1.0), (PAIR, 1.0, 1.0)], RULE, factors=True)
    assert stopped == 1
    assert np.isfinite(loss)
