"""Counts and robust regression from end to end: training, files, commands, against scikit-learn and plain sense."""

import numpy as np
import pytest
from commands import run
from scipy import sparse
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

from rafm import Huber, RaFMRegressor, load
from rafm.errors import ConfigError, DataValueError
from rafm.model.file import load as load_file


def counted(n_rows=3000, seed=0):
    """Return one-hot rows of two fields, counts drawn from exp(sum of effects), and the expected counts."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, 8, n_rows), 8 + rng.integers(0, 6, n_rows)
    effects = np.random.default_rng(99).normal(0, 0.5, 14)
    expected = np.exp(0.4 + effects[users] + effects[items])
    ids = np.stack([users, items], axis=1).ravel()
    X = sparse.csr_matrix((np.ones(ids.size), ids, np.arange(0, ids.size + 1, 2)), (n_rows, 14))
    return X, rng.poisson(expected).astype(float), expected


def libsvm(X, y):
    """Return rows as libsvm text."""
    rows = (" ".join(f"{i}:1" for i in X.indices[X.indptr[r] : X.indptr[r + 1]]) for r in range(X.shape[0]))
    return "".join(f"{label:g} {row}\n" for label, row in zip(y, rows))


def test_a_linear_model_of_counts_agrees_with_scikit_learn():
    X, y, _ = counted()
    ours = RaFMRegressor(loss="poisson", model="lr", n_epochs=60, learning_rate=0.1).fit(X, y).predict(X)
    theirs = PoissonRegressor(alpha=1e-6, max_iter=1000).fit(X, y).predict(X)
    np.testing.assert_allclose(ours, theirs, rtol=0.12)
    assert mean_poisson_deviance(y, ours) == pytest.approx(mean_poisson_deviance(y, theirs), rel=0.005)


def test_expected_counts_of_new_rows_are_better_than_a_constant():
    (X, y, _), (Z, counts, expected) = counted(), counted(seed=1)
    model = RaFMRegressor(loss="poisson", ranks=(2, 4), n_epochs=10).fit(X, y, eval_set=(Z, counts))
    deviance = mean_poisson_deviance(counts, model.predict(Z))
    best, constant = (
        mean_poisson_deviance(counts, expected),
        mean_poisson_deviance(counts, np.full(counts.size, y.mean())),
    )
    assert best < deviance < best + 0.2 * (constant - best)
    chosen = model.history_[model.best_epoch_ - 1]
    assert chosen["valid_poisson_deviance"] == pytest.approx(deviance, rel=1e-5)


def test_counts_go_through_files_and_commands(tmp_path):
    X, y, _ = counted(800)
    (tmp_path / "rows.svm").write_text(libsvm(X, y))
    path = tmp_path / "m.rafm"
    ran = run(
        "train", tmp_path / "rows.svm", "--task", "count", "--ranks", "2", "--epochs", "3", "--out", path, "--json"
    )
    assert ran.json()["task"] == "count"
    found = run("evaluate", path, tmp_path / "rows.svm", "--json").json()
    predictions = np.array(run("predict", path, tmp_path / "rows.svm").out.split(), float)
    assert found["poisson_deviance"] == pytest.approx(mean_poisson_deviance(y, predictions), rel=1e-5)
    assert found["mae"] == pytest.approx(np.abs(predictions - y).mean(), rel=1e-5)
    again = load(path)
    assert again.loss == "poisson"
    np.testing.assert_allclose(again.predict(X), predictions, rtol=1e-6)


def test_negative_counts_are_refused():
    X, y, _ = counted(50)
    with pytest.raises(DataValueError, match="counts must be at least 0, found -1"):
        RaFMRegressor(loss="poisson").fit(X, np.where(np.arange(50) == 7, -1, y))
    with pytest.raises(DataValueError, match="counts must be at least 0, found -1"):
        RaFMRegressor(loss="poisson").fit(X, y, eval_set=(X, np.where(np.arange(50) == 7, -1, y)))


def test_outliers_pull_less_on_hubers_loss():
    X, _, expected = counted()
    rng = np.random.default_rng(3)
    labels = np.log(expected) + rng.normal(0, 0.1, expected.size)
    spoilt = labels + np.where(rng.random(labels.size) < 0.05, 40.0, 0.0)
    errors = {}
    for loss in ("squared", Huber(delta=0.5)):
        model = RaFMRegressor(loss=loss, model="lr", n_epochs=30, l2=0.0).fit(X, spoilt)
        errors[str(loss)] = np.abs(model.predict(X) - labels).mean()
    assert errors["huber:0.5"] < 0.1 * errors["squared"]


def test_the_setting_of_a_loss_is_kept_in_the_model_file(tmp_path):
    X, y, _ = counted(300)
    path = tmp_path / "m.rafm"
    (tmp_path / "rows.svm").write_text(libsvm(X, y))
    rows = ("train", tmp_path / "rows.svm", "--task", "regression", "--ranks", "2", "--epochs", "2", "--out", path)
    assert run(*rows, "--loss", "huber:2.5").code == 0
    assert load_file(path).model.loss == Huber(2.5)
    assert load(path).loss == Huber(2.5)
    assert "huber_loss" in run("evaluate", path, tmp_path / "rows.svm", "--json").json()
    further = run("train", tmp_path / "rows.svm", "--resume-from", path, "--out", tmp_path / "n.rafm")
    assert further.code == 0, further.err
    assert load_file(tmp_path / "n.rafm").model.loss == Huber(2.5)


@pytest.mark.parametrize("loss", ["absolute", "log", "huber:x", "squared:2", 3])
def test_a_loss_that_is_none_of_the_task_is_refused(loss):
    X, y, _ = counted(50)
    with pytest.raises(ConfigError) as caught:
        RaFMRegressor(loss=loss).fit(X, y)
    assert caught.value.key == "loss"


def test_a_negative_count_in_a_file_is_named_by_its_line_or_row(tmp_path):
    (tmp_path / "rows.svm").write_text("3 0:1\n-1 1:1\n")
    (tmp_path / "rows.csv").write_text("n,city\n3,Rome\n2,Oslo\n-1,Rome\n")
    out = ("--task", "count", "--out", tmp_path / "m.rafm")
    ran = run("train", tmp_path / "rows.svm", *out)
    assert ran.error() == f"{tmp_path}/rows.svm:2:1: counts must be at least 0, found -1"
    ran = run("train", tmp_path / "rows.csv", "--label", "n", *out)
    assert f"{tmp_path}/rows.csv:4: counts must be at least 0, found -1" in ran.err
    assert ran.code == 3


def test_another_loss_than_that_of_the_model_is_refused(tmp_path):
    X, y, _ = counted(100)
    (tmp_path / "rows.svm").write_text(libsvm(X, y))
    path, rows = tmp_path / "m.rafm", tmp_path / "rows.svm"
    options = ("--task", "regression", "--loss", "huber", "--ranks", "2", "--epochs", "1")
    assert run("train", rows, *options, "--out", path).code == 0
    ran = run("train", rows, "--resume-from", path, "--loss", "squared", "--out", tmp_path / "n.rafm")
    assert "loss was huber:1 when the model was trained, now it is squared" in ran.error()
    ran = run("train", rows, "--resume-from", path, "--loss", "huber:2", "--out", tmp_path / "n.rafm")
    assert "loss was huber:1 when the model was trained, now it is huber:2" in ran.error()
