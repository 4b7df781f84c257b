"""Shapley values agree with the definition: the mean over all orders of columns of what a column adds."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from fitted import make, mixed_table, scores_of
from hypothesis import given
from models import by_id, model_of
from scipy import sparse
from worlds import FAMILIES, make_world, random_rows, worlds

from rafm.errors import ConfigError
from rafm.explain.names import FeatureNames
from rafm.explain.shapley import shapley_values


def by_all_orders(score, x, background):
    """Return the Shapley values by brute force; score takes a matrix."""
    n, values = x.size, np.zeros(x.size)
    orders = [*permutations(range(n))]
    for order in orders:
        rows, mixed = background.copy(), [background.copy()]
        for column in order:
            rows[:, column] = x[column]
            mixed.append(rows.copy())
        steps = np.diff([score(step).mean() for step in mixed])
        values[list(order)] += steps / len(orders)
    return values


@pytest.mark.parametrize("family", FAMILIES)
def test_values_agree_with_brute_force(family):
    ranks = {"lr": (), "fm": (5,)}.get(family, (2, 5))
    rng, levels = np.random.default_rng(0), [2, 2, 1, 1] if len(ranks) == 2 else [len(ranks)] * 4
    model = model_of(make_world(family, ranks, levels))
    ids = model.numbering.ids

    def rows_of(matrix):
        return by_id(model, [(np.arange(4), line) for line in matrix])

    X, background = rng.normal(size=(3, 4)), rng.normal(size=(6, 4))
    found = shapley_values(model, rows_of(X), FeatureNames(model.numbering), rows_of(background))
    assert found.base == pytest.approx(model.scores(rows_of(background)).mean(), rel=1e-5)
    for line, x in zip(found.values, X):
        expected = by_all_orders(lambda rows: model.scores(rows_of(rows)).astype(float), x, background)
        np.testing.assert_allclose(line[ids], expected, atol=1e-5)


@given(world=worlds())
def test_without_a_background_base_and_values_add_up_to_the_score(world):
    model = model_of(world)
    batch = by_id(model, random_rows(np.random.default_rng(3), world.plan.n_features, 5, 6))
    found = shapley_values(model, batch, FeatureNames(model.numbering))
    scores = model.scores(batch)
    np.testing.assert_allclose(found.base + found.values.sum(axis=1), scores, atol=1e-4 * (1 + np.abs(scores).max()))


def test_columns_of_a_table_are_replaced_as_a_whole():
    table = mixed_table()
    fitted = make().fit(table, (table["word"] == "ham") ^ (table["size"] > 0))
    known = table.dropna()
    rows, background = known.iloc[:2], known.iloc[10:15]
    found = fitted.shapley_values(rows, background)
    assert sorted(found.columns) == ["size", "word"]
    for r in range(2):
        expected = {}
        for one, other in (("word", "size"), ("size", "word")):
            only, both = background.copy(), background.copy()
            only[one] = both[one] = rows[one].iloc[r]
            both[other] = rows[other].iloc[r]
            alone = background.copy()
            alone[other] = rows[other].iloc[r]
            mean = [scores_of(fitted, frame).mean() for frame in (background, only, alone, both)]
            expected[one] = (mean[1] - mean[0] + mean[3] - mean[2]) / 2
        for name, value in zip(found.columns, found.values[r]):
            assert value == pytest.approx(expected[name], abs=1e-5)


def test_the_shap_package_finds_the_same():
    shap = pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    fitted = make("regression").fit(sparse.csr_matrix(X), X[:, 0] * X[:, 1] + X[:, 2])
    explainer = shap.explainers.Exact(fitted.predict, X[:20])
    found = fitted.shapley_values(X[:4], X[:20])
    np.testing.assert_allclose(found.values, explainer(X[:4]).values, atol=1e-4)


def test_a_mixture_of_ranks_has_none():
    model = model_of(make_world("mrma", (2, 5), [2, 2, 2]))
    with pytest.raises(ConfigError, match="'mrma' has no Shapley values"):
        shapley_values(model, by_id(model, [(np.array([0, 1]), np.ones(2))]), FeatureNames(model.numbering))


def test_frames_of_numbers_keep_their_names():
    frame = pd.DataFrame({"a": [0.5, 1.5, 2.5] * 20, "b": [1.25, 0.5, 0.0] * 20})
    fitted = make("regression").fit(frame, frame["a"] * frame["b"])
    assert sorted(fitted.shapley_values(frame[:2]).columns) == ["a", "b"]
