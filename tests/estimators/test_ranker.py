"""The ranker and the commands for rankings, from a table of choices to the best items."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import run
from scipy.sparse import csr_matrix

import rafm
from rafm.errors import ConfigError, DataValueError

FILMS = pd.DataFrame({"film": [f"f{k}" for k in range(12)], "genre": [f"g{k % 3}" for k in range(12)]})
QUICK = {"loss": "bpr", "model": "fm", "ranks": 8, "n_epochs": 8, "validation_fraction": 0}


@pytest.fixture(scope="module")
def plays():
    """Users play films of one of three genres, but never film 0, 1 or 2 of the others."""
    rng = np.random.default_rng(0)
    users, films = rng.integers(0, 30, 900), 3 * rng.integers(0, 4, 900)
    return pd.DataFrame({"user": users.astype(str)}).join(FILMS.iloc[films + users % 3].reset_index(drop=True))


@pytest.fixture(scope="module")
def ranker(plays):
    return rafm.RaFMRanker(item_fields=["film", "genre"], **QUICK).fit(plays)


def test_the_best_items_are_those_that_users_choose(ranker):
    users = pd.DataFrame({"user": ["0", "1", "2"]})
    found = ranker.recommend(users, FILMS, top=4).items
    assert [sorted(own) for own in found.tolist()] == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]


def test_a_saved_ranker_is_loaded_as_it_was(ranker, plays, tmp_path):
    ranker.save(tmp_path / "m.rafm")
    loaded = rafm.load(tmp_path / "m.rafm")
    assert isinstance(loaded, rafm.RaFMRanker)
    assert (list(loaded.item_fields), loaded.loss) == (["film", "genre"], "bpr")
    np.testing.assert_array_equal(loaded.predict(plays[:20]), ranker.predict(plays[:20]))
    other = rafm.RaFMRanker(item_fields="film", **{**QUICK, "loss": rafm.Bpr(0.0), "n_epochs": 1}).fit(plays)
    other.save(tmp_path / "m.rafm")
    assert rafm.load(tmp_path / "m.rafm").loss == rafm.Bpr(0.0)
    loaded.partial_fit(plays[:60])
    assert loaded.model_.n_rows == 960


def test_matrices_have_given_fields_and_validation_rows_choose_the_epoch(plays):
    users, films = plays["user"].astype(int), plays["film"].str[1:].astype(int)
    ids = np.stack([users, 30 + films], axis=1)
    X = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(0, ids.size + 1, 2)), shape=(900, 42))
    model = rafm.RaFMRanker(item_fields="item", fields=["user"] * 30 + ["item"] * 12, loss="bpr", ranks=4)
    model.set_params(model="fm", n_epochs=4)
    model.fit(X[:700], eval_set=(X[700:], None))
    assert model.history_[-1]["valid_pair_auc"] > 0.9
    assert model.n_validation_rows_ == 200


def test_what_a_ranker_cannot_do_is_said(ranker, plays):
    with pytest.raises(ConfigError, match="is evaluated on a catalogue: use rafm evaluate --ranking"):
        ranker.importance(plays, np.ones(900))
    with pytest.raises(ConfigError, match="task='ranking' needs item_fields"):
        rafm.RaFMRanker().fit(plays)
    with pytest.raises(ConfigError, match="loss 'bpr' needs task='ranking', found 'regression'"):
        rafm.RaFMRegressor(loss="bpr").fit(plays, np.ones(900))


def test_explanations_and_reports_know_rankings(ranker, plays):
    (explained,) = ranker.explain(plays[:1])
    assert explained.bias + sum(term.value for term in explained.terms) == pytest.approx(explained.score, rel=1e-6)
    page = ranker.report().html
    assert "--task ranking" in page
    assert "--item-fields film,genre" in page


def test_commands_train_judge_and_recommend_without_labels(plays, tmp_path):
    train, later, films = (str(tmp_path / f"{name}.csv") for name in ("train", "later", "films"))
    plays[:800].to_csv(train, index=False)
    plays[800:].to_csv(later, index=False)
    FILMS.to_csv(films, index=False)
    model = str(tmp_path / "m.rafm")
    flags = ("--task", "ranking", "--item-fields", "film,genre", "--model", "fm", "--ranks", 8, "--loss", "bpr:1")
    done = run("train", train, "--valid", later, *flags, "--epochs", 3, "--out", model, "--json")
    assert json.loads(done.out)["history"][-1]["valid_pair_auc"] > 0.9
    judged = run("evaluate", model, later, "--ranking", "--items", films, "--at", 4, "--json")
    assert json.loads(judged.out)["recall@4"] > 0.9
    refused = run("evaluate", model, later)
    assert refused.code == 2
    assert "rafm evaluate --ranking" in refused.err
    scored = run("predict", model, later)
    assert len(scored.out.split()) == 100
    users = tmp_path / "users.csv"
    users.write_text("user\n999\n")
    best = run("recommend", model, users, "--items", films, "--top", 2)
    assert len(best.out.splitlines()) == 2
    assert best.err.startswith("not seen in training: user 100.0 % (1 of 1)\n")


def test_contexts_that_were_seen_with_every_item_cannot_be_judged():
    plays = pd.DataFrame({"user": [*"aabb"] * 10, "film": [*"xyxy"] * 10})
    with pytest.raises(DataValueError, match="its context was seen with every item"):
        rafm.RaFMRanker(item_fields="film", loss="bpr", model="fm", ranks=2).fit(plays)


def test_files_of_ids_need_fields(plays, tmp_path):
    rows = tmp_path / "rows.libsvm"
    pairs = zip(plays["user"].astype(int), plays["film"].str[1:].astype(int))
    rows.write_text("".join(f"1 {user}:1 {30 + film}:1\n" for user, film in pairs))
    fields = tmp_path / "fields.tsv"
    fields.write_text("".join(f"{id}\t{'user' if id < 30 else 'item'}\n" for id in range(42)))
    flags = ("--task", "ranking", "--item-fields", "item", "--model", "fm", "--ranks", 4, "--epochs", 2)
    out = str(tmp_path / "m.rafm")
    assert run("train", str(rows), *flags, "--fields", str(fields), "--out", out).code == 0
    refused = run("train", str(rows), *flags, "--out", out)
    assert refused.code == 3
    assert "ranking needs fields to tell items from contexts" in refused.err


def chosen_matrix():
    """Return users with a taste for every third item."""
    rng = np.random.default_rng(0)
    users, items = np.arange(40).repeat(6), 3 * rng.integers(0, 8, 240)
    return csr_matrix((rng.uniform(0.5, 2, 240), (users, items + users % 3)), shape=(40, 24))


def test_a_matrix_of_users_and_items_is_trained_as_its_pairs():
    X = chosen_matrix()
    model = rafm.RaFMRanker(ranks=6, n_epochs=10, validation_fraction=0).fit(X)
    assert model.model_.loss == rafm.WholeData()
    ids = np.stack([X.tocoo().row, 40 + X.tocoo().col], axis=1)
    rows = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(0, ids.size + 1, 2)), shape=(len(ids), 64))
    fields = ["user"] * 40 + ["item"] * 24
    same = rafm.RaFMRanker(6, item_fields="item", fields=fields, n_epochs=10, validation_fraction=0)
    same.fit(rows, sample_weight=X.tocoo().data)
    for name, array in same.model_.parameters.arrays().items():
        np.testing.assert_array_equal(model.model_.parameters.arrays()[name], array)
    found = model.recommend([4, 5], top=1, exclude=X[[4, 5]])
    assert (found.items % 3).tolist() == [[1], [2]]
    assert not X[4, found.items[0]].sum()
    assert model.recommend(history=X[[4]], top=1).items % 3 == 1
    with pytest.raises(ConfigError, match="contexts must be numbers from 0 to 39"):
        model.recommend([40])


def test_without_options_of_steps_a_ranker_trains_on_all_pairs(plays):
    usual = {"item_fields": ["film", "genre"], "ranks": 4, "n_epochs": 2, "validation_fraction": 0}
    assert rafm.RaFMRanker(**usual).fit(plays).model_.loss.name == "whole-data"
    for own in ({"learning_rate": 0.1}, {"model": "rafm"}, {"metric": "pair_auc"}, {"optimizer": "sgd"}):
        assert rafm.RaFMRanker(**usual, **own).fit(plays).model_.loss.name == "bpr"
    assert rafm.RaFMRanker(**usual).partial_fit(plays).model_.loss.name == "bpr"
