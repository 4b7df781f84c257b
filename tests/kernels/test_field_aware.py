"""Field-aware models: scores by pairs, gradients by finite differences, mini-batches by the slow twin."""

import naive
import numpy as np
import pytest
from drawing import examples
from hypothesis import given
from worlds import PRECISION, ROUNDING, RULE, TOLERANCE, changes, make_world, random_rows, train, twin, worlds_with_rows

FIELDS = {
    "one field": (3, [0] * 6),
    "one feature per field": (6, [0, 1, 2, 3, 4, 5]),
    "several": (3, [0, 1, 0, 2, 1, 1]),
    "a field without features": (4, [0, 1, 0, 3, 1, 1]),
}
KINDS = ("squared", "huber", "logistic", "poisson")
ROW = (np.array([0, 1, 2, 4, 5]), np.array([1.0, -2.0, 0.5, 3.0, 1.0]))


def world_of(fields, rank=5):
    """Return a world of six features."""
    n_fields, numbers = fields
    world = make_world("ffm", (rank,), [1] * 6, n_fields=n_fields)
    world.model["fields"] = np.array(numbers)
    return world


def no_heads(world):
    return [0] * len(world.layout().members)


def all_heads(world):
    return world.layout().members


@pytest.mark.parametrize("dtype", [PRECISION])
@given(drawn=worlds_with_rows(families=("ffm",), max_fields=4))
def test_each_feature_of_a_pair_has_a_vector_for_the_field_of_the_other(dtype, drawn):
    world, rows = drawn
    for with_states in (False, True):
        for found, row in zip(world.scores(rows, dtype=dtype, with_states=with_states), rows):
            # Within 8 roundings of the largest sums.
            size = 1 + naive.score_size(world.model, row)
            assert abs(found - naive.score(world.model, row)) <= 8 * np.finfo(dtype).eps * size


def test_with_one_field_it_is_a_factorization_machine():
    world, plain = make_world("ffm", (5,), [1] * 6, n_fields=1), make_world("fm", (5,), [1] * 6)
    plain.model.update({name: world.model[name] for name in ("bias", "w", "v")})
    rows = random_rows(np.random.default_rng(0), 6, 20, 6)
    np.testing.assert_allclose(world.scores(rows), plain.scores(rows), rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.interpreted
@pytest.mark.parametrize("heads", [no_heads, all_heads])
@pytest.mark.parametrize(("fields", "kind"), [*zip(FIELDS.values(), KINDS)], ids=FIELDS)
def test_gradients_match_finite_differences(fields, kind, heads):
    world, rule = world_of(fields), {**RULE, "kind": kind, "l2": 0.3, "l2_weights": 0.2}
    row = (ROW[0], ROW[1] / 4)  # a smaller one, so that exp(score) of the Poisson loss stays small
    for label, weight in ((1.0, 1.0), (0.0, 2.5)):
        trained = train(world, [(row, label, weight)], rule, heads(world))
        expected = naive.gradient(world.model, row, label, rule, weight)
        for name, change in changes(world, trained):
            np.testing.assert_allclose(change, expected[name], rtol=1e-6, atol=2e-8, err_msg=str(name))


def batch_of(rng, n_rows):
    rows = random_rows(rng, 6, n_rows, 6)
    return [(row, float(rng.integers(0, 2)), float(rng.choice([1.0, 0.5]))) for row in rows]


def assert_like_the_twin(trained, expected):
    model, _, loss = expected
    pairs = [(trained.loss, loss), (trained.bias[0], model["bias"]), (trained.weights, model["w"])]
    for f, block in enumerate(model["v"]):
        pairs += [(trained.factors[f][i], vector) for i, vector in enumerate(block)]
    for found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("heads", [no_heads, all_heads])
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "ftrl", "adam"])
def test_mini_batches_match_the_twin(optimizer, heads):
    world = world_of(FIELDS["several"])
    rule = {**RULE, "kind": "logistic", "optimizer": optimizer, "learning_rate": 0.02, "l2": 0.1, "l2_weights": 0.1}
    rule |= {"l1": 0.9, "l1_weights": 1.5} if optimizer == "ftrl" else {}
    data = batch_of(np.random.default_rng(3), 18)
    batches = [data[first : first + 4] for first in range(0, 18, 4)]
    trained = train(world, data, rule, heads(world), batch_size=4)
    assert_like_the_twin(trained, twin(world, batches, rule, heads(world)))


@examples(1)
@given(worlds_with_rows(n_rows=5, families=("ffm",), max_features=6, max_fields=4))
def test_any_model_and_rows_match_the_twin(drawn):
    world, rows = drawn
    rule = {**RULE, "kind": "logistic", "optimizer": "adagrad", "learning_rate": 0.1, "l2": 0.1}
    data = [(row, float(number % 2), 1.0) for number, row in enumerate(rows)]
    batches, heads = [data[:2], data[2:4], data[4:]], [0] * world.plan.n_field_vectors + [world.plan.n_features // 2]
    assert_like_the_twin(train(world, data, rule, heads, batch_size=2), twin(world, batches, rule, heads))


@pytest.mark.parametrize("heads", [no_heads, all_heads])
def test_threads_change_no_bit(heads):
    world, rule = world_of(FIELDS["several"]), {**RULE, "kind": "logistic", "optimizer": "adagrad"}
    data = batch_of(np.random.default_rng(5), 70)
    one, two = (train(world, data, rule, heads(world), batch_size=4, threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one.records, two.records)
    np.testing.assert_array_equal(one.bias, two.bias)
    assert np.any(one.factors[0] != world.arrays()[1][0][:, :5])


def test_training_stops_at_a_loss_that_is_not_finite():
    world = world_of(FIELDS["several"])
    data = [(ROW, 1.0, 1.0), (ROW, np.inf, 1.0), (ROW, 1.0, 1.0)]
    assert train(world, data, RULE, batch_size=1).stopped == 1
