"""Validation rows, and rows to score, whose values or ids training has not seen."""

import numpy as np
import pandas as pd
import pytest
from commands import rows_of_pairs, run
from scipy.sparse import csr_matrix

import rafm
from rafm.rows import overlap
from rafm.rows.checked import Batch, check_batch
from rafm.rows.overlap import known_ids
from rafm.rows.source import InMemory

FAST = ("--model", "lr", "--epochs", 1)
IDS = "most ids ({}) were never seen in training; check how they are numbered"


def source(*ids):
    return InMemory(check_batch(Batch(np.array([0, len(ids)]), np.array(ids), np.ones(len(ids)), 99, np.ones(1))))


def test_ids_are_looked_for_until_enough_are_found(monkeypatch):
    monkeypatch.setattr(overlap, "CHUNK", 2)
    assert known_ids(source(1, 2, 3, 4), source(4, 5, 1, 6)).tolist() == [True, False, False, True]
    assert known_ids(source(1, 2, 3, 4), source(1, 2, 3, 4)).tolist() == [True, True, False, False]  # half is enough
    assert known_ids(source(1, 2), source(1, 3, 2, 4), enough=1.0).all()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = rows_of_pairs(60)
    (tmp_path / "r.svm").write_text(rows)
    (tmp_path / "v.svm").write_text(rows_of_pairs(30, seed=1))
    (tmp_path / "far.svm").write_text(rows_of_pairs(30, seed=1, base=100))
    head, cells = "click,user,item\n", [(i % 2, f"u{i % 3}", f"i{i % 4}") for i in range(40)]
    (tmp_path / "t.csv").write_text(head + "".join(f"{y},{user},{item}\n" for y, user, item in cells))
    (tmp_path / "space.csv").write_text(head + "".join(f"{y},{user}, {item}\n" for y, user, item in cells))
    return tmp_path


def test_training_warns_of_validation_rows_that_it_knows_nothing_of(folder):
    ran = run("train", "r.svm", "--valid", "far.svm", "--out", "m.rafm", *FAST)
    assert ran.code == 0
    assert ran.err == f"warning: far.svm: {IDS.format('100.0 %')}\n"
    assert run("train", "r.svm", "--valid", "v.svm", "--out", "m.rafm", *FAST).err == ""
    given = ("--label", "click", "--out", "t.rafm", *FAST)
    assert run("train", "t.csv", "--valid", "t.csv", *given).err == ""
    said = "warning: space.csv: most values of column 'item' were never seen in training; check its format\n"
    assert run("train", "t.csv", "--valid", "space.csv", *given).err == said


def test_scoring_warns_of_ids_that_the_model_does_not_know(folder):
    assert run("train", "r.svm", "--out", "m.rafm", *FAST).code == 0
    for command in ("evaluate", "predict"):
        assert run(command, "m.rafm", "far.svm").err == f"warning: {IDS.format('100.0 %')}\n"
        assert run(command, "m.rafm", "v.svm").err == ""


def test_fit_warns_of_an_eval_set_that_it_knows_nothing_of():
    model, y = rafm.RaFMClassifier(model="lr", n_epochs=1), np.arange(30) % 2
    left, right = (csr_matrix((np.ones(30), (np.arange(30), start + np.arange(30) % 3)), (30, 6)) for start in (0, 3))
    with pytest.warns(rafm.UnseenValuesWarning, match="eval_set: most ids"):
        model.fit(left, y, eval_set=(right, y))
    model.fit(left, y, eval_set=(left, y))
    table = pd.DataFrame({"item": [f"i{i % 3}" for i in range(30)], "user": [f"u{i % 2}" for i in range(30)]})
    with pytest.warns(rafm.UnseenValuesWarning, match="eval_set: most values of column 'item'"):
        model.fit(table, y, eval_set=(table.assign(item=" " + table["item"]), y))
    model.fit(table, y, eval_set=(table, y))
