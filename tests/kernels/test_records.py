"""Scores against the definition by pairs, gradients against finite differences, mini-batches against a slow twin."""

import itertools
import json
from pathlib import Path

import naive
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from worlds import (
    ODD_RANKS,
    PRECISION,
    ROUNDING,
    RULE,
    TOLERANCE,
    changes,
    make_world,
    random_rows,
    run_python,
    seeds,
    train,
    twin,
    worlds,
    worlds_with_rows,
)

from rafm.jit.vectors import pair_listed
from rafm.optimizers import OPTIMIZERS
from rafm.plan.ranks import describe_plan

HERE = Path(__file__).parent
HUGE = float(np.finfo(PRECISION).max) ** 0.75  # whose square is none

KINDS = ("squared", "logistic", "poisson", "huber")
DIFFERENCES = {"rtol": 1e-6, "atol": 2e-8}  # central differences of step 1e-6: curvature 1e-12, rounding 1e-16 / 1e-6


@njit
def pairs_of(vectors, places, values, sums):
    return pair_listed(vectors, places, 0, values, 0, places.size, 0, sums, 0, sums.size)


def assert_score(found, model, row, expected):
    """Compare within 8 roundings of the sum of absolute terms, which is what float32 and float64 can promise."""
    assert abs(found - expected) <= 8 * np.finfo(found.dtype).eps * (1 + naive.score_size(model, row))


def assert_changes(world, trained, expected, **tolerance):
    """Compare every number's way down with its gradient: SGD of learning rate 1."""
    for name, change in changes(world, trained):
        np.testing.assert_allclose(change, expected[name], err_msg=str(name), **tolerance)


def all_heads(world):
    return world.layout().members


def some_heads(world):
    """Half of every level."""
    return [-(-members // 2) for members in world.layout().members]


def no_heads(world):
    return [0] * (world.plan.n_levels + 1)


HEADS = (no_heads, some_heads, all_heads)


# ---- Scores

ROW = (np.array([0, 1, 2, 4, 5]), np.array([1.0, -2.0, 0.5, 3.0, 1.0]))
EMPTY = (np.array([], int), np.array([]))
CASES = {
    "one level": ("rafm", (5,), [1] * 6, ROW),
    "two levels": ("rafm", (4, 8), [2, 2, 2, 1, 1, 1], ROW),
    "three levels, padded vectors": ("rafm", (3, 17, 70), [3, 3, 2, 2, 1, 1], ROW),
    "empty row": ("rafm", (3, 5), [2, 1, 1], EMPTY),
    "one feature": ("rafm", (3, 5), [2, 1, 1], (np.array([0]), np.array([2.0]))),
    "one feature of the lowest level": ("rafm", (3, 5), [2, 1, 1], (np.array([2]), np.array([2.0]))),
    "empty top level": ("rafm", (3, 5, 9), [2, 2, 1, 1, 1, 1], ROW),
    "empty middle level": ("rafm", (3, 5, 9), [3, 3, 1, 1, 1, 1], ROW),
    "empty lowest level": ("rafm", (3, 5), [2, 2, 2, 2, 2, 2], ROW),
    "row without the top level": ("rafm", (3, 5, 9), [3, 2, 2, 1, 1, 1], (np.array([3, 4, 5]), np.ones(3))),
    "all features on top": ("rafm", (1, 33, 70), [3] * 6, ROW),
    "features without vectors": ("rafm", (3, 5), [2, 2, 1, 0, 0, 0], ROW),
    "no feature with a vector": ("rafm", (3, 5), [0] * 6, ROW),
    "no feature at all": ("rafm", (3, 5), [], EMPTY),
    "common prefixes": ("difacto", (3, 5, 70), [3, 3, 2, 2, 1, 0], ROW),
    "common prefixes of one rank": ("difacto", (33,), [1, 1, 1, 1, 0, 0], ROW),
    "factorization machine": ("fm", (17,), [1] * 6, ROW),
    "logistic regression": ("lr", (), [0] * 6, ROW),
}


@pytest.mark.interpreted(also_compiled=True)
@pytest.mark.parametrize("dtype", [PRECISION])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_scores_match_the_definition(case, dtype):
    family, ranks, levels, row = case
    world = make_world(family, ranks, levels)
    for with_states in (False, True):
        (found,) = world.scores([row], dtype=dtype, with_states=with_states)
        assert_score(found, world.model, row, naive.score(world.model, row))


@pytest.mark.parametrize("dtype", [PRECISION])
@given(drawn=worlds_with_rows())
def test_scores_match_the_definition_for_any_plan_and_rows(dtype, drawn):
    world, rows = drawn
    for found, row in zip(world.scores(rows, dtype=dtype), rows):
        assert_score(found, world.model, row, naive.score(world.model, row))


@pytest.mark.parametrize("dtype", [PRECISION])
@given(drawn=worlds_with_rows(families=("rafm",)))
def test_scores_of_every_level_match_the_definition(dtype, drawn):
    world, rows = drawn
    for level in range(1, world.plan.n_levels + 1):
        for found, row in zip(world.scores(rows, level, dtype), rows):
            assert_score(found, world.model, row, naive.rafm_score(world.model, row, 1, level))


@given(drawn=worlds_with_rows(families=("rafm",)))
def test_scores_of_neighbouring_levels_differ_by_theorem_4(drawn):
    """B_{1,k+1} = B_{1,k} - A_{k,k+1} + A_{k+1,k+1}."""
    world, rows = drawn
    for level in range(1, world.plan.n_levels):
        lower, upper = world.scores(rows, level), world.scores(rows, level + 1)
        for row, step in zip(rows, upper - lower):
            gained = naive.a_term(world.model, row, level + 1, level + 1)
            lost = naive.a_term(world.model, row, level, level + 1)
            assert_score(step, world.model, row, gained - lost)


@given(drawn=worlds_with_rows(families=("rafm",)))
def test_sums_of_pairs_take_linear_time(drawn):
    """A_{l,k} pair by pair, by its linear form, and by the kernels from the sum of the same vectors; all l <= k."""
    world, rows = drawn
    for row, upper in itertools.product(rows, range(1, world.plan.n_levels + 1)):
        for lower in range(1, upper + 1):
            pairs = naive.a_term(world.model, row, lower, upper)
            linear = naive.a_term_in_linear_time(world.model, row, lower, upper)
            assert_score(np.float64(linear), world.model, row, pairs)
            members = [world.model["v"][lower - 1][i] * x for i, x in zip(*row) if world.model["levels"][i] >= upper]
            padded = np.zeros((len(members), 72))
            padded[:, : world.plan.ranks[lower - 1]] = np.reshape(members, (len(members), world.plan.ranks[lower - 1]))
            places = 72 * np.arange(len(members))
            found = pairs_of(padded.ravel(), places, np.ones(len(members)), np.full(72, np.nan))
            assert_score(np.float64(found), world.model, row, pairs)


@pytest.mark.parametrize("ranks", [(3,), (4, 17), (1, 5, 33)])
def test_a_rafm_with_all_features_on_top_is_the_fm_of_the_top_rank(ranks):
    world, fm = make_world("rafm", ranks, [len(ranks)] * 6), make_world("fm", ranks[-1:], [1] * 6)
    fm.model.update(bias=world.model["bias"], w=world.model["w"], v=world.model["v"][-1:])
    rows = random_rows(np.random.default_rng(0), 6, 20, 6)
    for found, expected, row in zip(world.scores(rows), fm.scores(rows), rows):
        assert_score(found, world.model, row, expected)


@pytest.mark.parametrize("rank", ODD_RANKS)
def test_a_difacto_and_a_rafm_of_one_rank_are_the_same_fm(rank):
    rows = random_rows(np.random.default_rng(0), 6, 5, 6)
    found = [make_world(family, (rank,), [1] * 6, seed=3).scores(rows) for family in ("fm", "rafm", "difacto")]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


# ---- Gradients: one row, SGD with learning rate 1, so that a number's change is its gradient

PENALTIES = {
    "plain": {},
    "with penalties": {"l2": 0.3, "l2_weights": 0.2, "dependent_weight": 0.7},
    "per level": {"l2": [0.3, 0.1, 0.7]},
}


@pytest.mark.interpreted
@pytest.mark.parametrize(("penalties", "heads"), [*zip(PENALTIES.values(), HEADS)], ids=PENALTIES)
@pytest.mark.parametrize("joint", [True, False], ids=["joint", "algorithm1"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_rafm_match_finite_differences(kind, joint, penalties, heads):
    for name in ("two levels", "empty row", "one feature", "empty middle level", "features without vectors"):
        family, ranks, levels, row = CASES[name]
        rule = {**RULE, "kind": kind, "joint": joint, **penalties}
        rule["l2"] = np.resize(rule["l2"], len(ranks))
        world = make_world(family, ranks, levels)
        for label, weight in ((1.0, 1.0), (0.0, 2.5)):
            trained = train(world, [(row, label, weight)], rule, heads(world))
            assert_changes(world, trained, naive.gradient(world.model, row, label, rule, weight), **DIFFERENCES)


@pytest.mark.interpreted
@pytest.mark.parametrize("heads", [no_heads, all_heads])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["common prefixes", "factorization machine", "logistic regression"])
def test_gradients_of_the_other_models_match_finite_differences(name, kind, heads):
    family, ranks, levels, row = CASES[name]
    world, rule = make_world(family, ranks, levels), {**RULE, "kind": kind, "l2": 0.3, "l2_weights": 0.2}
    trained = train(world, [(row, 1.0, 1.5)], rule, heads(world))
    assert_changes(world, trained, naive.gradient(world.model, row, 1.0, rule, 1.5), **DIFFERENCES)


@given(worlds_with_rows(n_rows=1, families=("rafm", "difacto"), max_features=6), st.data())
def test_gradients_match_the_closed_form_for_any_plan_and_row(drawn, data):
    """The closed form is the twin's, and the next test ties it to the definition."""
    world, (row,) = drawn
    rule = {
        **RULE,
        "kind": data.draw(
            st.sampled_from([kind for kind in KINDS if kind != "poisson"])
        ),  # exp of any score is too large
        "joint": data.draw(st.booleans()),
        "dependent_weight": 0.4,
        "l2": 0.1,
        "l2_weights": 0.05,
    }
    heads = data.draw(st.sampled_from(HEADS))(world)
    batch = [(row, data.draw(st.sampled_from([0.0, 1.0])), data.draw(st.sampled_from([1.0, 0.5, 3.0])))]
    assert_like_the_twin(world, train(world, batch, rule, heads), twin(world, [batch], rule, heads))


@pytest.mark.parametrize("joint", [True, False], ids=["joint", "algorithm1"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_twin_follows_finite_differences(kind, joint):
    rule = {**RULE, "kind": kind, "joint": joint, "l2": 0.1, "l2_weights": 0.2, "dependent_weight": 0.6}
    for name in ("three levels, padded vectors", "common prefixes"):
        family, ranks, levels, row = CASES[name]
        world = make_world(family, ranks, levels, seed=1)
        model, _, _ = twin(world, [[(row, 1.0, 2.0)]], rule, no_heads(world))
        after, expected = dict(naive.numbers(model)), naive.gradient(world.model, row, 1.0, rule, 2.0)
        for which, array in naive.numbers(world.model):
            np.testing.assert_allclose(array - after[which], expected[which], err_msg=str(which), **DIFFERENCES)


def test_a_dependent_factor_follows_its_own_loss_alone_by_algorithm_1():
    """With no dependent loss Algorithm 1 leaves dependent factors alone; the joint rule moves them."""
    family, ranks, levels, row = CASES["two levels"]
    world = make_world(family, ranks, levels)
    for joint in (True, False):
        trained = train(world, [(row, 1.0, 1.0)], {**RULE, "joint": joint, "dependent_weight": 0.0})
        moved = {name for name, change in changes(world, trained) if name[0] == "v" and np.any(change != 0)}
        assert {("v", 0, 0), ("v", 0, 1)} & moved == ({("v", 0, 0), ("v", 0, 1)} if joint else set())


# ---- Mini-batches


def assert_like_the_twin(world, trained, expected, tolerance=TOLERANCE):
    """Compare all numbers and their states with those of the twin, relative to the largest number around."""
    model, states, loss = expected
    layout = world.layout(n_slots=trained.n_slots)

    def same(found, wanted, what):
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance, err_msg=what)

    same(trained.loss, loss, "loss")
    same(trained.bias[:2], [model["bias"], states["bias",][0]], "bias")
    same(trained.weights, model["w"], "weights")
    for p, block in enumerate(model["v"]):
        for i, vector in enumerate(block):
            if vector is not None:
                same(trained.factors[p][i], vector, f"vector {p} of feature {i}")
    for level, ids, view in layout.views(trained.records):
        for i, record in zip(range(ids.start, ids.stop), view):
            same(record[1], states["w", i][0], f"state of weight {i}")
            for p in range(level):
                found = record[layout.offsets[p] :][: (1 + layout.n_slots) * layout.widths[p]]
                assert_states(same, layout, p, record, found, states["v", p, i], f"states of vector {p} of {i}")


def assert_states(same, layout, p, record, vectors, pair, what):
    """Compare the state of a vector, or what its n_slots hold."""
    n_slots = vectors.reshape(1 + layout.n_slots, -1)[1:, : layout.plan.block_ranks[p]]
    if layout.n_slots < 2:
        same(record[layout.first_state + p], pair[0], what)
    for found, wanted in zip(n_slots, pair[1:] if layout.n_slots == 1 else pair[::-1]):
        same(found, wanted, what)


def random_batch(rng, world, n_rows, longest=6, weights=(1.0,)):
    rows = random_rows(rng, world.plan.n_features, n_rows, longest)
    return [(row, float(rng.integers(0, 2)), float(rng.choice(weights))) for row in rows]


@pytest.mark.interpreted
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["rafm", "difacto"])
def test_heads_get_the_sum_of_the_gradients_of_their_rows(family, kind):
    """All at the parameters of the batch's start, so the order of the rows means nothing."""
    rng = np.random.default_rng(2)
    world = make_world(family, (3, 5, 8), [3, 3, 2, 1, 1, 0, 0])
    rule = {**RULE, "kind": kind, "l2": 0.1, "l2_weights": 0.2, "dependent_weight": 0.5}
    batch = random_batch(rng, world, 7, weights=(1.0, 2.0))
    summed = {}
    for row, label, weight in batch:
        for name, gradient in naive.gradient(world.model, row, label, rule, weight).items():
            summed[name] = summed.get(name, 0) + gradient
    trained = train(world, batch, rule, all_heads(world))
    assert_changes(world, trained, summed, rtol=1e-6, atol=2e-7)  # seven differences instead of one
    for _, change in changes(world, trained):
        assert np.any(change != 0)


FAMILIES = ("rafm", "difacto", "fm", "lr")
BATCHES = [  # each pair of family, optimiser and heads with one loss, and each of them with every loss
    (family, KINDS[(f + o + h) % len(KINDS)], optimizer, heads)
    for f, family in enumerate(FAMILIES)
    for o, optimizer in enumerate(OPTIMIZERS)
    for h, heads in enumerate(HEADS)
]


@pytest.mark.interpreted(also_compiled=True)
@pytest.mark.parametrize(("family", "kind", "optimizer", "heads"), BATCHES)
def test_mini_batches_match_the_twin(family, kind, optimizer, heads):
    """Tails step in place with the sums of the batch's start, heads once; several batches of four rows."""
    rng = np.random.default_rng(3)
    ranks, levels = {"fm": ((5,), [1] * 7), "lr": ((), [0] * 7)}.get(family, ((3, 5, 8), [3, 3, 2, 2, 1, 1, 0]))
    world = make_world(family, ranks, levels)
    rule = {**RULE, "kind": kind, "optimizer": optimizer, "learning_rate": 0.02, "l2": 0.1, "l2_weights": 0.2}
    if optimizer == "ftrl":
        rule |= {"l1": 0.9, "l1_weights": 1.5}
    data = random_batch(rng, world, 18, weights=(1.0, 0.5))
    batches = [data[first : first + 4] for first in range(0, 18, 4)]
    trained = train(world, data, rule, heads(world), batch_size=4)
    assert_like_the_twin(world, trained, twin(world, batches, rule, heads(world)))


def test_ftrl_without_l1_is_adagrad():
    world, rng = make_world("rafm", (3, 5, 8), [3, 3, 2, 2, 1, 1, 0]), np.random.default_rng(3)
    data, rule = random_batch(rng, world, 40), {**RULE, "kind": "logistic", "learning_rate": 0.1, "l2": 0.01}
    found = [train(world, data, rule | {"optimizer": name}, some_heads(world), 4) for name in ("ftrl", "adagrad")]
    for one, other in zip(*([run.bias[:2], run.weights, *run.factors] for run in found)):
        np.testing.assert_allclose(one, other, rtol=TOLERANCE, atol=ROUNDING)


def test_ftrl_sets_weights_and_whole_vectors_to_zero_the_more_the_larger_l1():
    world, rng = make_world("fm", (5,), [1] * 30), np.random.default_rng(3)
    world.model["w"][:] = 0
    data, zeros = random_batch(rng, world, 60), []
    for l1 in (0.0, 0.3, 2.0, 50.0):
        rule = {**RULE, "kind": "logistic", "optimizer": "ftrl", "learning_rate": 1.0, "l1": l1, "l1_weights": l1}
        trained = train(world, data, rule)
        alive = trained.factors[0].any(axis=1)
        assert (trained.factors[0] != 0).all(axis=1)[alive].all()  # a vector as a whole
        zeros.append((int((trained.weights == 0).sum()), int((~alive).sum())))
    weights, vectors = zip(*zeros)
    assert (weights[0], vectors[0]) == (0, 0)
    assert list(weights) == sorted(weights)
    assert 0 < weights[1] < weights[3] == 30
    assert vectors[3] > 0


def test_tails_step_once_per_occurrence_and_heads_once_per_batch():
    """The same rows, first as tails and then as heads: AdaGrad's state tells the steps apart."""
    world = make_world("fm", (4,), [1, 1])
    rule = {**RULE, "optimizer": "adagrad", "learning_rate": 0.1}
    batch = [((np.array([0]), np.array([1.0])), label, 1.0) for label in (5.0, 5.0)]
    slope = world.model["bias"] + world.model["w"][0] - 5.0
    tail, head = (train(world, batch, rule, heads(world)) for heads in (no_heads, all_heads))
    states = [next(iter(world.layout().views(found.records)))[2] for found in (tail, head)]
    assert [found.shape for found in states] == [(0, 2), (0, 2)]  # no feature without a vector
    weight_state = [list(world.layout().views(found.records))[1][2][0, 1] for found in (tail, head)]
    np.testing.assert_allclose(weight_state, [1 + 2 * slope**2, 1 + (2 * slope) ** 2], rtol=ROUNDING)


def test_the_bias_steps_once_per_batch_by_the_summed_slope():
    world = make_world("lr", (), [0])
    rule = {**RULE, "optimizer": "adagrad", "learning_rate": 0.1}
    batch = [((np.array([], int), np.array([])), label, weight) for label, weight in ((1.0, 1.0), (2.0, 3.0))]
    slope = sum(weight * (world.model["bias"] - label) for _, label, weight in batch)
    trained = train(world, batch, rule)
    state = 1 + slope**2
    np.testing.assert_allclose(
        trained.bias[:2], [world.model["bias"] - 0.1 / np.sqrt(state) * slope, state], rtol=ROUNDING
    )


def test_rows_are_visited_in_the_given_order():
    rng = np.random.default_rng(4)
    world = make_world("rafm", (3, 5), [2, 2, 1, 1, 1])
    rule = {**RULE, "optimizer": "adagrad", "learning_rate": 0.1}
    data, order = random_batch(rng, world, 6), [4, 1, 1, 5]
    batches = [[data[4], data[1]], [data[1], data[5]]]
    trained = train(world, data, rule, batch_size=2, order=order)
    assert_like_the_twin(world, trained, twin(world, batches, rule, no_heads(world)))


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_a_row_of_weight_0_changes_nothing(optimizer, heads):
    world = make_world("rafm", (3, 8), [2, 2, 1, 1, 0])
    rule = {**RULE, "optimizer": optimizer, "kind": "logistic", "l2": 0.3, "l2_weights": 0.2, "learning_rate": 0.1}
    batch = random_batch(np.random.default_rng(5), world, 5)
    ignored = [(row, 1 - label, 0.0) for row, label, _ in random_batch(np.random.default_rng(6), world, 5)]
    mixed = [item for pair in zip(batch, ignored) for item in pair]
    alone, both = (train(world, rows, rule, heads(world)) for rows in (batch, mixed))
    np.testing.assert_array_equal(alone.records, both.records)
    np.testing.assert_array_equal(alone.bias, both.bias)
    assert alone.loss == both.loss
    nothing = train(world, ignored, rule, heads(world))
    np.testing.assert_array_equal(nothing.records, world.layout().pack(*world.arrays()))


def test_whole_weights_count_like_repeated_rows_in_one_batch():
    world = make_world("rafm", (3, 8), [2, 2, 1, 1, 0])
    rule = {**RULE, "kind": "logistic", "l2": 0.3, "l2_weights": 0.2}
    batch = random_batch(np.random.default_rng(7), world, 4, weights=(1.0, 2.0, 3.0))
    repeated = [(row, label, 1.0) for row, label, weight in batch for _ in range(int(weight))]
    assert len(repeated) > len(batch)
    weighted, plain = (train(world, rows, rule, all_heads(world)) for rows in (batch, repeated))
    np.testing.assert_allclose(weighted.records, plain.records, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(weighted.bias, plain.bias, rtol=ROUNDING)
    assert weighted.loss == pytest.approx(plain.loss, rel=ROUNDING)


def test_training_stops_at_the_batch_whose_loss_is_not_finite():
    """Batches before it count, nothing of it does."""
    world = make_world("fm", (4,), [1] * 3)
    rule = {**RULE, "learning_rate": 0.01}
    good = random_batch(np.random.default_rng(8), world, 4, longest=3)
    bad = ((np.array([0, 1]), np.array([HUGE, HUGE])), 1.0, 1.0)
    trained = train(world, [*good, bad, good[0]], rule, batch_size=2)
    before = train(world, good, rule, batch_size=2)
    assert trained.stopped == 4
    assert trained.loss == before.loss
    np.testing.assert_array_equal(trained.records, before.records)


@pytest.mark.parametrize("dtype", [PRECISION])
@pytest.mark.parametrize("kind", KINDS[:2])
def test_huge_scores_train_without_overflow(kind, dtype):
    """A log loss of 1e4 is itself; its slope is 0 or 1, never NaN."""
    world, row = make_world("lr", (), [0]), (np.array([0]), np.array([1.0]))
    for score, label in ((-1e4, 1.0), (1e4, 1.0), (1e4, 0.0)):
        world.model.update(bias=0.0, w=np.array([score]))
        trained = train(world, [(row, label, 1.0)], {**RULE, "kind": kind}, dtype=dtype)
        wrong = float(score > 0) - label
        loss, slope = (abs(wrong * score), wrong) if kind == "logistic" else ((score - label) ** 2 / 2, score - label)
        assert trained.stopped == -1
        assert trained.loss == pytest.approx(loss, rel=1e-6, abs=1e-30)
        assert trained.weights[0] == pytest.approx(score - slope, rel=1e-6)


@pytest.mark.interpreted
@pytest.mark.parametrize("heads", HEADS)
def test_float32_training_stays_close_to_float64(heads):
    """18 rows of AdaGrad: each rounding is 6e-8 of numbers near 1, and steps are smaller than the numbers."""
    world = make_world("rafm", (3, 17, 33), [3, 3, 2, 2, 1, 1, 0])
    rule = {**RULE, "kind": "logistic", "optimizer": "adagrad", "learning_rate": 0.1, "l2": 0.1}
    data = random_batch(np.random.default_rng(9), world, 18)
    low, high = (
        train(world, data, rule, heads(world), batch_size=4, dtype=dtype) for dtype in (np.float32, np.float64)
    )
    np.testing.assert_allclose(low.records, high.records, rtol=2e-5, atol=2e-6)


# ---- Space and time


def used_places(world, with_states):
    """Return which places of the records hold a number: weights, states, and as many factors as the rank."""
    layout = world.layout(with_states)
    used = np.zeros(layout.place_levels(layout.members)[1], bool)
    origins, _ = layout.place_levels(layout.members)
    for i, level in enumerate(world.model["levels"]):
        start = origins[level] + i * layout.strides[level]
        used[start : start + (2 + level if with_states else 1)] = True
        for offset, rank in zip(layout.offsets[:level], world.plan.block_ranks):
            used[start + offset : start + offset + rank] = True
    return used


@given(worlds(), st.sampled_from(HEADS), seeds())
def test_padding_stays_zero_through_training(world, heads, seed):
    data = random_batch(np.random.default_rng(seed), world, 6)
    rule = {**RULE, "optimizer": "adagrad", "l2": 0.1, "l2_weights": 0.1}
    trained = train(world, data, rule, heads(world), batch_size=3)
    assert not trained.records[~used_places(world, with_states=True)].any()


@given(worlds())
def test_only_active_factors_exist(world):
    """Places of a scoring model: one weight per feature and the active factors; with the bias, n_parameters."""
    assert used_places(world, with_states=False).sum() + 1 == world.plan.n_parameters
    weights, factors = world.arrays()
    assert 1 + weights.size + sum(block.size for block in factors) == world.plan.n_parameters
    states = world.plan.n_features + sum(world.plan.sizes[1:])
    assert used_places(world, with_states=True).sum() + 1 == world.plan.n_parameters + states


COUNT = """
import json
import numpy as np
from rafm.jit import vectors

touched = [0]
def counting(plain):
    def counted(records, places, q, values, e, count, shift, sums, j, n):
        touched[0] += int(count * n)
        return plain(records, places, q, values, e, count, shift, sums, j, n)
    return counted
for name in ("add_listed", "sum_listed", "pair_more", "pair_listed"):
    setattr(vectors, name, counting(getattr(vectors, name)))
from worlds import RULE, make_world, random_rows, train  # kernels take the counting functions

def count(work):
    touched[0] = 0
    work()
    return touched[0]

found = []
for family, ranks, levels in (
    ("rafm", (4, 8, 16), [3, 3, 2, 2, 2, 1, 1, 0, 0]),
    ("difacto", (4, 8, 16), [3, 3, 2, 2, 2, 1, 1, 0, 0]),
    ("fm", (8,), [1] * 9),
):
    world, rows = make_world(family, ranks, levels), []
    for row in random_rows(np.random.default_rng(0), 9, 30, 9):
        trained = count(lambda: train(world, [(row, 1.0, 1.0)], RULE))
        rows.append((row[0].tolist(), trained, count(lambda: world.scores([row]))))
    found.append((family, ranks, levels, rows))
print(json.dumps(found))
"""


def test_a_row_touches_as_many_factors_as_the_theory_says():
    """Corollary 5: sum_k D_k n(F_k), counted in the real kernels; scoring leaves out blocks that cancel."""
    found = json.loads(run_python("-c", COUNT, NUMBA_DISABLE_JIT="1"))
    for family, ranks, levels, rows in found:
        world, saved = make_world(family, ranks, levels), 0
        for ids, trained, scored in rows:
            theory = naive.factors_touched(world.plan.block_ranks, levels, ids)
            assert trained == theory
            assert scored == theory - cancelling(world, ids)
            saved += theory - scored
        assert saved > 0
        counts = np.bincount(np.concatenate([ids for ids, *_ in rows]).astype(int), minlength=len(levels))
        *lines, _ = describe_plan(world.plan, counts, len(rows))
        mean = np.mean([trained for _, trained, _ in rows])
        assert sum(line["factors_per_row"] for line in lines) == pytest.approx(mean, rel=1e-12)


def cancelling(world, ids):
    """Count the factors of blocks that add nothing: without a pair, or for RaFM without a feature of that level."""
    total, levels = 0, world.model["levels"]
    for p, rank in enumerate(world.plan.block_ranks):
        members = [levels[i] for i in ids if levels[i] > p]
        idle = world.plan.nested and p + 1 < world.plan.n_levels and p + 1 not in members
        total += rank * len(members) if idle or len(members) < 2 else 0
    return total


# ---- Other ways to run

CHECKED = {  # training takes long to compile, and finds the same errors of bounds where it is not compiled
    "NUMBA_BOUNDSCHECK": ("test_records.py::test_scores_match_the_definition",),
    "NUMBA_DISABLE_JIT": (".", "-m", "interpreted"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", CHECKED)
def test_the_kernels_pass_with_bounds_checked_and_without_compilation(mode, tmp_path):
    """Not optimised, compiling takes half as long; such code cannot be kept, which Numba warns of."""
    where, *options = CHECKED[mode]
    vectors = HERE.parent / "jit" / "test_vectors.py::test_operations_notice_an_index_out_of_bounds"
    arguments = ("-m", "pytest", "-q", "-W", "ignore:Cannot cache", HERE / where, vectors, *options)
    printed = run_python(*arguments, NUMBA_CACHE_DIR=str(tmp_path), NUMBA_OPT="0", **{mode: "1"})
    assert " passed" in printed
    assert "skipped" not in printed
