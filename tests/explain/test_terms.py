"""Explanations: every term is what the paper's equations say, and all of them add up to the score."""

import json

import naive
import numpy as np
import pandas as pd
import pytest
from fitted import make, mixed_table, scores_of, two_fields
from hypothesis import given
from models import by_id, model_of
from worlds import FAMILIES, make_world, random_rows, worlds

from rafm.explain.names import FeatureNames
from rafm.explain.terms import explain_rows

EPSILON = np.finfo(np.float32).eps


def explained(model, rows, extra=()):
    return [*explain_rows(model, by_id(model, rows, extra), FeatureNames(model.numbering))]


@given(world=worlds(families=(*FAMILIES, "mrma")))
def test_terms_add_up_to_the_score(world):
    model = model_of(world, "log")
    rows = random_rows(np.random.default_rng(2), world.plan.n_features, 6, 6)
    for found, row in zip(explained(model, rows), rows):
        total = found.bias + sum(term.value for term in found.terms)
        assert abs(total - found.score) <= 16 * EPSILON * (1 + naive.score_size(world.model, row))
        assert found.prediction == pytest.approx(1 / (1 + np.exp(-found.score)))


@given(world=worlds(families=("rafm", "difacto", "fm")))
def test_each_pair_is_what_the_definition_gives_for_it_alone(world):
    model = model_of(world)
    numbers = np.arange(world.plan.n_features)
    row = numbers, np.ones(numbers.size)
    found = {term.ids: term for term in explained(model, [row])[0].terms}
    number_of = {id: number for number, id in enumerate(model.numbering.ids.tolist())}
    for ids, term in found.items():
        if len(ids) == 1:
            assert term.value == pytest.approx(world.model["w"][number_of[ids[0]]], rel=1e-5)
            continue
        i, j = (number_of[id] for id in ids)
        size = naive.score_size(world.model, ([i, j], [1.0, 1.0]))
        assert abs(term.value - naive.pair_product(world.model, i, j)) <= 8 * EPSILON * size
        assert term.level == min(world.model["levels"][i], world.model["levels"][j])
        assert term.rank == world.plan.ranks[term.level - 1]
        assert term.counts == (model.counts[i], model.counts[j])


def test_unknown_features_are_named_and_add_nothing():
    model = model_of(make_world("rafm", (2, 5), [2, 2, 1]))
    rows = [(np.array([0, 2]), np.ones(2))]
    plain, more = explained(model, rows)[0], explained(model, rows, extra=[10**6 - 1])[0]
    assert more.unseen == ("999999",)
    assert (plain.score, plain.terms) == (more.score, more.terms)


def test_terms_are_sorted_and_the_rest_is_summed():
    model = model_of(make_world("rafm", (2, 5), [2, 2, 1, 1]))
    found = explained(model, [(np.arange(4), np.ones(4))])[0]
    sizes = [abs(term.value) for term in found.terms]
    assert sizes == sorted(sizes, reverse=True)
    short = found.to_dict(top=2)
    assert len(short["terms"]) == 2
    total = short["bias"] + short["rest"] + sum(term["value"] for term in short["terms"])
    assert total == pytest.approx(found.score, rel=1e-5)
    assert json.loads(json.dumps(short)) == {**short, "terms": json.loads(json.dumps(short["terms"]))}
    assert f"{len(found.terms) - 2} smaller terms" in found.to_text(top=2)


@pytest.mark.filterwarnings("ignore:not seen in training")
@pytest.mark.parametrize("model", ["rafm", "difacto", "fm", "lr"])
def test_a_table_is_explained_by_names_of_columns_and_values(model):
    table = mixed_table()
    labels = (table["word"] == "ham") ^ (table["size"] > 0)
    fitted = make("binary", model).fit(table, labels)
    unseen = pd.DataFrame({"word": ["ham", "unheard of"], "size": [1.0, 2.0]})
    found = fitted.explain(unseen)
    np.testing.assert_allclose(
        [row.bias + sum(term.value for term in row.terms) for row in found], scores_of(fitted, unseen), rtol=1e-4
    )
    assert "word=ham" in {name for term in found[0].terms for name in term.features}
    assert found[1].unseen == ("word",)
    assert len(found) == 2
    assert [*found[1:]] == [found[1]]
    frame = found.to_frame()
    np.testing.assert_allclose(frame.groupby("row")["value"].sum(), scores_of(fitted, unseen), rtol=1e-4)
    assert str(found).startswith("row 1: score")
    assert "\n\nrow 2: score" in str(found)


def test_mixtures_of_ranks_are_explained_too():
    (X, y), _ = two_fields("regression")
    fitted = make("regression", "mrma", n_epochs=2).fit(X, y)
    found = fitted.explain(X[:5])
    assert all(len(row.terms) == 3 for row in found)  # two weights and one pair
    np.testing.assert_allclose(
        [row.bias + sum(t.value for t in row.terms) for row in found], fitted.predict(X[:5]), 1e-4
    )
