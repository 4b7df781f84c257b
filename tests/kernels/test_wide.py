"""Wide steps follow their equations, step by step, and do not depend on who computes them."""

import copy
import itertools

import naive
import numpy as np
import pytest
from worlds import RULE, fresh_fields, fresh_records, make_world, pack_rows, pack_settings, random_rows

from rafm.jit.compile import PLAIN
from rafm.kernels import tables as kernels
from rafm.kernels.tables import SHARES
from rafm.kernels.wide import train_steps
from rafm.optimizers import OPTIMIZERS, optimizer_for
from rafm.plan.scratch import make_field_scratch, make_wide_scratch
from rafm.plan.steps import index_steps
from rafm.train.steps.team import ThreadTeam
from rafm.train.steps.wide_engine import joined_tables

SINGLE = np.float32
DAMPING = 20.0
SETTINGS = {"l2": 0.03, "l2_weights": 0.01, "dependent_weight": 0.7}
KINDS = {
    "lr": ("lr", (), [0] * 7, 0),
    "fm": ("fm", (5,), [1] * 7, 0),
    "fm with fields": ("fm", (8,), [1] * 7, 3),
    "difacto": ("difacto", (4, 9, 70), [3, 3, 2, 2, 1, 1, 0], 0),
    "rafm": ("rafm", (3, 8, 33), [3, 3, 2, 2, 1, 1, 0], 0),
    "rafm with fields": ("rafm", (3, 8, 33), [3, 3, 2, 2, 1, 1, 0], 3),
}


needs_threads = pytest.mark.skipif(PLAIN, reason="with bounds checks there is a single thread")


def steps_of(seed, n_features, sizes, binary, longest=5):
    """Draw the rows of several wide steps, some of weight 0."""
    rng, steps = np.random.default_rng(seed), []
    for size in sizes:
        rows = random_rows(rng, n_features, size, longest)
        labels = rng.integers(0, 2, size) if binary else rng.normal(size=size)
        steps.append([*zip(rows, labels.tolist(), rng.choice([0.0, 1.0, 2.0], size).tolist())])
    return steps


def train(world, steps, rule, threads=1, order=None):
    """Train on wide steps with the package's kernels."""
    optimizer = optimizer_for(rule["optimizer"])
    layout = world.layout(n_slots=optimizer.n_slots)
    tables, records = joined_tables(layout.tables()), fresh_records(world, layout, optimizer, rule, SINGLE)
    rows = pack_rows(*([item[part] for item in itertools.chain(*steps)] for part in range(3)), dtype=SINGLE)
    rows = index_steps(rows, np.cumsum([0, *map(len, steps)]))
    longest, n_fields = int(np.diff(rows.indptr).max()), world.plan.n_field_weights
    works = make_wide_scratch(tables, longest, max(map(len, steps)), n_fields, threads=threads)
    bias = np.array([world.model["bias"], *optimizer.states_of(world.model["bias"], rule["learning_rate"]), 0], SINGLE)
    settings = pack_settings(rule, len(world.model["ranks"]), SINGLE)._replace(damping=SINGLE(DAMPING))
    shared = fresh_fields(world, layout, records, SINGLE)
    fields = make_field_scratch(shared, tables, longest, 1, threads)
    team = ThreadTeam(threads)
    team.probe.alone = False
    order = np.arange(len(steps)) if order is None else np.array(order)

    def step(member):
        training = kernels.Training(tables, records, settings, member, works[member.thread], fields[member.thread])
        return train_steps(rows, order, bias, 0.0, training)

    loss, stopped, trained = team.run(step)
    return records, bias, shared, layout, (loss, stopped, trained)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("binary", [True, False], ids=["clicks", "ratings"])
@pytest.mark.parametrize("kind", KINDS)
def test_wide_steps_follow_their_equations(kind, binary, optimizer):
    family, ranks, levels, n_fields = KINDS[kind]
    world = make_world(family, ranks, levels, seed=3, n_fields=n_fields)
    rule = RULE | SETTINGS | {"kind": "logistic" if binary else "squared", "optimizer": optimizer}
    rule |= {"learning_rate": 0.02 if optimizer == "adam" else 0.2}
    rule |= {"l1": 0.05, "l1_weights": 0.1} if optimizer == "ftrl" else {}
    steps = steps_of(7, len(levels), (9, 70, 1), binary)
    records, bias, shared, layout, result = train(world, steps, rule)
    model = copy.deepcopy(world.model)
    states = naive.fresh_states(model, rule)
    loss = sum(naive.train_wide_step(model, states, step, rule, DAMPING) for step in steps)
    assert result[1:] == (-1, 80)
    np.testing.assert_allclose(result[0], loss, rtol=1e-4)
    np.testing.assert_allclose(bias[0], model["bias"], rtol=1e-3, atol=2e-5)
    weights, factors = layout.unpack(records)
    np.testing.assert_allclose(weights, model["w"], rtol=1e-3, atol=2e-5)
    for block, expected in zip(factors, model["v"]):
        expected = np.array([v for v in expected if v is not None])
        np.testing.assert_allclose(block, expected, rtol=2e-3, atol=5e-5)
    if n_fields:
        np.testing.assert_allclose(shared[0], model["t"], rtol=1e-3, atol=1e-4)


def test_algorithm_1_has_wide_steps_too():
    family, ranks, levels, _ = KINDS["rafm"]
    world, rule = make_world(family, ranks, levels, seed=4), RULE | SETTINGS | {"joint": False, "learning_rate": 0.1}
    steps = steps_of(8, len(levels), (30, 30), binary=False)
    records, _, _, layout, _ = train(world, steps, rule)
    model = copy.deepcopy(world.model)
    for step in steps:
        naive.train_wide_step(model, naive.fresh_states(model, rule), step, rule, DAMPING)
    for block, expected in zip(layout.unpack(records)[1], model["v"]):
        np.testing.assert_allclose(block, [v for v in expected if v is not None], rtol=2e-3, atol=5e-5)


@needs_threads
@pytest.mark.parametrize("kind", ["rafm", "rafm with fields"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_any_number_of_threads_gives_the_same_bytes(kind, optimizer):
    family, ranks, levels, n_fields = KINDS[kind]
    world = make_world(family, ranks, np.repeat(levels, 40), seed=5, n_fields=n_fields)
    rule = RULE | SETTINGS | {"kind": "logistic", "optimizer": optimizer, "learning_rate": 0.01}
    steps = steps_of(9, 40 * len(levels), (500, 300, 500), True, longest=9)
    found = []
    for threads in (1, 2, 3, 4, 8):
        records, bias, shared, _, result = train(world, steps, rule, threads, order=[2, 0, 1, 2, 0])
        found.append((records.tobytes(), bias.tobytes(), None if shared is None else shared.tobytes(), result))
    assert all(other == found[0] for other in found[1:])


@needs_threads
def test_a_loss_that_is_not_finite_stops_all_threads_at_its_step():
    world = make_world("fm", (5,), [1] * 7, seed=6)
    steps = steps_of(10, 7, (100, 100, 100), False)
    row, _, _ = steps[1][50]
    steps[1][50] = (row, float("nan"), 1.0)
    for threads in (1, 3):
        *_, (_, stopped, trained) = train(world, steps, RULE | {"learning_rate": 0.01}, threads)
        assert (stopped, trained) == (1, 100)


def test_the_index_lists_the_nonzeros_of_each_step_by_feature():
    rng = np.random.default_rng(11)
    drawn = random_rows(rng, 5000, 300, 12)
    rows = pack_rows(drawn, dtype=SINGLE)
    rows = rows._replace(indices=np.where(rows.indices > 4990, 3_000_000 + rows.indices, rows.indices).astype(np.int32))
    firsts = np.array([0, 128, 256, 256, 300])
    found = index_steps(rows, firsts)
    expected = []
    for s, (first, stop) in enumerate(itertools.pairwise(firsts)):
        for r in range(first, stop):
            span = slice(rows.indptr[r], rows.indptr[r + 1])
            expected += [(s, i, r - first, x) for i, x in zip(rows.indices[span].tolist(), rows.values[span].tolist())]
    listed = []
    for s in range(4):
        bounds = found.shares[s]
        assert (np.diff(bounds) >= 0).all()
        for q in range(bounds[0], bounds[SHARES]):
            entries = range(found.starts[q], found.starts[q + 1])
            listed += [(s, found.features[q], found.entry_rows[e], found.entry_values[e]) for e in entries]
    assert listed == sorted(expected, key=lambda entry: entry[:3])


def test_shares_of_a_step_cost_about_the_same():
    rows = pack_rows(random_rows(np.random.default_rng(12), 3000, 2000, 10), dtype=SINGLE)
    found = index_steps(rows, np.array([0, 2000]))
    entries = np.diff(found.starts[found.shares[0]]) + 3 * np.diff(found.shares[0])
    assert entries.max() < 1.1 * entries.mean()
