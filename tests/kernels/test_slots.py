"""Wide steps taken in slots: what is joined from slots is what a whole step computes."""

import itertools

import numpy as np
import pytest
from worlds import RULE, fresh_fields, fresh_records, make_world, pack_rows, pack_settings, random_rows

from rafm.distributed.spec import pull_lengths, push_lengths
from rafm.kernels import tables as kernels
from rafm.kernels.slots import (
    draw_vectors,
    get_parameters,
    join_sums,
    put_parameters,
    step_bias,
    step_features,
    step_field_weights,
    sum_slot,
)
from rafm.kernels.wide import train_steps
from rafm.optimizers import optimizer_for
from rafm.plan.layout import RecordLayout
from rafm.plan.scratch import make_field_scratch, make_wide_scratch
from rafm.plan.steps import index_steps
from rafm.rows.checked import read_only
from rafm.train.steps.team import ThreadTeam
from rafm.train.steps.wide_engine import joined_tables

SINGLE = np.float32
KINDS = {
    "lr": ("lr", (), [0] * 7, 0),
    "difacto": ("difacto", (4, 9), [2, 2, 2, 2, 1, 1, 0], 0),
    "rafm": ("rafm", (3, 8, 33), [3, 3, 2, 2, 1, 1, 0], 0),
    "rafm with fields": ("rafm", (3, 8, 33), [3, 3, 2, 2, 1, 1, 0], 3),
}


def rows_of_step(seed, n_features, size):
    rng = np.random.default_rng(seed)
    rows, labels = random_rows(rng, n_features, size, 5), rng.integers(0, 2, size).tolist()
    return pack_rows(rows, labels, rng.choice([1.0, 2.0], size).tolist(), dtype=SINGLE)


def begin(world, rule, layout):
    optimizer = optimizer_for(rule["optimizer"])
    records = fresh_records(world, layout, optimizer, rule, SINGLE)
    bias = np.array([world.model["bias"], *optimizer.states_of(world.model["bias"], rule["learning_rate"]), 0], SINGLE)
    settings = pack_settings(rule, len(world.model["ranks"]), SINGLE)._replace(damping=SINGLE(20))
    return records, bias, settings, fresh_fields(world, layout, records, SINGLE)


def whole(world, rule, steps):
    """Train by whole steps."""
    layout = world.layout(n_slots=optimizer_for(rule["optimizer"]).n_slots)
    records, bias, settings, shared = begin(world, rule, layout)
    tables = joined_tables(layout.tables())
    for rows in steps:
        size = rows.labels.size
        work = make_wide_scratch(tables, 5, size, world.plan.n_field_weights)[0]
        fields = make_field_scratch(shared, tables, 5, 1, 1)[0]
        training = kernels.Training(tables, records, settings, ThreadTeam(1).alone, work, fields)
        train_steps(index_steps(rows, np.array([0, size])), np.arange(1), bias, 0.0, training)
    return records, bias, shared


def in_slots(world, rule, steps, bounds):
    """Train by slots: copies of the parameters, sums of each slot, and what is joined of them."""
    layout = world.layout(n_slots=optimizer_for(rule["optimizer"]).n_slots)
    records, bias, settings, shared = begin(world, rule, layout)
    tables, own = layout.tables(), RecordLayout(layout.plan, False)
    copies, levels = joined_tables(own.tables()), layout.plan.levels()
    numbers = read_only(np.arange(levels.size, dtype=np.int32))
    for age, rows in enumerate(steps, start=1):
        given = np.empty(pull_lengths(tables.widths)[levels].sum(), SINGLE)
        get_parameters(numbers, tables, records, given)
        local = own.pack(np.zeros(levels.size, SINGLE), [])
        fresh_fields(world, own, local, SINGLE)
        put_parameters(numbers, read_only(given), copies, local)
        indexed = index_steps(rows, np.array(bounds))
        work = make_wide_scratch(copies, 5, rows.labels.size, world.plan.n_field_weights)[0]
        fields = make_field_scratch(shared, copies, 5, 1, 1)[0]
        shared_code = settings._replace(optimizer=kernels.DefaultOptimizer())  # sums need none
        summing = kernels.Training(copies, local, shared_code, ThreadTeam(1).alone, work, fields)
        lengths = push_lengths(tables.widths)[levels[indexed.features]]
        joined, ends = np.empty(lengths.sum(), SINGLE), np.zeros(2, np.int64)
        where, touched = np.full(levels.size, -1), np.empty(levels.size, np.int64)
        totals, gradient = [], 0
        for s, (first, stop) in enumerate(itertools.pairwise([*indexed.shares[:, 0].tolist(), lengths.size])):
            places = np.zeros(lengths.size, np.int64)
            places[first:stop] = np.cumsum(lengths[first:stop]) - lengths[first:stop]
            out = np.empty(lengths[first:stop].sum(), SINGLE)
            chunks = sum_slot(indexed, s, places, out, bias.copy(), summing)
            totals.append(work.totals[:chunks].copy())
            gradient = gradient + fields.total.copy() if shared is not None else 0
            pushed = read_only(indexed.features[first:stop]), read_only(out)
            join_sums(*pushed, tables, where, touched, joined, ends)
        step_bias(bias, np.concatenate(totals), settings)
        widest = np.empty(max(tables.widths, default=0), SINGLE)
        step_features(touched[: ends[0]], where, joined, SINGLE(age), widest, tables, records, settings)
        assert (where == -1).all()
        if shared is not None:
            fields.weights[:], fields.states[:], fields.total[:] = shared[0], shared[1], gradient
            step_field_weights(fields)
            shared[0], shared[1] = fields.weights, fields.states
    return records, bias, shared


@pytest.mark.parametrize("optimizer", ["adagrad", "ftrl", "adam"])
@pytest.mark.parametrize("kind", KINDS)
def test_slots_add_up_to_a_whole_step(kind, optimizer):
    family, ranks, levels, n_fields = KINDS[kind]
    world = make_world(family, ranks, levels, seed=3, n_fields=n_fields)
    rule = RULE | {"kind": "logistic", "optimizer": optimizer, "l2": 0.03, "learning_rate": 0.05}
    rule |= {"l1": 0.05, "l1_weights": 0.1} if optimizer == "ftrl" else {}
    steps = [rows_of_step(seed, len(levels), 40) for seed in (1, 2)]
    wanted = whole(world, rule, steps)
    for bounds in ([0, 40], [0, 7, 19, 40]):
        found = in_slots(world, rule, steps, bounds)
        for one, other in zip(found[: 3 if n_fields else 2], wanted):
            other = other[:2] if other.ndim == 2 else other  # field weights and their states, without sums
            np.testing.assert_allclose(one[: len(other)], other, rtol=2e-5, atol=2e-6)  # rounding of sums


def test_initial_vectors_depend_on_the_id_the_block_and_the_seed_alone():
    ids = np.array([3, 2**40, 5, 3], np.int64)
    drawn = {}
    for block, seed in [(0, 0), (1, 0), (0, 1)]:
        drawn[block, seed] = np.empty((4, 6), SINGLE)
        draw_vectors(read_only(ids), block, seed, 0.5, drawn[block, seed])
    first = drawn[0, 0]
    assert (first[0] == first[3]).all()
    assert len({vectors[k].tobytes() for vectors in drawn.values() for k in range(3)}) == 9
    other = np.empty((1, 6), SINGLE)
    draw_vectors(read_only(ids[1:2]), 0, 0, 0.5, other)
    assert (other[0] == first[1]).all()


def test_initial_vectors_are_normally_distributed():
    drawn = np.empty((2000, 7), SINGLE)
    draw_vectors(read_only(np.arange(2000)), 0, 5, 0.03, drawn)
    numbers = drawn.ravel() / 0.03
    assert abs(numbers.mean()) < 4 / numbers.size**0.5
    assert abs(numbers.var() - 1) < 4 * (2 / numbers.size) ** 0.5
    assert abs((np.abs(numbers) < 1).mean() - 0.6827) < 0.012
    assert np.abs(np.corrcoef(drawn.T) - np.eye(7)).max() < 0.1
