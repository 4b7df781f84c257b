"""Validation rows that say little: copies of the training rows, and so few that luck decides."""

import warnings

import numpy as np
import pandas as pd
import pytest
from commands import run
from scipy.sparse import csr_matrix

from rafm import RaFMClassifier, RaFMRanker, RaFMRegressor
from rafm.errors import DataWarning
from rafm.rows import overlap
from rafm.rows.overlap import Copies
from rafm.train.events import Calibrated
from rafm.train.policy import FEW_VALID_ROWS

MODEL = {"model": "fm", "ranks": 4, "n_epochs": 4}
COPIES = r"% of the validation rows are training rows"


def rows(n_rows, seed=0, n_ids=400, scale=1.0):
    """Return rows of three ids, and labels that depend on them."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(0, n_ids, (n_rows, 3)) + n_ids * np.arange(3)
    score = scale * np.random.default_rng(9).normal(size=3 * n_ids)[ids].sum(axis=1)
    X = csr_matrix((np.ones(ids.size, np.float32), ids.ravel(), np.arange(0, ids.size + 1, 3)), (n_rows, 3 * n_ids))
    return X, (draw.logistic(size=n_rows) < score).astype(int)


def said(model, *data):
    """Fit a model; return what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data[:2], eval_set=data[2:])
    assert all(issubclass(one.category, DataWarning) for one in caught)
    assert all(one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("n_copies", [20, 21])
@pytest.mark.parametrize("kind", [RaFMClassifier, RaFMRegressor])
def test_validation_rows_most_of_which_are_training_rows_are_told(kind, n_copies):  # case 123
    (X, y), (more, labels) = rows(300), rows(40, seed=1)
    if kind is RaFMRegressor:  # of 0 and 1 it would warn
        y, labels = 2 * y, 2 * labels
    valid = X[:n_copies].toarray(), y[:n_copies]
    valid = csr_matrix(np.vstack([valid[0], more[n_copies:].toarray()])), np.concatenate([valid[1], labels[n_copies:]])
    found = said(kind(**MODEL), X, y, *valid)
    if n_copies == 20:  # one half
        assert found == []
    else:
        (line,) = found
        assert line.startswith("52% of the validation rows are training rows, which say nothing about new ones: ")
        assert line.endswith("the model is not calibrated on them; give other rows, or none, so that some are held out")


def test_rows_with_other_labels_or_values_are_no_copies():  # case 123
    X, y = rows(300)
    assert said(RaFMClassifier(**MODEL), X, y, X[:100], 1 - y[:100]) == []
    assert said(RaFMClassifier(**MODEL), X, y, 2 * X[:100], y[:100]) == []


@pytest.mark.parametrize("seed", range(5))
def test_equal_rows_are_no_surprise_where_there_are_few_different_ones(seed):  # case 123
    X, y = rows(2_000, n_ids=3)  # 27 different ones
    assert said(RaFMClassifier(**MODEL), X, y, *rows(100, seed + 1, n_ids=3)) == []


def test_copies_are_told_where_a_part_of_the_rows_is_repeated():  # case 123
    X, y = rows(300)
    table = np.vstack([X.toarray(), X.toarray()[:100]]), np.concatenate([y, y[:100]])  # 200 of 400 are there twice
    fresh = rows(100, seed=1)
    assert said(RaFMClassifier(**MODEL), *map(np.asarray, table), fresh[0].toarray(), fresh[1]) == []
    assert len(said(RaFMClassifier(**MODEL), *table, table[0][50:250], table[1][50:250])) == 1


@pytest.mark.parametrize(
    ("found", "are_most"),
    [
        (Copies(1, 1, 1, 0.0), True),
        (Copies(2, 2, 1, 0.0), False),
        (Copies(100, 100, 75, 0.5), False),
        (Copies(100, 100, 76, 0.5), True),
        (Copies(100, 100, 100, 0.9), True),
        (Copies(100, 100, 100, 0.95), False),
        (Copies(100, 100, 100, 1.0), False),
    ],
)
def test_what_chance_explains_does_not_count(found, are_most):  # case 123
    assert found.are_most() == are_most


def test_of_many_rows_a_sample_is_compared(monkeypatch):  # case 123
    monkeypatch.setattr(overlap, "MOST_HASHES", 50)
    X, y = rows(1_000)
    assert len(said(RaFMClassifier(**MODEL), X, y, X[:400], y[:400])) == 1
    assert said(RaFMClassifier(**MODEL), X, y, *rows(400, seed=1)) == []


@pytest.mark.parametrize("calibrate", ["auto", "on"])
def test_no_model_is_calibrated_on_training_rows(calibrate):  # case 123
    X, y = rows(1_500, scale=0.5)
    valid, found = rows(1_500, seed=1, scale=0.5), []
    model = RaFMClassifier(**{**MODEL, "n_epochs": 30, "l2": 0}, calibrate=calibrate, callbacks=found.append)
    assert len(said(model, X, y, X, y)) == 1
    assert not any(isinstance(event, Calibrated) for event in found)
    assert said(model, X, y, *valid) == []
    assert any(isinstance(event, Calibrated) for event in found) or calibrate == "auto"


def test_no_sampled_model_competes_on_training_rows():  # case 123
    X, y = rows(5_100)
    model = RaFMClassifier(validation_fraction=0)
    assert len(said(model, X, y, X[:500], y[:500])) == 1
    assert "sampled fm" not in model.competition_


def test_the_command_says_it_in_one_line(tmp_path):  # case 123
    X, y = rows(60)
    lines = [f"{label} {' '.join(f'{i}:1' for i in X[row].indices)}\n" for row, label in enumerate(y)]
    (tmp_path / "rows.svm").write_text("".join(lines))
    (tmp_path / "valid.svm").write_text("".join(lines[:40]))
    ran = run(
        "train", tmp_path / "rows.svm", "--valid", tmp_path / "valid.svm", "--model", "lr", "--out", tmp_path / "m"
    )
    assert ran.code == 0
    assert ran.err.startswith("warning: 100% of the validation rows are training rows, ")
    assert ran.err.count("\n") == 1


def test_pairs_that_a_ranker_was_trained_on_are_told():  # case 123
    table = pd.DataFrame({"user": [f"u{i % 17}" for i in range(60)], "item": [f"i{i % 23}" for i in range(60)]})
    with pytest.warns(DataWarning, match=COPIES):
        RaFMRanker(ranks=2, model="fm", item_fields=("item",)).fit(table, eval_set=(table[:40], None))


# Few


@pytest.mark.parametrize("n_rows", [1, 3, FEW_VALID_ROWS - 1, FEW_VALID_ROWS])
def test_so_few_validation_rows_that_luck_decides_are_told(n_rows):
    found = said(RaFMClassifier(**MODEL), *rows(300, n_ids=20), *rows(n_rows, seed=1, n_ids=20))
    if n_rows == FEW_VALID_ROWS:
        assert found == []
    else:
        start = "a single validation row decides" if n_rows == 1 else f"only {n_rows} validation rows decide"
        (line,) = found
        assert line.startswith(f"{start} how long to train and which model to keep, mostly by luck; give at least 30, ")
