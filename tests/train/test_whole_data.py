"""Whole-data training: its loss and its optimum by the definition, sweeps, threads, kills."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies
from naive import cross_score, whole_data_loss

from rafm.errors import ConfigError, DataValueError
from rafm.losses.whole_data import WholeData
from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.rows.stats import count_rows
from rafm.train import train
from rafm.train.checkpoint import Checkpoint
from rafm.train.decision import Facts, decide
from rafm.train.dispatch import run_recipe
from rafm.train.events import CheckpointWritten, Chosen, EpochFinished, Finished
from rafm.train.recipe import Recipe
from rafm.train.resources import Resources
from rafm.train.steps.job import Job
from rafm.train.whole_data import run as runs
from rafm.train.whole_data.pairs import CONTEXT, ITEM

NAMES, BOUNDS = ("user", "age", "tags", "film", "genres"), [0, 6, 9, 13, 18, 21]
FIELDS = Fields.of_ranges(NAMES, BOUNDS)


def world(seed=0, n_rows=40):
    """Return rows of users with an age and some tags of other values than 1, and films with up to two genres."""
    rng = np.random.default_rng(seed)
    ages, tags = (
        rng.integers(6, 9, 6),
        [rng.choice(np.arange(9, 13), rng.integers(0, 3), replace=False) for _ in range(6)],
    )
    genres = [rng.choice(np.arange(18, 21), rng.integers(0, 3), replace=False) for _ in range(5)]
    of_tags, rows = rng.uniform(0.5, 2, 21), []
    for _ in range(n_rows):
        user, film = rng.integers(0, 6), rng.integers(0, 5)
        ids = [user, ages[user], *tags[user], 13 + film, *genres[film]]
        rows.append([(i, of_tags[i] if 9 <= i < 13 else 1.0) for i in ids])
    indptr = np.cumsum([0, *map(len, rows)])
    indices, values = (np.concatenate([[entry[k] for entry in row] for row in rows]) for k in (0, 1))
    weights = rng.uniform(0.5, 2, n_rows).astype(np.float32)
    batch = Batch(indptr, indices.astype(np.int32), values.astype(np.float32), 21, np.ones(n_rows, np.float32), weights)
    return check_batch(batch)


def options(**chosen):
    usual = {"ranks": 3, "n_epochs": 4, "item_fields": ("film", "genres"), "l2": 0.01, "loss": WholeData(unseen=2.0)}
    return resolve(task="ranking", **{**usual, **chosen})


def make_run(rows, **chosen):
    """Return a run, before its first sweep."""
    recipe, source = Recipe.of(options(**chosen)), InMemory(rows, FIELDS)
    job = Job(source, None, count_rows([rows]), 1.0, Resources(), None)
    return runs.make_run(job, job.features(recipe), recipe)


def definition(run):
    """Return the arguments of the naive loss but the model, and the model."""
    engine, pairs = run.engine, run.engine.pairs

    def rows_of(table):
        return [
            (table.indices[a:b], table.values[a:b].astype(float)) for a, b in itertools.pairwise(table.indptr.tolist())
        ]

    positives = {(int(c), int(j)): float(w) for c, j, w in zip(pairs.contexts, pairs.items, pairs.weights)}
    world = [rows_of(table) for table in pairs.tables]
    return (*world, positives, engine.unseen, engine.penalties.astype(float)), naive_model(engine.numbers)


def naive_model(numbers):
    return {"w": numbers[:, 0].astype(float), "v": numbers[:, 1:].astype(float)}


def sweep(run):
    for side in (CONTEXT, ITEM):
        run.engine.solve(side)


SHAPES = {
    "fm": {},
    "difacto": {"ranks": (2, 5), "levels": np.tile([1, 2, 2], 7)},
    "linear features": {"ranks": (2, 4), "levels": np.tile([0, 1, 2], 7)},
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=[*SHAPES])
def test_the_loss_is_that_of_all_pairs_one_by_one(shape):
    run = make_run(world(), **shape)
    for _ in range(3):
        known, model = definition(run)
        assert run.engine.total_loss() == pytest.approx(whole_data_loss(model, *known), rel=1e-5)
        sweep(run)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=[*SHAPES])
def test_no_parameter_can_be_improved_after_many_sweeps(shape):
    run = make_run(world(), **shape)
    for _ in range(400):
        sweep(run)
    known, _ = definition(run)
    numbers, slopes = run.engine.numbers.astype(float), []
    widths = run.engine.widths[run.engine.plan.levels()]
    for i, f in itertools.product(range(len(numbers)), range(numbers.shape[1])):
        if f < widths[i]:
            moved = [numbers.copy(), numbers.copy()]
            moved[0][i, f] += 1e-4
            moved[1][i, f] -= 1e-4
            up, down = (whole_data_loss(naive_model(one), *known) for one in moved)
            slopes.append((up - down) / 2e-4)
        else:
            assert numbers[i, f] == 0
    assert np.abs(slopes).max() < 2e-3 * run.engine.total_loss()
    assert np.abs(numbers[:, 1:]).max() > 0.1  # vectors are needed, so this is no trivial optimum


@given(strategies.integers(0, 1000), strategies.floats(0.1, 30), strategies.floats(1e-4, 1))
@settings(max_examples=15, deadline=None)
def test_no_sweep_raises_the_loss(seed, unseen, l2):
    run = make_run(world(seed), loss=WholeData(unseen), l2=l2)
    losses = [run.engine.total_loss()]
    for _ in range(6):
        for side in (CONTEXT, ITEM):
            run.engine.solve(side)
            losses.append(run.engine.total_loss())
    assert all(after <= before * (1 + 1e-5) for before, after in itertools.pairwise(losses))
    assert losses[-1] < losses[0]


def test_errors_follow_the_parameters():
    run = make_run(world())
    sweep(run)
    kept = run.engine.positives.errors.copy()
    run.engine.renew()
    run.engine.set_errors()
    np.testing.assert_allclose(run.engine.positives.errors, kept, atol=1e-5)


def test_a_pair_that_occurs_often_is_one_pair_with_the_sum_of_the_weights():
    rows = world()
    twice = check_batch(
        Batch(
            np.concatenate([rows.indptr, rows.indptr[1:] + rows.indptr[-1]]),
            np.tile(rows.indices, 2),
            np.tile(rows.values, 2),
            21,
            np.tile(rows.labels, 2),
            np.tile(rows.weights / 2, 2),
        )
    )
    once = make_run(rows).engine.pairs
    found = make_run(twice).engine.pairs
    np.testing.assert_array_equal(found.items, once.items)
    assert found.weights.sum() / found.weights[0] == pytest.approx(once.weights.sum() / once.weights[0], rel=1e-6)


def test_features_that_share_a_row_are_solved_one_after_the_other():
    run = make_run(world())
    for side in (CONTEXT, ITEM):
        table, groups = run.engine.pairs.tables[side], run.engine.groups[side]
        colours = {i: number for number, group in enumerate(groups) for chunk in group.chunks for i in chunk.tolist()}
        assert sorted(colours) == sorted(set(table.indices.tolist()))
        for a, b in itertools.pairwise(table.indptr.tolist()):
            of_row = [colours[i] for i in table.indices[a:b].tolist()]
            assert len(set(of_row)) == len(of_row)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=[*SHAPES])
def test_the_model_scores_a_row_by_the_pairs_across_its_sides(shape):
    rows = world()
    run = make_run(rows, **shape)
    *_, last = run_recipe(InMemory(rows, FIELDS), options(n_epochs=3, **shape))
    for _ in range(3):
        sweep(run)
    (contexts, items, *_), model = definition(run)
    pairs = {
        (tuple(contexts[c][0]), tuple(items[j][0])): (c, j) for c in range(len(contexts)) for j in range(len(items))
    }
    assert last.model.parameters.fields.tolist() == [1, 1, 1, -1, -1]
    expected = cross_scores(run, rows, model, contexts, items, pairs)
    np.testing.assert_allclose(last.model.scores(rows), expected, atol=1e-5)


def cross_scores(run, rows, model, contexts, items, pairs):
    """Return the naive score of each row, whose sides are found by their features."""
    number = dict(zip(run.features.numbering.ids.tolist(), range(21)))
    is_item = run.engine.field_weights[run.features.fields.numbers] < 0
    found = []
    for a, b in itertools.pairwise(rows.indptr.tolist()):
        own = sorted(number[i] for i in rows.indices[a:b].tolist())
        c, j = pairs[tuple(i for i in own if not is_item[i]), tuple(i for i in own if is_item[i])]
        found.append(cross_score(model, contexts[c], items[j]))
    return found


def trained(rows, resources=None, **chosen):
    *_, last = run_recipe(InMemory(rows, FIELDS), options(**chosen), None, resources)
    assert isinstance(last, Finished)
    return {name: array.tobytes() for name, array in last.model.parameters.arrays().items()}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=[*SHAPES])
def test_any_number_of_threads_trains_the_same_bytes(shape, monkeypatch):
    monkeypatch.setattr("rafm.train.whole_data.engine.CHUNK_FEATURES", 2)
    monkeypatch.setattr("rafm.train.whole_data.engine.BLOCK_ROWS", 3)
    rows = world(n_rows=60)
    assert trained(rows, **shape) == trained(rows, threads=2, **shape) == trained(rows, threads=4, **shape)


@pytest.mark.parametrize("stop", range(1, 9))
def test_a_killed_run_resumes_to_the_same_bytes(stop, tmp_path):
    rows, states = world(), 0
    with Checkpoint(tmp_path / "own", 0) as checkpoint:
        for event in run_recipe(InMemory(rows, FIELDS), options(), None, Resources(checkpoint=checkpoint)):
            states += isinstance(event, CheckpointWritten)
            if states == stop:
                break
    assert states == stop
    with Checkpoint(tmp_path / "own", 0) as checkpoint:
        assert trained(rows, Resources(checkpoint=checkpoint)) == trained(rows)


def test_held_out_pairs_choose_the_sweep():
    rows, valid = world(n_rows=25), world(seed=0, n_rows=60)
    events = [*run_recipe(InMemory(rows, FIELDS), options(), InMemory(valid, FIELDS))]
    metrics = [event.metrics for event in events if isinstance(event, EpochFinished)]
    assert all(0 <= one["ndcg"] <= 1 and 0 <= one["recall"] <= 1 for one in metrics)
    best = max(one["ndcg"] for one in metrics)
    assert events[-1].best_value == best


def test_all_sweeps_count_if_no_held_out_pair_is_new():
    *events, last = run_recipe(InMemory(world(), FIELDS), options(), InMemory(world(), FIELDS))
    assert [event.metrics for event in events if isinstance(event, EpochFinished)] == [{}] * 4
    assert last.model.best_epoch == 4


def test_held_out_pairs_choose_the_rank_unless_it_is_given():
    def tried(is_judged=True, **given):
        asked, facts = resolve(task="ranking", **items, **given), Facts(count_rows([world()]), is_judged=is_judged)
        return [recipe.ranks for recipe in decide(facts, asked, Resources()).recipes]

    items = {"item_fields": ("film", "genres")}
    assert tried() == [(128,), (64,), (256,)]
    assert tried(seed=1, l2=0.1) == [(128,), (64,), (256,)]
    assert tried(ranks=8) == [(8,)]
    assert tried(is_judged=False) == [(128,)]
    events = [*train(InMemory(world(n_rows=60), FIELDS), resolve(task="ranking", n_epochs=2, **items))]
    (chosen,) = (event for event in events if isinstance(event, Chosen))
    assert [*chosen.metrics] == ["fm of rank 128", "fm of rank 64", "fm of rank 256"]
    assert events[-1].model.plan.ranks == chosen.recipe.ranks


def test_options_that_have_no_effect_are_refused():
    for chosen in ({"learning_rate": 0.1}, {"optimizer": "adagrad"}, {"field_weights": "on"}, {"model": "rafm"}):
        with pytest.raises(ConfigError):
            options(**chosen)
    with pytest.raises(ConfigError, match="unseen must be above 0"):
        WholeData(0.0)
    assert options(ranks=(2, 5)).model == "difacto"
    assert options(ranks=None).ranks == (128,)


def test_a_single_item_cannot_be_ranked():
    rows = world()
    one = check_batch(replace_items(rows))
    with pytest.raises(DataValueError, match="two different items"):
        make_run(one)


def replace_items(rows):
    """Return the first row alone."""
    return Batch(
        rows.indptr[:2], rows.indices[: rows.indptr[1]], rows.values[: rows.indptr[1]], 21, rows.labels[:1], None
    )
