"""A trained model scores rows of ids by the definition, forgives unknown ones, and works in many threads."""

from concurrent.futures import ThreadPoolExecutor

import naive
import numpy as np
import pytest
from hypothesis import given
from models import N_INPUTS, by_id, model_of
from worlds import FAMILIES, changed_rows, make_world, random_rows, worlds

from rafm.errors import ConfigError, DataValueError
from rafm.losses import loss_named

LOG_LOSS, SQUARED_LOSS = loss_named("log"), loss_named("squared")


def assert_scores(found, world, rows):
    assert found.dtype == np.float32
    for score, row in zip(found, rows):
        size = 1 + naive.score_size(world.model, row)  # eight roundings of the largest sums
        assert abs(score - naive.score(world.model, row)) <= 8 * np.finfo(np.float32).eps * size


@given(world=worlds(families=(*FAMILIES, "mrma")))
def test_scores_of_ids_match_the_definition(world):
    model = model_of(world)
    rows = random_rows(np.random.default_rng(2), world.plan.n_features, 6, 6)
    assert_scores(model.scores(by_id(model, rows)), world, rows)


@pytest.mark.parametrize("family", [*FAMILIES, "mrma"])
def test_unknown_features_score_nothing(family):
    """Ids never seen in training, and ids beyond the columns of training."""
    ranks = {"lr": (), "fm": (5,)}.get(family, (3, 8))
    world = make_world(family, ranks, [len(ranks)] * 6)
    model = model_of(world)
    unseen = np.setdiff1d(np.arange(N_INPUTS), model.numbering.ids)[:3]
    rows = random_rows(np.random.default_rng(3), 6, 8, 6)
    plain = model.scores(by_id(model, rows))
    assert_scores(plain, world, rows)
    np.testing.assert_array_equal(model.scores(by_id(model, rows, extra=[*unseen, N_INPUTS, 10**6 - 1])), plain)


@given(world=worlds(families=("rafm",)))
def test_scores_of_a_level_match_the_definition(world):
    model = model_of(world)
    rows = random_rows(np.random.default_rng(4), world.plan.n_features, 4, 6)
    for level in range(1, world.plan.n_levels + 1):
        for found, row in zip(model.scores(by_id(model, rows), level), rows):
            size = 1 + naive.score_size(world.model, row)
            assert abs(found - naive.rafm_score(world.model, row, 1, level)) <= 8 * np.finfo(np.float32).eps * size


@pytest.mark.parametrize("level", [0, 3, -1])
def test_a_level_outside_the_ranks_is_refused(level):
    model = model_of(make_world("rafm", (3, 5), [2, 1]))
    with pytest.raises(ConfigError, match="between 1 and 2") as caught:
        model.scores(by_id(model, []), level)
    assert caught.value.key == "level"


@pytest.mark.parametrize("family", ["fm", "difacto", "mrma", "lr"])
def test_only_rafm_has_scores_of_levels(family):
    model = model_of(make_world(family, () if family == "lr" else (3,), [family != "lr"] * 2))
    with pytest.raises(ConfigError, match="needs model='rafm'"):
        model.scores(by_id(model, []), 1)


def test_predictions_are_probabilities_or_values():
    world = make_world("fm", (3,), [1] * 5)
    rows = random_rows(np.random.default_rng(5), 5, 4, 5)
    binary, values = model_of(world, "log"), model_of(world)
    batch = by_id(binary, rows)
    np.testing.assert_allclose(binary.predict(batch), naive.sigmoid(binary.scores(batch).astype(float)), rtol=1e-12)
    np.testing.assert_array_equal(values.predict(batch), values.scores(batch))
    assert values.predict(batch).dtype == float


def test_no_rows_have_no_scores():
    model = model_of(make_world("rafm", (3, 5), [2, 1]))
    assert model.predict(by_id(model, [])).shape == (0,)


def test_levels_and_counts_are_told_by_id():
    model = model_of(make_world("rafm", (3, 5), [2, 2, 1, 0]))
    levels, counts = model.levels(), model.feature_counts()
    assert levels[model.numbering.ids].tolist() == [2, 2, 1, 0]
    assert counts[model.numbering.ids].tolist() == [4, 3, 2, 1]
    assert (levels.size, levels.sum(), counts.sum()) == (N_INPUTS, 5, 10)


def test_a_model_holds_no_more_numbers_than_its_plan_counts():
    for family in (*FAMILIES, "mrma"):
        ranks = {"lr": (), "fm": (5,)}.get(family, (3, 8))
        levels = [len(ranks)] * 6 if family in ("fm", "lr", "mrma") else [2, 2, 1, 1, 1, 0]
        model = model_of(make_world(family, ranks, levels))
        held = model.parameters
        arrays = [held.bias, held.weights, *held.factors, *([] if held.mixture is None else [held.mixture])]
        assert sum(array.size for array in arrays) == model.n_parameters


@pytest.mark.parametrize("family", ["rafm", "mrma"])
def test_rows_are_shared_out_to_threads_without_changing_a_score(family, monkeypatch):
    monkeypatch.setattr("rafm.model.model.CHUNK_ROWS", 7)
    world = make_world(family, (3, 8), [2] * 9)
    model, rows = model_of(world), random_rows(np.random.default_rng(0), 9, 100, 9)
    batch = by_id(model, rows)
    np.testing.assert_array_equal(model.scores(batch, threads=3), model.scores(batch))


def test_a_score_beyond_float32_is_named_by_its_row_whoever_finds_it(monkeypatch):
    monkeypatch.setattr("rafm.model.model.CHUNK_ROWS", 7)
    world = make_world("rafm", (3, 8), [2] * 9)
    model, rows = model_of(world), random_rows(np.random.default_rng(0), 9, 100, 9)
    batch = by_id(model, rows)
    row = int(np.flatnonzero(np.diff(batch.indptr) > 2)[-1])
    values = batch.values.copy()
    values[batch.indptr[row] : batch.indptr[row + 1]] = 1e30
    batch = changed_rows(batch, values=values)
    for threads in (1, 3):
        with pytest.raises(DataValueError, match=rf"^row {row + 1} .*: the score is out of float32 range"):
            model.scores(batch, threads=threads)


@pytest.mark.parametrize("family", ["rafm", "mrma"])
def test_many_threads_score_the_same_bytes(family):
    """Each call has its own scratch, and the kernels do not hold the GIL."""
    world = make_world(family, (3, 8, 33), [3] * 9)
    model = model_of(world)
    batches = [by_id(model, random_rows(np.random.default_rng(seed), 9, 200, 9)) for seed in range(4)]
    alone = [model.scores(batch).tobytes() for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda turn: model.scores(batches[turn % 4]).tobytes(), range(40)))
    assert together == alone * 10
