"""A cut model is the old one with shorter vectors; it keeps its budget, and a level of a RaFM keeps its scores."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from drawing import examples
from fitted import long_tail, make, mixed_table, scores_of, two_fields
from hypothesis import given
from hypothesis import strategies as st
from worlds import planted

from rafm import load
from rafm.checks import effective
from rafm.compress.budget import Budget, cut_within
from rafm.compress.cut import Cutter
from rafm.compress.levels import LevelCutter
from rafm.compress.rotation import Sides, balancing_map
from rafm.errors import ConfigError
from rafm.model.file import Saved, file_bytes, save
from rafm.options import resolve
from rafm.train.dispatch import train_model


@pytest.fixture(scope="module")
def rows():
    return planted(n_rows=900)


@pytest.fixture(scope="module")
def models(rows):
    def trained(**chosen):
        return train_model(rows[0], resolve(**effective({"task": "binary", "n_epochs": 3, "l2": 0.001, **chosen})))

    return {
        "fm": trained(model="fm", ranks=10),
        "difacto": trained(model="difacto", ranks=(3, 10), rank_scale=0.2),
        "rafm": trained(ranks=(3, 5, 10), rank_scale=0.2),
        "lr": trained(model="lr"),
    }


@pytest.mark.parametrize("family", ["fm", "difacto"])
def test_a_model_cut_to_its_full_length_scores_as_before(family, models, rows):
    """Only rotated: the scores differ by rounding alone."""
    cutter = Cutter(models[family])
    lengths = np.array([0, *models[family].plan.ranks])[models[family].plan.levels()]
    found = cutter.cut(lengths)
    assert found.n_parameters == models[family].n_parameters
    np.testing.assert_allclose(found.scores(rows[1]), models[family].scores(rows[1]), atol=2e-6)


def test_a_cut_model_is_the_rotated_one_without_the_coordinates_behind_each_length(models, rows):
    model, rng = models["fm"], np.random.default_rng(0)
    cutter = Cutter(model)
    lengths = rng.choice([0, 2, 4, 8, 10], model.plan.n_features)
    kept = cutter.vectors.astype(float) * (np.arange(10) < lengths[:, None])
    found = cutter.cut(lengths).scores(rows[1])
    places = np.argsort(model.numbering.ids)[rows[1].indices.reshape(-1, 2)]  # all 50 ids occur, two in each row
    expected = model.parameters.bias[0] + model.parameters.weights[places].sum(axis=1)
    expected = expected + (kept[places[:, 0]] * kept[places[:, 1]]).sum(axis=1)
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_vectors_are_cut_along_principal_axes_the_largest_first(models):
    """In these coordinates sum_i importance_i v_i v_i^T is diagonal."""
    importance = np.linspace(1, 5, 50)
    vectors = Cutter(models["fm"], importance).vectors.astype(float)
    moments = (vectors.T * importance) @ vectors
    along = np.diag(moments)
    assert np.abs(moments - np.diag(along)).max() < 1e-5 * along.max()
    assert (np.diff(along) <= 0).all()


def test_coordinates_of_two_sides_leave_their_products_as_they_are(models, rows):
    """Rows have one user, of the first 30 ids, and one item: all products are of both sides."""
    model, draws = models["fm"], np.random.default_rng(0).normal(size=(2, 10, 10))
    change = balancing_map(*(part @ part.T for part in draws))
    cutter = Cutter(model, sides=Sides(model.numbering.ids < 30, change))
    assert np.abs(change.T @ change - np.eye(10)).max() > 0.1  # no rotation
    np.testing.assert_allclose(cutter.cut(np.full(50, 10)).scores(rows[1]), model.scores(rows[1]), atol=1e-4)


def test_what_some_features_have_to_do_without_goes_to_others(models):
    cutter, some = Cutter(models["fm"]), models["fm"].numbering.ids >= 45
    usual, lengths = cutter.choose(200), cutter.without(some).choose(200)
    assert usual[some].any()
    assert not lengths[some].any()
    assert lengths[~some].sum() > usual[~some].sum()
    assert (cutter.choose(200) == usual).all()


def test_optimiser_states_follow_their_features(rows):
    options = replace(resolve(task="binary", model="fm", ranks=10, n_epochs=1), keep_state=True)
    model = train_model(rows[0], options)
    found = Cutter(model).cut(np.random.default_rng(0).choice([0, 2, 4, 10], model.plan.n_features))
    ids = model.numbering.ids.tolist()
    order = [ids.index(number) for number in found.numbering.ids]
    assert order != sorted(order)
    before, after = model.parameters.states, found.parameters.states
    assert np.array_equal(after.weights, before.weights[order])
    assert np.array_equal(after.value_scales, before.value_scales[order])
    for block in after.factors:
        assert np.array_equal(block, before.factors[0][order[: len(block)]])


def test_half_of_a_model_loses_less_when_cut_by_what_it_learned_than_by_rank(models, rows):
    """Against the first half of the coordinates as they were trained."""
    model = models["fm"]
    small = cut_within(Cutter(model), Budget(1 + 50 + 5 * 50))
    cutter = Cutter(model)
    cutter.vectors = model.parameters.factors[0].copy()  # not rotated
    crude = cutter.cut(np.full(50, 5))
    errors = [np.square(one.scores(rows[1]) - model.scores(rows[1])).mean() for one in (small, crude)]
    assert errors[0] < errors[1] / 2


@examples(0.25)
@given(st.sampled_from(["fm", "difacto"]), st.integers(51, 600))
def test_the_number_of_parameters_is_met(models, family, limit):
    found = cut_within(Cutter(models[family]), Budget(max_parameters=limit))
    assert found.n_parameters <= limit
    assert found.n_parameters > min(limit, models[family].n_parameters) - 12  # one step of one vector, or all of it


@examples(0.1)
@given(family=st.sampled_from(["fm", "difacto"]), more=st.integers(0, 2500))
def test_the_size_of_the_file_is_met(models, family, more, tmp_path_factory):
    least = file_bytes(Saved(Cutter(models[family]).cut(np.zeros(50, np.int64))))
    found = Saved(cut_within(Cutter(models[family]), Budget(max_bytes=least + more)))
    path = tmp_path_factory.mktemp("cut") / "small.rafm"
    assert save(path, found) == path.stat().st_size == file_bytes(found) <= least + more


def test_a_budget_below_the_weights_names_the_least(models):
    with pytest.raises(
        ConfigError,
        match="max_parameters must be at least 51, the smallest size that this model can be cut to, found 50",
    ):
        cut_within(Cutter(models["fm"]), Budget(50))
    with pytest.raises(ConfigError, match="max_bytes must be at least"):
        cut_within(Cutter(models["fm"]), Budget(max_bytes=10))


def test_without_vectors_a_linear_model_is_left(models, rows, tmp_path):
    found = cut_within(Cutter(models["fm"]), Budget(51))
    assert (found.plan.family, found.n_parameters) == ("lr", 51)
    save(tmp_path / "m.rafm", Saved(found))
    assert load(tmp_path / "m.rafm").model_.scores(rows[1]).shape == (300,)


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_level_of_a_rafm_is_a_model_with_its_scores(level, tmp_path):
    X, y = long_tail()
    model = make(rank_scale=0.1).fit(X, y)
    found = model.compress(level=level)
    assert (
        found.n_parameters_
        == 1
        + sum(r * (model.levels_ >= k).sum() for k, r in ((0, 0), (1, 2), (2, 5), (3, 12)) if k <= level)
        + (model.levels_ > 0).sum()
    )
    assert (found.model, found.ranks) == ("rafm", (2, 5, 12)[:level])
    np.testing.assert_array_equal(found.decision_function(X), model.decision_function(X, level=level))
    found.save(tmp_path / "m.rafm")
    np.testing.assert_array_equal(load(tmp_path / "m.rafm").decision_function(X), found.decision_function(X))
    assert load(tmp_path / "m.rafm").partial_fit(X, y).n_parameters_ >= found.n_parameters_


def test_a_level_keeps_its_penalties_and_thresholds():
    from rafm import Thresholds

    X, y = long_tail()
    found = make(levels=Thresholds((5, 50)), l2=[0.1, 0.2, 0.3]).fit(X, y).compress(level=2)
    assert found.model_.options["l2"] == [0.1, 0.2]
    assert found.model_.options["thresholds"] == "5"


@pytest.mark.parametrize("level", [0, 4, 1.5, "2"])
def test_a_level_that_is_not_there_is_named(level, models):
    X, y = long_tail()
    with pytest.raises(ConfigError, match="level must be between 1 and 3"):
        make().fit(X, y).compress(level=level)


def test_a_compressed_estimator_of_a_table_keeps_its_columns_and_its_size(tmp_path):
    table, y = mixed_table(), np.arange(400) % 2
    model = make(model="fm", ranks=8).fit(table, y)
    path = tmp_path / "m.rafm"
    model.save(path)
    limit = path.stat().st_size - 100
    small = model.compress(max_bytes=limit)
    small.save(path)
    assert path.stat().st_size <= limit
    np.testing.assert_array_equal(scores_of(load(path), table), scores_of(small, table))
    assert model.n_parameters_ > small.n_parameters_


def test_what_cannot_be_cut_says_what_can():
    X, y = long_tail()
    with pytest.raises(ConfigError, match="set bits, a size"):
        make().fit(X, y).compress()
    with pytest.raises(ConfigError, match="set bits, a size"):
        make().fit(X, y).compress(max_parameters=300, level=1)
    with pytest.raises(ConfigError, match="max_bytes must be a whole number"):
        make().fit(X, y).compress(max_bytes=-1)
    assert make(model="lr").fit(X, y).compress(max_parameters=1000).n_parameters_ > 0
    X, y = two_fields()[0]
    with pytest.raises(ConfigError, match="model 'mrma' cannot be compressed: each pair"):
        make(model="mrma").fit(X, y).compress(max_parameters=300)


# Levels of a RaFM


def test_a_rafm_whose_vectors_are_only_rotated_scores_as_before(models, rows):
    found = LevelCutter(models["rafm"]).cut((3, 5, 10))
    np.testing.assert_allclose(found.scores(rows[1]), models["rafm"].scores(rows[1]), atol=2e-6)


@examples(0.25)
@given(limit=st.integers(101, 800))
def test_a_rafm_keeps_its_budget_and_ranks_that_ascend(models, limit):
    found = cut_within(LevelCutter(models["rafm"]), Budget(limit))
    assert found.n_parameters <= limit
    assert list(found.plan.ranks) == sorted(set(found.plan.ranks))
    assert all(rank <= top for rank, top in zip(found.plan.ranks, (3, 5, 10)))


@given(budget=st.integers(150, 700))
def test_no_other_ranks_of_all_levels_within_the_size_lose_less(models, budget):
    cutter = LevelCutter(models["rafm"])
    found = cutter.choose(budget)
    if len(found) < 3:
        return
    sizes = [len(block) for block in cutter.blocks]
    lost, size = price_of(cutter, sizes, found)
    for others in itertools.product(*cutter.choices):
        other_loss, other_size = price_of(cutter, sizes, others)
        if others == tuple(sorted(set(others))) and other_size <= size:
            assert lost <= other_loss + 1e-9


def price_of(cutter, sizes, ranks):
    losses = [cutter.losses[p][cutter.choices[p].index(rank)] for p, rank in enumerate(ranks)]
    return sum(losses), sum(rank * n for rank, n in zip(ranks, sizes))


def test_a_rafm_cut_to_half_loads(tmp_path):
    X, y = long_tail()
    model = make(rank_scale=0.1).fit(X, y)
    small = model.compress(max_parameters=model.n_parameters_ // 2)
    assert small.model == "rafm"
    assert small.n_parameters_ <= model.n_parameters_ // 2
    small.save(tmp_path / "m.rafm")
    np.testing.assert_array_equal(load(tmp_path / "m.rafm").decision_function(X), small.decision_function(X))


def test_a_rafm_loses_less_by_its_axes_than_by_the_coordinates_it_was_trained_in(models, rows):
    model, crude = models["rafm"], LevelCutter(models["rafm"])
    crude.blocks = model.parameters.factors
    cut = [cutter.cut((1, 2, 3)).scores(rows[1]) for cutter in (LevelCutter(model), crude)]
    errors = [np.square(scores - model.scores(rows[1])).mean() for scores in cut]
    assert errors[0] < errors[1]


def test_penalties_of_a_cut_difacto_are_those_of_the_blocks_they_were_cut_from(rows):
    options = resolve(task="binary", model="difacto", ranks=(3, 10), rank_scale=0.2, n_epochs=1, l2=[0.1, 0.2])
    found = cut_within(Cutter(train_model(rows[0], options)), Budget(400))
    assert found.options["l2"] == [0.1 if rank <= 3 else 0.2 for rank in found.plan.ranks]
