"""Where nothing can be learnt the model is a constant, not what was drawn at random before the first epoch."""

import logging

import numpy as np
import pytest
from commands import run
from scipy.sparse import csr_matrix

from rafm import RaFMClassifier, RaFMRegressor, load

KINDS = {"clicks": RaFMClassifier, "ratings": RaFMRegressor}


def noise(task, n_rows, n_fields=6, seed=0):
    """Return rows of several fields of 300 ids, and labels that have nothing to do with them."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(0, 300, (n_rows, n_fields)) + 300 * np.arange(n_fields)
    ends = np.arange(0, ids.size + 1, n_fields)
    X = csr_matrix((np.ones(ids.size, np.float32), ids.ravel(), ends), shape=(n_rows, 300 * n_fields))
    return X, draw.integers(0, 2, n_rows) if task == "clicks" else draw.normal(size=n_rows)


def scores_of(model, X):
    return getattr(model, "decision_function", model.predict)(X)


def assert_constant(model, X, y):
    """Check that the model scores all rows alike, by the mean label, and has nothing else."""
    parameters = model.model_.parameters
    assert model.best_epoch_ == 0
    assert not parameters.weights.any()
    assert not any(np.asarray(block).any() for block in parameters.factors)
    expected = y.mean() if isinstance(model, RaFMRegressor) else np.log(y.mean() / (1 - y.mean()))
    np.testing.assert_allclose(scores_of(model, X), expected, atol=1e-5)


SETTINGS = {
    "clicks": [{}, {"model": "fm", "ranks": 8}, {"ranks": "auto"}],
    "ratings": [{}, {"model": "difacto"}, {"ranks": "auto"}, {"optimizer": "gibbs"}],
}
CASES = [(task, given) for task, several in SETTINGS.items() for given in several]


@pytest.mark.parametrize(("task", "given"), CASES, ids=str)
def test_labels_that_nothing_explains_give_a_constant(task, given, caplog):  # case 122
    X, y = noise(task, 1_800)
    with caplog.at_level(logging.WARNING, "rafm"):
        model = KINDS[task](**given).fit(X[:800], y[:800], eval_set=(X[800:], y[800:]))
    assert_constant(model, X, y[:800])
    assert [record.message for record in caplog.records] == [
        "no epoch was better than a constant on the validation rows: the model predicts a constant"
    ]


@pytest.mark.parametrize("given", [{}, {"optimizer": "gibbs"}], ids=str)
def test_a_constant_is_that_of_all_rows_if_some_were_held_out(given):  # case 122
    X, y = noise("ratings", 800)
    assert_constant(RaFMRegressor(**given).fit(X, y), X, y)


def test_the_constant_is_a_model_like_any_other(tmp_path):  # case 122
    X, y = noise("clicks", 800)
    lines = [f"{label} {' '.join(f'{i}:1' for i in X[row].indices)}\n" for row, label in enumerate(y)]
    (tmp_path / "rows.svm").write_text("".join(lines[:400]))
    (tmp_path / "valid.svm").write_text("".join(lines[400:]))
    ran = run("train", tmp_path / "rows.svm", "--valid", tmp_path / "valid.svm", "--out", tmp_path / "m.rafm")
    assert ran.code == 0
    assert "no epoch was better than a constant on the validation rows: the model predicts a constant" in ran.out
    predicted = set(run("predict", tmp_path / "m.rafm", tmp_path / "valid.svm").out.split())
    assert [float(one) for one in predicted] == [pytest.approx(y[:400].mean(), abs=1e-6)]


@pytest.mark.parametrize("keep_state", [False, True], ids=["scores alone", "with its state"])
def test_a_constant_can_still_learn_pairs(keep_state, tmp_path):  # case 122
    X, y = noise("clicks", 800, n_fields=2)
    model = RaFMClassifier(model="fm", ranks=4, learning_rate=0.3, l2=1e-4).fit(X, y)
    assert_constant(model, X, y)
    model.save(tmp_path / "m.rafm", keep_state)
    model = load(tmp_path / "m.rafm")
    user, item = X.indices.reshape(-1, 2).T
    pairs = (user % 2 == item % 2).astype(int)  # neither says anything alone
    for _ in range(60):
        model.partial_fit(X, pairs)
    assert (model.predict(X) == pairs).mean() > 0.9
