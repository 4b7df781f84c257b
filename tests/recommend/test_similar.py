"""Neighbours: features that behave alike are close, and rare ones are no twins of frequent ones."""

import naive
import numpy as np
import pandas as pd
import pytest
from fitted import make
from models import model_of
from scipy.sparse import csr_matrix
from worlds import make_world

from rafm import RaFMClassifier
from rafm.errors import ConfigError
from rafm.recommend.similar import find_similar


@pytest.mark.parametrize("family", ["rafm", "difacto", "fm"])
def test_behaviour_is_the_cosine_of_all_pair_products(family):
    """By brute force: compare what two features add in company of every feature, weighted by its count."""
    ranks = (5,) if family == "fm" else (2, 5)
    world = make_world(family, ranks, [len(ranks)] * 8)
    model = model_of(world)

    def profile(i):
        blocks = [world.model["v"][p] for p in (range(len(ranks)) if family == "difacto" else [len(ranks) - 1])]
        products = [sum(block[i] @ block[k] for block in blocks) for k in range(8)]
        return np.array(products) * np.sqrt(model.counts)

    own = profile(3)
    expected = {i: own @ profile(i) / np.linalg.norm(own) / np.linalg.norm(profile(i)) for i in range(8) if i != 3}
    found = {one.number: one.similarity for one in find_similar(model, 3, measure="behaviour", damping=0)}
    assert found == pytest.approx(expected, abs=1e-5)


def test_balanced_is_the_angle_with_the_root_of_the_spread_along_each_axis():
    """By a singular value decomposition: its values, in place of their roots, would give back the vectors."""
    world = make_world("fm", (5,), [1] * 8)
    model, kept = model_of(world), np.array([0, 1, 2, 3, 5, 6])
    vectors, weights = np.array(world.model["v"][0])[kept], np.sqrt(model.counts[kept])
    left, spread, _ = np.linalg.svd(vectors * weights[:, None], full_matrices=False)
    balanced = left * np.sqrt(spread) / weights[:, None]
    lengths = np.linalg.norm(balanced, axis=1)
    expected = balanced @ balanced[3] / lengths / lengths[3]
    found = {one.number: one.similarity for one in find_similar(model, 3, kept, damping=0)}
    assert found == pytest.approx({i: expected[at] for at, i in enumerate(kept) if i != 3}, abs=1e-5)


@pytest.mark.parametrize("measure", ["balanced", "behaviour", "cosine"])
def test_vectors_of_zeros_are_like_nothing(measure):
    world = make_world("fm", (4,), [1] * 3)
    for vector in world.model["v"][0]:
        vector[:] = 0
    assert [one.similarity for one in find_similar(model_of(world), 0, measure=measure)] == [0, 0]


def test_cosine_is_the_angle_of_vectors_of_a_level():
    world = make_world("rafm", (2, 5), [2, 2, 2, 1])
    found = {
        one.number: one.similarity for one in find_similar(model_of(world), 0, level=1, measure="cosine", damping=0)
    }
    u = world.model["v"][0]
    expected = {i: u[0] @ u[i] / np.linalg.norm(u[0]) / np.linalg.norm(u[i]) for i in (1, 2, 3)}
    assert found == pytest.approx(expected, abs=1e-6)
    assert naive.pair_product(world.model, 0, 3) == pytest.approx(u[0] @ u[3])  # those that meet at level 1


def test_levels_that_a_feature_lacks_are_refused():
    model = model_of(make_world("rafm", (2, 5), [2, 1]))
    assert [one.number for one in find_similar(model, 0)] == []  # no other feature has a vector of level 2
    with pytest.raises(ConfigError, match="levels 1 to 1, found level 2"):
        find_similar(model, 1, level=2)
    with pytest.raises(ConfigError, match="measure must be 'balanced' or 'behaviour' or 'cosine'"):
        find_similar(model, 0, measure="jaccard")


def taste(n_rows=6000, seed=0):
    """Return ratings of two kinds of films by two kinds of users; film f0 has a rare twin."""
    rng = np.random.default_rng(seed)
    users, films = rng.integers(0, 40, n_rows), rng.integers(0, 20, n_rows)
    names = np.array([f"f{k}" for k in range(20)] + ["rare"], object)[films]
    rare = np.flatnonzero(films == 0)[:2]
    names[rare] = "rare"
    liked = (users % 2 == films % 2).astype(int)
    return pd.DataFrame({"user": [f"u{u}" for u in users], "film": names}), np.where(
        rng.random(n_rows) < 0.1, 1 - liked, liked
    )


def test_films_of_one_kind_are_neighbours_and_a_rare_twin_is_not_first():
    fitted = make(model="fm", ranks=8, n_epochs=8).fit(*taste())
    found = fitted.similar("film=f0", top=9)
    assert all(int(name.removeprefix("film=f")) % 2 == 0 for name, _ in found)
    assert "film=rare" not in dict(found)
    assert all(name.startswith("film=") for name, _ in fitted.similar("film=f0", top=50))
    with pytest.raises(ConfigError, match="no feature is named 'film=f01'; did you mean 'film=f1' or"):
        fitted.similar("film=f01")
    with pytest.raises(ConfigError, match=r"no feature is named 'f1'; did you mean 'film=f1'\?"):
        fitted.similar("f1")


def test_neighbours_of_an_id_are_of_its_field():
    rng = np.random.default_rng(0)
    users, items = rng.integers(6, size=300), rng.integers(4, size=300)
    X = csr_matrix((np.ones(600), np.stack([users, 6 + items], 1).ravel(), np.arange(0, 601, 2)), (300, 10))
    given = {"fields": ["user"] * 6 + ["item"] * 4, "model": "fm", "ranks": 4, "n_epochs": 2, "validation_fraction": 0}
    model = RaFMClassifier(**given).fit(X, (users + items) % 2)
    assert {name for name, _ in model.similar("7")} == {"6", "8", "9"}
    assert len(RaFMClassifier(**{**given, "fields": None}).fit(X, (users + items) % 2).similar("7")) == 9
