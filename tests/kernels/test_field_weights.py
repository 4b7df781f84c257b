"""Field weights: scores by pairs, gradients by finite differences, mini-batches by the slow twin."""

import itertools

import naive
import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from hypothesis import strategies as st
from worlds import PRECISION, ROUNDING, RULE, TOLERANCE, changes, make_world, random_rows, train, twin, worlds_with_rows

FAMILIES = ("rafm", "difacto", "fm")
CASES = {
    "fm": ("fm", (5,), [1] * 7),
    "rafm": ("rafm", (3, 5, 8), [3, 3, 2, 2, 1, 1, 0]),
    "empty middle level": ("rafm", (3, 5, 9), [3, 3, 1, 1, 1, 1]),
    "difacto": ("difacto", (3, 5, 70), [3, 3, 2, 2, 1, 0]),
}
ROW = (np.array([0, 1, 2, 4, 5]), np.array([1.0, -2.0, 0.5, 3.0, 1.0]))
OPTIMIZERS = ("sgd", "adagrad", "ftrl", "adam")


def no_heads(world):
    return [0] * (world.plan.n_levels + 1)


def all_heads(world):
    return world.layout().members


def close(found, expected, model, row):
    """Compare within 16 roundings of the largest sums: twice as many as without weights."""
    assert abs(found - expected) <= 16 * np.finfo(found.dtype).eps * (1 + naive.score_size(model, row))


# ---- Scores


@pytest.mark.parametrize("dtype", [PRECISION])
@given(drawn=worlds_with_rows(families=FAMILIES, max_fields=4))
def test_a_pair_counts_one_less_the_product_of_its_field_weights(dtype, drawn):
    world, rows = drawn
    for with_states in (False, True):
        for found, row in zip(world.scores(rows, dtype=dtype, with_states=with_states), rows):
            close(found, naive.score(world.model, row), world.model, row)


@given(drawn=worlds_with_rows(families=("rafm",), max_fields=3))
def test_scores_of_every_level_match_the_definition_and_theorem_4(drawn):
    world, rows = drawn
    found = [world.scores(rows, level) for level in range(1, world.plan.n_levels + 1)]
    for level, (scores, row) in itertools.product(range(1, len(found) + 1), enumerate(rows)):
        close(found[level - 1][scores], naive.rafm_score(world.model, row, 1, level), world.model, row)
        if level < len(found):
            step = naive.a_term(world.model, row, level + 1, level + 1) - naive.a_term(
                world.model, row, level, level + 1
            )
            close(found[level][scores] - found[level - 1][scores], step, world.model, row)


@given(drawn=worlds_with_rows(families=("rafm",), max_fields=3))
def test_weighted_sums_of_pairs_take_linear_time(drawn):
    """The bracket of one more sum per level is the sum over pairs."""
    world, rows = drawn
    for row, upper in itertools.product(rows, range(1, world.plan.n_levels + 1)):
        for lower in range(1, upper + 1):
            linear = naive.a_term_in_linear_time(world.model, row, lower, upper)
            close(np.float64(linear), naive.a_term(world.model, row, lower, upper), world.model, row)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_weights_of_0_change_no_score_and_weights_of_1_leave_the_linear_part(case):
    world = make_world(*case, n_fields=2)
    rows = random_rows(np.random.default_rng(0), len(case[2]), 20, 6)
    plain = make_world(*case)
    plain.model.update({name: world.model[name] for name in ("bias", "w", "v")})
    world.model["t"][:] = 0
    np.testing.assert_allclose(world.scores(rows), plain.scores(rows), rtol=ROUNDING, atol=ROUNDING)
    world.model["t"][:] = 1
    linear = [naive.linear(world.model, row) for row in rows]
    np.testing.assert_allclose(world.scores(rows), linear, rtol=10 * TOLERANCE, atol=10 * TOLERANCE)


# ---- Gradients: one row, SGD with learning rate 1


@pytest.mark.interpreted
@pytest.mark.parametrize("heads", [no_heads, all_heads])
@pytest.mark.parametrize(("kind", "joint"), [("squared", True), ("logistic", False)], ids=["joint", "algorithm1"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_match_finite_differences(case, kind, joint, heads):
    """Also of the weights of fields that have several features in a row, and of one that has none."""
    rule = {**RULE, "kind": kind, "joint": joint, "l2": 0.3, "l2_weights": 0.2, "dependent_weight": 0.7}
    world = make_world(*case, n_fields=3)
    world.model["fields"] = np.resize([0, 1, 0], len(case[2]))
    for label, weight in ((1.0, 1.0), (0.0, 2.5)):
        trained = train(world, [(ROW, label, weight)], rule, heads(world))
        expected = naive.gradient(world.model, ROW, label, rule, weight)
        assert np.any(expected["t",][:2] != 0)
        for name, change in changes(world, trained):
            np.testing.assert_allclose(change, expected[name], rtol=1e-6, atol=2e-8, err_msg=str(name))


# ---- Mini-batches


def batch_of(rng, world, n_rows):
    rows = random_rows(rng, world.plan.n_features, n_rows, 6)
    return [(row, float(rng.integers(0, 2)), float(rng.choice([1.0, 0.5]))) for row in rows]


def assert_like_the_twin(world, trained, expected):
    model, states, loss = expected
    pairs = [(trained.loss, loss), (trained.bias[0], model["bias"]), (trained.weights, model["w"])]
    pairs += [(trained.fields[0], model["t"]), (trained.fields[1], states["t",][0])]
    pairs += [(trained.fields[2:].sum(axis=0), states["t",][1])]
    for p, block in enumerate(model["v"]):
        pairs += [(trained.factors[p][i], vector) for i, vector in enumerate(block) if vector is not None]
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("heads", [no_heads, all_heads])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_mini_batches_match_the_twin(case, optimizer, heads):
    """Weights step once per batch, by the gradient of the batch before, whatever optimiser trains the rest."""
    world = make_world(*case, n_fields=3)
    rule = {**RULE, "kind": "logistic", "optimizer": optimizer, "learning_rate": 0.02, "l2": 0.1}
    rule |= {"l1": 0.9, "l1_weights": 1.5} if optimizer == "ftrl" else {}
    data = batch_of(np.random.default_rng(3), world, 18)
    batches = [data[first : first + 4] for first in range(0, 18, 4)]
    trained = train(world, data, rule, heads(world), batch_size=4)
    assert_like_the_twin(world, trained, twin(world, batches, rule, heads(world)))


@examples(0.4)
@given(worlds_with_rows(n_rows=5, families=FAMILIES, max_features=6, max_fields=3), st.booleans(), st.booleans())
def test_any_plan_and_rows_match_the_twin(drawn, joint, has_heads):
    world, rows = drawn
    heads = (all_heads if has_heads else no_heads)(world)
    rule = {**RULE, "kind": "logistic", "joint": joint, "optimizer": "adagrad", "learning_rate": 0.1, "l2": 0.1}
    data = [(row, float(number % 2), 1.0) for number, row in enumerate(rows)]
    batches = [data[:2], data[2:4], data[4:]]
    assert_like_the_twin(world, train(world, data, rule, heads, batch_size=2), twin(world, batches, rule, heads))


def test_weights_stay_between_0_and_1():
    """Gradients of one sign: a weight near a bound ends at it, since AdaGrad's first steps are nearly 0.05."""
    world = make_world("fm", (4,), [1] * 4, n_fields=2)
    world.model["v"][0] = [np.ones(4)] * 4
    world.model["fields"] = np.array([0, 1, 0, 1])
    for label, start, bound in ((50.0, 0.02, 0.0), (-50.0, 0.98, 1.0)):
        world.model["t"][:] = 0.5, start
        data = [((np.arange(4), np.ones(4)), label, 1.0)] * 5
        trained = train(world, data, {**RULE, "learning_rate": 1e-9}, batch_size=1)
        assert trained.fields[0, 1] == bound
        assert 0 < trained.fields[0, 0] < 1


@pytest.mark.parametrize("heads", [no_heads, all_heads])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_threads_change_no_bit(case, heads):
    world = make_world(*case, n_fields=3)
    rule = {**RULE, "kind": "logistic", "optimizer": "adagrad", "learning_rate": 0.1}
    data = batch_of(np.random.default_rng(5), world, 70)
    one, two = (train(world, data, rule, heads(world), batch_size=4, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one.records, two.records)
    np.testing.assert_array_equal(one.fields, two.fields)
    assert np.any(one.fields[0] != world.model["t"])
