"""Columns that tell the label by themselves: told after training, by their names."""

import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run

from rafm import RaFMClassifier, RaFMRegressor
from rafm.errors import DataWarning
from rafm.train import telling

N_ROWS = 4_000
FAST = {"model": "lr", "n_epochs": 1, "validation_fraction": 0}


@pytest.fixture
def table():
    """Return a table of text and numbers, some of which tell a little."""
    draw = np.random.default_rng(0)
    user, price = draw.integers(0, 50, N_ROWS), draw.normal(size=N_ROWS)
    score = draw.normal(size=50)[user] + price
    label = (draw.logistic(size=N_ROWS) < score).astype(int)
    return pd.DataFrame({"user": [f"u{i}" for i in user], "price": price}), label, score + draw.normal(size=N_ROWS)


def said(model, X, y):
    """Fit a model; return what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert all(issubclass(one.category, DataWarning) and one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


def leaks(y):
    """Return columns that have the label in them, in several forms."""
    draw = np.random.default_rng(1)
    return {
        "copy": y,
        "words": np.where(y > 0, "paid", "open"),
        "opposite": 1 - y,
        "another scale": 300.0 + 20 * y,
        "known later": np.where(
            y > 0, draw.normal(5, 1, y.size).clip(1.5), draw.normal(-5, 1, y.size).clip(None, -1.5)
        ),
        "only of some": np.where(y > 0, draw.integers(0, 30, y.size).astype(str), None),
    }


@pytest.mark.parametrize("name", leaks(np.zeros(2)))
def test_a_column_that_tells_the_class_is_named(name, table):  # case 134
    X, y, _ = table
    (line,) = said(RaFMClassifier(**FAST), X.assign(**{name: leaks(y)[name]}), y)
    assert line.startswith(f"column {name!r} (AUC {'0.99' if name == 'known later' else '1.0000'}")
    assert ") alone tells nearly all about the label: is it known before the label is? If not, leave it out" in line


@pytest.mark.parametrize("given", [{}, {"columns": {"rating": "category"}}, {"columns": {"rating": "number"}}], ids=str)
def test_a_column_that_tells_the_rating_is_named(given, table):  # case 134
    X, y = table[0], np.clip(np.round(3 + table[2]), 1, 5)
    (line,) = said(RaFMRegressor(**FAST, **given), X.assign(rating=y if given else 2 * y), y)
    assert line.startswith("column 'rating' (correlation ")


def test_what_tells_a_little_is_not_suspected(table):  # case 134
    X, y, rating = table
    assert said(RaFMClassifier(**FAST), X, y) == []
    assert said(RaFMRegressor(**FAST), X, rating) == []


@pytest.mark.parametrize("form", [lambda y: y, np.exp, lambda y: -3 * y], ids=["copy", "exp", "opposite"])
def test_a_number_that_tells_the_number_is_named_although_it_is_in_bins(form, table):  # case 134
    X, _, y = table
    (line,) = said(RaFMRegressor(**FAST), X.assign(late=form(y)), y)
    assert line.startswith("column 'late' (correlation 0.9")


def test_a_value_that_is_pure_is_not_the_label(table):  # case 134
    X, y, _ = table
    chosen = (y == 1) & (np.arange(N_ROWS) % 3 == 0)
    assert said(RaFMClassifier(**FAST), X.assign(gold=np.where(chosen, "yes", "no")), y) == []
    assert said(RaFMRegressor(**FAST), X.assign(gold=np.where(chosen, "yes", "no")), 3.0 + y) == []


@pytest.mark.parametrize("kind", ["clicks", "ratings"])
def test_ids_that_occur_once_are_not_suspected(kind, table):  # case 134
    X, y, rating = table
    X = X.assign(
        row=[f"r{i}" for i in range(N_ROWS)], twice=[f"t{i // 2}" for i in np.argsort(np.argsort(y, kind="stable"))]
    )
    model, labels = (RaFMClassifier(**FAST), y) if kind == "clicks" else (RaFMRegressor(**FAST), rating)
    assert not any("alone" in line for line in said(model, X, labels))  # that ids do not recur is said


@pytest.mark.parametrize(("wrong", "is_told"), [(0.0005, True), (0.003, False)])
def test_the_limit_of_auc_decides(wrong, is_told):  # case 134
    draw, y = np.random.default_rng(0), np.arange(40_000) % 2
    flips = np.zeros(y.size, bool)
    flips[draw.permutation(y.size)[: int(wrong * y.size)]] = True  # the AUC is 1 less this share
    X = pd.DataFrame({"other": draw.normal(size=y.size).round(1), "late": np.where(y ^ flips, "a", "b")})
    assert bool(said(RaFMClassifier(**FAST), X, y)) == is_told


@pytest.mark.parametrize(("noise", "is_told"), [(0.03, True), (0.06, False)])  # correlations .99955 and .9982
def test_the_limit_of_correlation_decides(noise, is_told, table):  # case 134
    X, y = table[0], np.random.default_rng(1).normal(size=N_ROWS)
    X = X.assign(late=y + noise * np.random.default_rng(2).normal(size=N_ROWS))
    assert bool(said(RaFMRegressor(**FAST, columns={"late": "number"}), X, y)) == is_told


@pytest.mark.parametrize(("n_rare", "is_told"), [(90, False), (140, True)])
def test_with_few_rows_of_a_class_no_column_is_suspected(n_rare, is_told):  # case 134
    y = (np.arange(3_000) < n_rare).astype(int)
    X = pd.DataFrame({"late": np.where(y, "a", "b"), "other": [f"o{i % 7}" for i in range(y.size)]})
    assert bool(said(RaFMClassifier(**FAST), X, y)) == is_told


def test_columns_of_a_matrix_are_numbered_and_several_are_one_line(table):  # case 134
    y = table[1]
    X = np.random.default_rng(0).normal(size=(N_ROWS, 12))
    X[:, 3], X[:, 7] = y, 5 - y
    assert said(RaFMClassifier(**FAST), X, y) == [
        "feature 3 (AUC 1.0000), feature 7 (AUC 1.0000) alone tell nearly all about the label: are they known before "
        "the label is? If not, leave them out"
    ]
    X[:, 1:9] = y[:, None]
    (line,) = said(RaFMClassifier(**FAST), X, y)
    assert "and 3 more alone tell" in line


def test_a_sample_of_the_rows_is_enough(table, monkeypatch):  # case 134
    monkeypatch.setattr(telling, "MOST_ENTRIES", 2_000)
    X, y, _ = table
    assert len(said(RaFMClassifier(**FAST), X.assign(copy=y), y)) == 1


def test_the_command_says_it_in_one_line_after_training(table, tmp_path):  # case 134
    X, y, _ = table
    X.assign(bought=y, again=y).to_csv(tmp_path / "rows.csv", index=False)
    options = ("--model", "lr", "--epochs", 1, "--valid-share", 0)
    ran = run("train", tmp_path / "rows.csv", "--label", "bought", *options, "--out", tmp_path / "m.rafm")
    assert ran.code == 0
    assert ran.err.startswith("warning: column 'again' (AUC 1.0000) alone tells nearly all about the label: ")
    assert ran.err.count("\n") == 1
