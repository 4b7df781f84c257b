"""Heads in training: fitted to the rows that judge, kept while the model is trained again, left out where told."""

from dataclasses import replace

import numpy as np
import pytest

from rafm import RaFMClassifier, RaFMRegressor, load
from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train import train
from rafm.train.checkpoint import Checkpoint
from rafm.train.events import Finished, HeadFitted
from rafm.train.head_policy import LEAST_HEAD_ROWS
from rafm.train.policy import FOLD_ROWS
from rafm.train.resources import Resources

SIZES = (30, 20, 6)


def clicks(n_rows, seed=0):
    """Return rows of three fields; whether users and films interact depends on the day, which no sum of pairs says."""
    rng = np.random.default_rng(seed)
    vectors = [np.random.default_rng(9).normal(0, 1, (size, 2)) for size in SIZES]
    drawn = [rng.integers(0, size, n_rows) for size in SIZES]
    products = (vectors[0][drawn[0]] * vectors[1][drawn[1]]).sum(axis=1)
    scores = np.where(drawn[2] % 2, 3 * products, 2.0)
    labels = (rng.logistic(size=n_rows) < scores).astype(float)
    first = np.cumsum([0, *SIZES[:-1]])
    indices = (np.stack(drawn, axis=1) + first).ravel()
    rows = check_batch(Batch(np.arange(n_rows + 1) * 3, indices, np.ones(3 * n_rows), sum(SIZES), labels))
    ids, numbers = np.arange(sum(SIZES)), np.repeat(np.arange(3), SIZES)
    return InMemory(rows, Fields.of_ids(("user", "film", "day"), ids, numbers))


def run(rows, valid=None, resources=None, **given):
    options = resolve(task="binary", **{"model": "fm", "ranks": 4, "n_epochs": 4, **given})
    events = [*train(rows, options, valid, resources)]
    heads = [event for event in events if isinstance(event, HeadFitted)]
    assert isinstance(events[-1], Finished)
    return events[-1].model, heads


def test_a_head_is_fitted_to_the_rows_that_judge_and_lowers_the_loss_of_others():
    model, (event,) = run(clicks(8000), clicks(2000, 1))
    assert event.n_rows == 2000
    assert model.head.n_units == event.shape.units == 16
    test = clicks(4000, 2).rows
    found, without = (np.mean((one.predict(test) - test.labels) ** 2) for one in (model, replace(model, head=None)))
    assert found < 0.97 * without
    assert (
        f"network of 16 units on the pairs of fields: gain {max(one.gain for one in event.trials):.5f}"
        in event.lines()[0]
    )
    assert event.record()["units"] == 16


def test_a_head_of_held_out_rows_is_kept_while_the_model_is_trained_on_all_rows():
    model, (event,) = run(clicks(20_000))
    assert event.n_rows == pytest.approx(2000, abs=150)
    assert (model.n_rows, model.head.n_units) == (20_000, 16)


@pytest.mark.parametrize(("n_valid", "has_head"), [(LEAST_HEAD_ROWS - 1, False), (LEAST_HEAD_ROWS, True)])
def test_few_rows_judge_no_head(n_valid, has_head):
    _, heads = run(clicks(6000), clicks(n_valid, 1))
    assert len(heads) == has_head


def test_folds_fit_no_head():
    assert run(clicks(FOLD_ROWS))[1] == []


@pytest.mark.parametrize("given", [{"head": "off"}, {"optimizer": "ftrl", "l1": 1e-6, "ranks": 2}])
def test_heads_are_left_out(given):
    model, heads = run(clicks(6000), clicks(2000, 1), **given)
    assert (model.head, heads) == (None, [])


def test_rows_without_fields_have_no_head():
    rows = clicks(6000)
    assert run(InMemory(rows.rows), clicks(2000, 1))[1] == []


def test_a_given_number_of_units_is_taken():
    model, (event,) = run(clicks(6000), clicks(1200, 1), head=5)
    assert (model.head.n_units, event.trials) == (5, [])
    assert event.lines() == ["network of 5 units fitted to 1200 validation rows"]


def test_heads_have_the_same_bytes_for_any_number_of_threads():
    one, other = (run(clicks(6000), clicks(2000, 1), threads=threads)[0].head.arrays() for threads in (1, 2))
    assert {name: array.tobytes() for name, array in one.items()} == {
        name: array.tobytes() for name, array in other.items()
    }


def test_a_resumed_training_ends_with_the_same_head(tmp_path):
    whole, _ = run(clicks(6000), clicks(2000, 1))
    options = resolve(task="binary", model="fm", ranks=4, n_epochs=4)
    with Checkpoint(tmp_path, seconds=0) as checkpoint:
        for event in train(clicks(6000), options, clicks(2000, 1), Resources(checkpoint=checkpoint)):
            if isinstance(event, HeadFitted):
                break
    with Checkpoint(tmp_path, seconds=0) as checkpoint:
        again, _ = run(clicks(6000), clicks(2000, 1), Resources(checkpoint=checkpoint))
    batch = clicks(50, 3).rows
    assert again.scores(batch).tobytes() == whole.scores(batch).tobytes()


def test_continued_training_keeps_the_head():
    start, _ = run(clicks(6000), clicks(2000, 1))
    options = resolve(task="binary", model="fm", ranks=4, n_epochs=1)
    *_, last = train(clicks(500, 4), options, None, None, start)
    assert last.model.head is start.head


def table_of(source):
    import pandas as pd

    drawn = source.rows.indices.reshape(-1, 3) - np.cumsum([0, *SIZES[:-1]])
    frame = pd.DataFrame(drawn, columns=["user", "film", "day"]).astype(str)
    return frame, source.rows.labels


def test_estimators_fit_save_explain_and_recommend_with_a_head(tmp_path):
    import pandas as pd

    X, y = table_of(clicks(12_000))
    model = RaFMClassifier(4, model="fm", n_epochs=4).fit(X, y)
    assert model.model_.head is not None
    model.save(tmp_path / "m.rafm")
    one = model.explain(X[:1])[0]
    assert one.bias + sum(term.value for term in one.terms) == pytest.approx(one.score, abs=1e-5)
    (network,) = (term for term in one.terms if term.features == ("network",))
    assert sum(one.network.values()) == pytest.approx(network.value)
    assert load(tmp_path / "m.rafm").predict_proba(X[:9]).tobytes() == model.predict_proba(X[:9]).tobytes()
    films = pd.DataFrame({"film": [str(k) for k in range(SIZES[1])]})
    contexts = X[["user", "day"]][:5]
    found = model.recommend(contexts, films, top=4)
    scores = model.decision_function(contexts.merge(films, how="cross")[X.columns]).reshape(5, -1)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :4]
    assert np.array_equal(found.items, expected)
    np.testing.assert_allclose(found.scores, np.take_along_axis(scores, expected, axis=1), rtol=1e-6)


def test_ratings_have_heads_too():
    rows = clicks(8000)
    ratings = replace(rows, rows=check_batch(replace_labels(rows.rows)))
    X, y = table_of(ratings)
    model = RaFMRegressor(4, model="fm", n_epochs=4, head=8).fit(X, y)
    assert model.model_.head.n_units == 8


def replace_labels(rows):
    return Batch(rows.indptr, rows.indices, rows.values, rows.n_features, 100 * rows.labels + 1)
