"""Contexts from their history: the optimum by the definition, and what training would have found."""

import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix

import rafm
from rafm.errors import ConfigError
from rafm.recommend.fold_in import FoldIn
from rafm.recommend.partial import PartialEncoder
from rafm.recommend.sides import side_vectors

FILMS = pd.DataFrame({"film": [f"f{k}" for k in range(12)], "genre": [f"g{k % 3}" for k in range(12)]})


def plays(n_rows=300):
    """Users choose films of their genre, mostly."""
    rng = np.random.default_rng(0)
    users, films = rng.integers(0, 20, n_rows), 3 * rng.integers(0, 4, n_rows)
    films = np.where(rng.random(n_rows) < 0.9, films + users % 3, rng.integers(0, 12, n_rows))
    rows = pd.DataFrame({"user": users.astype(str)}).join(FILMS.iloc[films].reset_index(drop=True))
    return rows.drop_duplicates(ignore_index=True)


@pytest.fixture(scope="module")
def model():
    chosen = {"ranks": 4, "n_epochs": 300, "validation_fraction": 0}
    return rafm.RaFMRanker(item_fields=["film", "genre"], loss=rafm.WholeData(5.0), **chosen).fit(plays())


def side_of(model, table):
    """Return contexts or items as rows."""
    return PartialEncoder.of(model.encoder_, table.columns).encode(pa.Table.from_pandas(table, preserve_index=False))


def items_of(user, rows):
    return np.flatnonzero(FILMS["film"].isin(rows["film"][rows["user"] == user]))


def test_the_vector_has_the_smallest_loss_over_all_items(model):
    folding = FoldIn(model.model_, side_of(model, FILMS))
    context, chosen = side_of(model, pd.DataFrame({"user": ["3"]})), np.array([2, 7])
    weights = np.array([2.0, 0.5])
    found = folding.steps(context, [chosen], [weights])[0].astype(float)
    known = side_vectors(model.model_, context, "context") @ side_vectors(model.model_, side_of(model, FILMS), "item").T
    own = model.model_.scores(context)[0]
    options, z = model.model_.options, folding.designs[:, :-1].astype(float)
    a, l2 = options["unseen_weight"], options["l2"]

    def loss(u):
        scores = known[0] + own + z @ u
        seen = (weights * (1 - scores[chosen]) ** 2).sum()
        return seen + a * (scores**2).sum() + l2 * (weights.sum() + a * 12) * u @ u

    steps = 1e-4 * np.eye(found.size)
    slopes = [(loss(found + step) - loss(found - step)) / 2e-4 for step in steps]
    np.testing.assert_allclose(slopes, 0, atol=1e-4)
    assert loss(found) < loss(np.zeros(found.size)) - 0.1


def test_a_user_who_is_folded_in_scores_like_the_one_who_was_trained(model):
    rows = plays()
    for user in ("0", "1", "2"):
        trained = model.recommend(pd.DataFrame({"user": [user]}), FILMS, top=12)
        folded = model.recommend(pd.DataFrame({"user": ["new"]}), FILMS, top=12, history=[items_of(user, rows)])
        scores = dict(zip(trained.items[0], trained.scores[0]))
        left = [item for item in folded.items[0] if item >= 0]
        assert set(left) == set(range(12)) - set(items_of(user, rows))
        expected = [scores[item] for item in left]
        np.testing.assert_allclose(folded.scores[0][: len(left)], expected, atol=5e-3)


def test_a_history_may_be_a_table_a_matrix_or_lists(model):
    new = pd.DataFrame({"user": ["x", "y"]})
    lists = model.recommend(new, FILMS, top=3, history=[[0, 3], []])
    table = pd.DataFrame({"user": ["x", "x"], "film": ["f0", "f3"]})
    matrix = csr_matrix((np.ones(2), [0, 3], [0, 2, 2]), shape=(2, 12))
    for history in (table, matrix):
        found = model.recommend(new, FILMS, top=3, history=history)
        np.testing.assert_array_equal(found.items, lists.items)
        np.testing.assert_array_equal(found.scores, lists.scores)
    assert set(lists.items[0]) <= {6, 9, *range(12)} - {0, 3}
    assert FILMS["genre"][lists.items[0][0]] == "g0"
    heavy = model.recommend(new, FILMS, top=3, history=matrix * 5)
    assert heavy.scores[0, 0] != lists.scores[0, 0]


def test_a_model_of_pairs_has_no_best_vector():
    pairs = rafm.RaFMRanker(item_fields=["film", "genre"], loss="bpr", model="fm", ranks=2, n_epochs=1)
    pairs.set_params(validation_fraction=0).fit(plays())
    with pytest.raises(ConfigError, match="history needs a model that was trained with loss='whole-data'"):
        pairs.recommend(pd.DataFrame({"user": ["x"]}), FILMS, history=[[0]])


def test_a_saved_model_folds_in_the_same(model, tmp_path):
    model.save(tmp_path / "m.rafm")
    new = pd.DataFrame({"user": ["x"]})
    before, after = (one.recommend(new, FILMS, history=[[1, 4]]) for one in (model, rafm.load(tmp_path / "m.rafm")))
    np.testing.assert_array_equal(before.scores, after.scores)


def test_one_context_takes_milliseconds(model):
    folding = FoldIn(model.model_, side_of(model, FILMS))
    context = side_of(model, pd.DataFrame({"user": ["x"]}))
    folding.steps(context, [np.array([1])])
    begun = time.process_time()
    for _ in range(20):
        folding.steps(context, [np.array([1, 4])])
    assert (time.process_time() - begun) / 20 < 0.05
