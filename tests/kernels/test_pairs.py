"""Pairs of rows: gradients against finite differences, mini-batches against the slow twin, and equal bytes."""

import naive
import numpy as np
import pytest
from worlds import ROUNDING, RULE, TOLERANCE, changes, make_world, random_rows, train, twin

from rafm.jit.compile import PLAIN

FAMILIES = {
    "rafm": ((3, 5, 8), [3, 3, 2, 2, 1, 1, 0]),
    "difacto": ((3, 5, 8), [3, 3, 2, 2, 1, 1, 0]),
    "fm": ((5,), [1] * 7),
    "lr": ((), [0] * 7),
}
PENALTIES = {**RULE, "kind": "logistic", "l2": 0.1, "l2_weights": 0.2, "dependent_weight": 0.6}
PAIRS = {
    "of one context": (([0, 2, 5], [1.0, 2.0, -1.0]), ([0, 3, 4], [1.0, 0.5, 1.0])),
    "of different levels": (([0, 1], [1.0, -2.0]), ([4, 5], [1.0, 3.0])),
    "with an empty row": (([0, 1, 2], [1.0, 1.0, 1.0]), ([], [])),
    "of equal rows": (([0, 4], [1.0, 1.0]), ([0, 4], [1.0, 1.0])),
}


def row_of(ids, values):
    return np.array(ids, int), np.array(values, float)


def random_pairs(rng, n_pairs, weights=(1.0, 0.5)):
    """Return a batch of pairs; the first row of each has label 1."""
    drawn = rng.choice(weights, n_pairs)
    rows = random_rows(rng, 7, 2 * n_pairs, 6)
    return [(row, float(t % 2 == 0), float(drawn[t // 2])) for t, row in enumerate(rows)]


@pytest.mark.interpreted
@pytest.mark.parametrize("joint", [True, False], ids=["joint", "algorithm1"])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_of_a_pair_match_finite_differences(family, joint):
    """All features as heads: those of both rows then step once, by the gradient of the pair."""
    world, rule = make_world(family, *FAMILIES[family]), {**PENALTIES, "joint": joint}
    for name, rows in PAIRS.items():
        pair = [row_of(*row) for row in rows]
        batch = [(pair[0], 1.0, 1.5), (pair[1], 0.0, 1.5)]
        trained = train(world, batch, rule, world.layout().members, paired=True)
        expected = naive.pair_gradient(world.model, pair, rule, 1.5)
        for which, change in changes(world, trained):
            np.testing.assert_allclose(change, expected[which], rtol=1e-6, atol=1e-7, err_msg=f"{name}: {which}")
        difference = naive.pair_scores(world.model, pair)[0]
        assert trained.loss == pytest.approx(2 * 1.5 * np.logaddexp(0, -difference), rel=1e-12)  # counted with each row


INTERPRETED = [pytest.param(name, marks=pytest.mark.interpreted) for name in ("sgd", "adam")]


@pytest.mark.parametrize("optimizer", ["adagrad", *INTERPRETED])
@pytest.mark.parametrize("family", FAMILIES)
def test_mini_batches_of_pairs_match_the_twin(family, optimizer):
    world, data = make_world(family, *FAMILIES[family]), random_pairs(np.random.default_rng(3), 9)
    rule = {**PENALTIES, "optimizer": optimizer, "learning_rate": 0.02}
    heads = [-(-members // 2) for members in world.layout().members]
    batches = [data[first : first + 4] for first in range(0, len(data), 4)]
    trained = train(world, data, rule, heads, batch_size=4, paired=True)
    model, _, loss = twin(world, batches, rule, heads, paired=True)
    assert trained.loss == pytest.approx(loss, rel=TOLERANCE)
    np.testing.assert_allclose(trained.weights, model["w"], rtol=TOLERANCE, atol=TOLERANCE)
    for p, block in enumerate(model["v"]):
        for i, vector in enumerate(block):
            if vector is not None:
                np.testing.assert_allclose(trained.factors[p][i], vector, rtol=TOLERANCE, atol=TOLERANCE)


def test_field_weights_of_pairs_match_the_twin():
    world = make_world("rafm", (3, 5, 8), [3, 3, 2, 2, 1, 1, 0], n_fields=3)
    data = random_pairs(np.random.default_rng(4), 8)
    rule = {**PENALTIES, "optimizer": "adagrad", "learning_rate": 0.02}
    heads = [0] * 4
    trained = train(world, data, rule, heads, batch_size=4, dtype=np.float32, paired=True)
    model, _, loss = twin(world, [data[first : first + 4] for first in range(0, 16, 4)], rule, heads, paired=True)
    assert trained.loss == pytest.approx(loss, rel=1e-5)  # float32, as in training
    np.testing.assert_allclose(trained.fields[0], model["t"], rtol=1e-5)
    np.testing.assert_allclose(trained.weights, model["w"], rtol=1e-4, atol=1e-6)


@pytest.mark.interpreted
def test_a_pair_without_a_difference_has_the_slope_of_a_coin():
    """Equal rows cancel; what is left is the penalty."""
    world, row = make_world("fm", (4,), [1] * 3), row_of([0, 2], [1.0, 1.0])
    trained = train(world, [(row, 1.0, 1.0), (row, 0.0, 1.0)], {**RULE, "kind": "logistic"}, [0, 3], paired=True)
    assert trained.loss == pytest.approx(2 * np.log(2))
    for _, change in changes(world, trained):
        np.testing.assert_allclose(change, 0, atol=ROUNDING)


@pytest.mark.skipif(PLAIN, reason="with bounds checks there is a single thread")
def test_two_threads_leave_the_same_bytes():
    world = make_world("rafm", (3, 5, 8), [3, 3, 2, 2, 1, 1, 0], n_fields=3)
    data, rule = random_pairs(np.random.default_rng(5), 40), {**PENALTIES, "optimizer": "adagrad", "learning_rate": 0.1}
    found = [train(world, data, rule, dtype=np.float32, threads=threads, paired=True) for threads in (1, 2)]
    assert found[0].records.tobytes() == found[1].records.tobytes()
    assert found[0].loss == found[1].loss
