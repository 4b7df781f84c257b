"""Recommendations equal brute force: every pair scored by the model, sorted by score and then by row number."""

import numpy as np
import pandas as pd
import pytest
from fitted import make
from hypothesis import given
from hypothesis import strategies as st
from models import by_id, model_of
from scipy import sparse
from worlds import FAMILIES, make_world

from rafm.errors import ConfigError
from rafm.recommend.sides import own_scores, side_vectors
from rafm.recommend.top import Catalogue

RANKS = {"lr": (), "fm": (5,)}


def two_sides(family, seed=0, n_contexts=7, n_items=12, per_row=3):
    """Return a model, and contexts and items of its even and odd features; some items are equal."""
    rng, ranks = np.random.default_rng(seed), RANKS.get(family, (2, 5))
    levels = [2, 2, 2, 2, 1, 1, 1, 1, 0, 0] if len(ranks) == 2 and family != "mrma" else [len(ranks)] * 10
    model = model_of(make_world(family, ranks, levels, seed))
    per_row = 1 if family == "mrma" else per_row

    def rows(numbers, n):
        return [(np.sort(rng.choice(numbers, per_row, replace=False)), rng.normal(size=per_row)) for _ in range(n)]

    contexts, items = rows(np.arange(0, 10, 2), n_contexts), rows(np.arange(1, 10, 2), n_items)
    items[3] = items[9] = items[0]
    return model, contexts, items


def all_scores(model, contexts, items):
    """Return the model's score of every pair."""
    joined = [(np.concatenate([u[0], i[0]]), np.concatenate([u[1], i[1]])) for u in contexts for i in items]
    return model.scores(by_id(model, joined)).reshape(len(contexts), len(items)).astype(float)


def brute_force(scores, top):
    """Return the best columns of each row: by score, ties by number; scores within rounding count as equal."""
    return np.array([np.lexsort((np.arange(len(line)), -np.round(line, 4)))[:top] for line in scores])


@pytest.mark.parametrize("family", [*FAMILIES, "mrma"])
@given(seed=st.integers(0, 99), top=st.integers(1, 12))
def test_the_best_items_are_those_of_brute_force(family, seed, top):
    model, contexts, items = two_sides(family, seed)
    found = Catalogue(model, by_id(model, items)).recommend(by_id(model, contexts), top)
    scores = all_scores(model, contexts, items)
    np.testing.assert_array_equal(found.items, brute_force(scores, top))
    np.testing.assert_allclose(found.scores, np.take_along_axis(scores, found.items, 1), atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_vectors_of_both_sides_give_the_score(family):
    model, contexts, items = two_sides(family)
    users, goods = by_id(model, contexts), by_id(model, items)
    products = side_vectors(model, users, "context") @ side_vectors(model, goods, "item").T
    whole = products + own_scores(model, users)[:, None] + model.parameters.bias[0]
    np.testing.assert_allclose(whole, all_scores(model, contexts, items), atol=1e-4)


def test_the_size_of_vectors_is_as_stated():
    model, contexts, _ = two_sides("rafm")
    assert side_vectors(model, by_id(model, contexts), "context").shape == (7, 5 + 2 * 2 + 1)


def test_ties_go_to_the_first_row_even_where_they_do_not_fit():
    model, contexts, items = two_sides("rafm")
    same = Catalogue(model, by_id(model, [items[0]] * 200))
    assert same.recommend(by_id(model, contexts), 3).items.tolist() == [[0, 1, 2]] * 7


def test_excluded_items_are_left_out_and_missing_ones_are_marked():
    model, contexts, items = two_sides("rafm")
    catalogue, users = Catalogue(model, by_id(model, items)), by_id(model, contexts)
    best = catalogue.recommend(users, 12).items
    found = catalogue.recommend(users, 12, exclude=[best[r, :2] for r in range(7)])
    np.testing.assert_array_equal(found.items[:, :10], best[:, 2:])
    assert (found.items[:, 10:] == -1).all()
    assert np.isnan(found.scores[:, 10:]).all()


def test_threads_and_blocks_do_not_change_the_answer(monkeypatch):
    model, contexts, items = two_sides("rafm", n_contexts=40)
    catalogue, users = Catalogue(model, by_id(model, items)), by_id(model, contexts)
    whole = catalogue.recommend(users, 5)
    monkeypatch.setattr("rafm.recommend.top.BLOCK_ROWS", 3)
    monkeypatch.setattr("rafm.recommend.top.TILE_ITEMS", 5)
    monkeypatch.setattr("rafm.recommend.top.LIST_ROOM", 0)
    parts = catalogue.recommend(users, 5, threads=3)
    np.testing.assert_array_equal(parts.items, whole.items)
    np.testing.assert_array_equal(parts.scores, whole.scores)


def test_a_feature_on_both_sides_is_refused():
    model, _, items = two_sides("rafm")
    with pytest.raises(ConfigError, match=r"feature .* occurs in contexts and in items; .* different columns"):
        Catalogue(model, by_id(model, items)).recommend(by_id(model, items), 1)


# Estimators


@pytest.fixture(scope="module")
def shop():
    """Return a fitted classifier, users and goods."""
    rng = np.random.default_rng(0)
    users, goods = np.array([f"u{k}" for k in range(20)]), np.array([f"g{k}" for k in range(30)])
    price = rng.normal(size=30).round(1)
    u, g = rng.integers(0, 20, 3000), rng.integers(0, 30, 3000)
    table = pd.DataFrame({"user": users[u], "good": goods[g], "price": price[g]})
    labels = ((u + g) % 3 == 0).astype(int)
    return make(n_epochs=5).fit(table, labels), table, users, pd.DataFrame({"good": goods, "price": price})


def test_tables_have_the_columns_of_their_side_only(shop):
    fitted, _, users, goods = shop
    found = fitted.recommend(pd.DataFrame({"user": users}), goods, top=4)
    for r, user in enumerate(users):
        scores = fitted.decision_function(goods.assign(user=user))
        np.testing.assert_array_equal(found.items[r], brute_force([scores], 4)[0])
        np.testing.assert_allclose(found.scores[r], scores[found.items[r]], atol=1e-4)


def test_seen_rows_are_excluded(shop):
    fitted, table, users, goods = shop
    found = fitted.recommend(pd.DataFrame({"user": users}), goods, top=30, exclude=table[:200])
    seen = {(user, good) for user, good in zip(table["user"][:200], table["good"][:200])}
    given_ = {(user, goods["good"][i]) for user, items in zip(users, found.items) for i in items if i >= 0}
    assert len(given_) == 600 - len(seen)
    assert not given_ & seen


def test_a_matrix_of_seen_items_is_excluded(shop):
    fitted, _, users, goods = shop
    seen = sparse.random(20, 30, 0.3, random_state=0, format="csr")
    found = fitted.recommend(pd.DataFrame({"user": users}), goods, top=30, exclude=seen)
    assert all(not seen[r, i] for r in range(20) for i in found.items[r] if i >= 0)
    with pytest.raises(ConfigError, match="exclude has shape"):
        fitted.recommend(pd.DataFrame({"user": users}), goods, exclude=seen.T)


def test_vectors_work_in_an_index_of_inner_products(shop):
    fitted, _, users, goods = shop
    contexts = pd.DataFrame({"user": users})
    products = fitted.vectors(contexts, "context") @ fitted.vectors(goods, "item").T
    np.testing.assert_array_equal(brute_force(products, 5), fitted.recommend(contexts, goods, top=5).items)
    with pytest.raises(ConfigError, match="side must be 'context' or 'item'"):
        fitted.vectors(goods, "left")
