"""Seen pairs are excluded by what names both sides, whatever else their rows hold."""

import json

import numpy as np
import pandas as pd
import pytest
from commands import run
from fitted import make

from rafm.errors import ConfigError, DataValueError, DataWarning

N_USERS, N_FILMS, PER_USER = 30, 40, 8


def ratings():
    """Return ratings of eight films by each user, with columns of users, films and of the rating itself."""
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(N_USERS), PER_USER)
    film = np.concatenate([rng.permutation(N_FILMS)[:PER_USER] for _ in range(N_USERS)])
    return pd.DataFrame(
        {
            "age": rng.normal(40, 9, user.size).round(1),
            "job": np.array(["cook", "nurse", "pilot"])[user % 3],
            "user": user,
            "film": [f"f{k}" for k in film],
            "genre": np.array(["war", "love"])[film % 2],
            "hour": rng.integers(0, 24, user.size).astype(str),
            "liked": (user + film) % 2,
        }
    )


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Return a model, its ratings, a context of one user, the catalogue and a folder with all of that."""
    folder, table = tmp_path_factory.mktemp("shop"), ratings()
    model = make(n_epochs=2, model="fm").fit(table.drop(columns="liked"), table["liked"])
    users = table.loc[table["user"] == 7, ["age", "job", "user", "hour"]].head(1)
    films = pd.DataFrame({"film": [f"f{k}" for k in range(N_FILMS)], "genre": ["war", "love"] * (N_FILMS // 2)})
    model.save(folder / "m.rafm")
    for name, own in (("users", users), ("films", films), ("ratings", table)):
        own.to_csv(folder / f"{name}.csv", index=False)
    return model, table, users, films, folder


SEEN = {
    "all columns": lambda rows: rows,
    "the names alone": lambda rows: rows[["film", "user"]],
    "another age and hour": lambda rows: rows.assign(age=77.5, hour="25"),
    "users as text": lambda rows: rows[["user", "film"]].astype(str),
    "users with a point": lambda rows: rows.assign(user=rows["user"].astype(float))[["user", "film"]],
    "further columns": lambda rows: rows.assign(colour="red", liked=0),
    "rows of others and missing ones": lambda rows: pd.concat([rows, rows.assign(user=None, film="f1")]),
}


def films_of(table):
    return set(table.loc[table["user"] == 7, "film"])


@pytest.mark.parametrize("seen", SEEN)
def test_no_seen_film_comes_back_in_python_and_on_the_command_line(shop, tmp_path, seen):  # case 131
    model, table, users, films, folder = shop
    rows = SEEN[seen](table)
    found = model.recommend(users, films, top=N_FILMS, exclude=rows).items[0]
    assert {films["film"][i] for i in found if i >= 0} == {*films["film"]} - films_of(table)
    rows.to_csv(tmp_path / "seen.csv", index=False)
    sides = (folder / "m.rafm", folder / "users.csv", "--items", folder / "films.csv", "--top", N_FILMS)
    ran = run("recommend", *sides, "--exclude", tmp_path / "seen.csv", "--json")
    answer = json.loads(ran.out)
    assert answer["excluded"] == PER_USER
    assert {films["film"][entry["item"] - 1] for entry in answer["items"]} == {*films["film"]} - films_of(table)


def test_users_and_films_that_the_model_does_not_know_are_excluded_too(shop):  # case 131
    model, _, users, films, _ = shop
    users, films = pd.concat([users, users]).assign(user=[1001, 1002]), films.assign(film="new " + films["film"])
    seen = pd.DataFrame({"user": [1001], "film": ["new f3"]})
    found = model.recommend(users, films, top=N_FILMS, exclude=seen).items
    assert [3 in own for own in found.tolist()] == [False, True]


def test_an_item_that_is_listed_twice_is_excluded_twice(shop):  # case 131
    model, table, users, films, _ = shop
    found = model.recommend(users, pd.concat([films, films]), top=2 * N_FILMS, exclude=table).items[0]
    assert (found >= 0).sum() == 2 * (N_FILMS - PER_USER)


def test_the_columns_that_name_both_sides_can_be_chosen(shop, tmp_path):  # case 131
    model, _, users, films, folder = shop
    seen = pd.DataFrame({"job": users["job"], "genre": "war"})
    found = model.recommend(users, films, top=N_FILMS, exclude=seen, exclude_by=("job", "genre")).items[0]
    assert {films["genre"][i] for i in found if i >= 0} == {"love"}
    seen.to_csv(tmp_path / "seen.csv", index=False)
    sides = ("recommend", folder / "m.rafm", folder / "users.csv", "--items", folder / "films.csv", "--json")
    ran = run(*sides, "--exclude", tmp_path / "seen.csv", "--exclude-by", "job,genre")
    assert ran.json()["excluded"] == N_FILMS // 2
    message = "the seen pairs have no column 'user', which names the contexts, only job, genre; add it"
    with pytest.raises(DataValueError, match=f"{message}, or name the columns of both sides by exclude_by"):
        model.recommend(users, films, exclude=seen)
    assert (
        f"{message}, or name the columns of both sides by --exclude-by"
        in run(*sides, "--exclude", tmp_path / "seen.csv").error()
    )
    for wrong, words in ((("job", "title"), "the items have no column 'title'"), ("job", "must be two columns")):
        with pytest.raises(ConfigError, match=f"exclude_by.*{words}"):
            model.recommend(users, films, exclude=seen, exclude_by=wrong)
    assert "--exclude-by" in run(*sides, "--exclude", tmp_path / "seen.csv", "--exclude-by", "job").error()


def test_pairs_that_exclude_nothing_are_a_warning(shop, tmp_path):  # case 131
    model, _, users, films, folder = shop
    seen = pd.DataFrame({"user": ["u7"], "film": ["f1"]})
    with pytest.warns(DataWarning, match="nothing is excluded: .* compared by 'user' and 'film'"):
        model.recommend(users, films, exclude=seen)
    seen.to_csv(tmp_path / "seen.csv", index=False)
    sides = ("recommend", folder / "m.rafm", folder / "users.csv", "--items", folder / "films.csv")
    ran = run(*sides, "--exclude", tmp_path / "seen.csv", "--json")
    assert ran.err.startswith("warning: nothing is excluded")
    assert ran.err.count("\n") == 1
    assert ran.json()["excluded"] == 0


@pytest.mark.parametrize(
    "exclude",
    [[[242]], [[-1]], [["f3"]], [[True]], [[0.5]], [3], [np.array([[1]])], ["f3"]],
    ids=["too large", "negative", "ids", "booleans", "fractions", "a number", "a table", "text"],
)
def test_ids_in_place_of_row_numbers_are_refused(shop, exclude):  # case 131
    model, _, users, films, _ = shop
    message = "exclude must have, for each context, an array of row numbers of items, from 0 to 39; found .* context 1"
    with pytest.raises(ConfigError, match=f"{message}; to exclude by ids, pass a table"):
        model.recommend(users, films, exclude=exclude)
    assert model.recommend(users, films, top=N_FILMS, exclude=[[]]).items.min() >= 0


def test_rankings_exclude_by_the_same_columns(shop, tmp_path):  # case 131
    _, table, _, _, folder = shop
    test = table[table["user"] < 5].assign(age=33.5, liked=1)
    test.to_csv(tmp_path / "test.csv", index=False)
    half = test.groupby("user").head(4)[["user", "film"]]
    half.to_csv(tmp_path / "half.csv", index=False)
    arguments = ("evaluate", folder / "m.rafm", tmp_path / "test.csv", "--label", "liked", "--ranking")
    arguments += ("--items", folder / "films.csv")
    whole = run(*arguments, "--json").json()
    kept = run(*arguments, "--json", "--exclude", tmp_path / "half.csv").json()
    test.drop(half.index).to_csv(tmp_path / "rest.csv", index=False)
    contexts = len(test.drop(half.index).drop_duplicates(["user", "hour"]))
    assert (whole["contexts"], kept["contexts"]) == (len(test.drop_duplicates(["user", "hour"])), contexts)
    assert "excluded" not in whole
    assert kept["excluded"] == 4 * len(test.drop_duplicates(["user", "hour"]))
    ran = run(*arguments, "--exclude", folder / "films.csv")
    assert "the seen pairs have no column 'user'" in ran.error()


def test_rows_of_ids_are_excluded_by_the_largest_field_of_each_side(tmp_path):  # case 131
    rng = np.random.default_rng(0)
    users, films = rng.integers(0, 9, 400), rng.integers(0, 12, 400)
    lines = [f"{(u + i) % 2} {u}:1 {10 + u % 3}:1 {20 + i}:1 {40 + i % 2}:1" for u, i in zip(users, films)]
    (tmp_path / "t.svm").write_text("\n".join(lines) + "\n")
    ids = {"user": range(9), "job": range(10, 13), "film": range(20, 32), "genre": range(40, 42)}
    (tmp_path / "fields.tsv").write_text("".join(f"{id}\t{name}\n" for name, own in ids.items() for id in own))
    (tmp_path / "u.svm").write_text("0 3:1 10:1\n")
    (tmp_path / "i.svm").write_text("".join(f"0 {20 + i}:1 {40 + i % 2}:1\n" for i in range(12)))
    (tmp_path / "seen.svm").write_text("0 3:1 12:1 25:1 41:1\n0 4:1 10:1 26:1 40:1\n0 3:1 27:1\n0 99:1 28:1\n")
    options = ("--out", tmp_path / "m.rafm", "--epochs", 2, "--ranks", 2, "--valid-share", 0)
    sides = ("recommend", tmp_path / "m.rafm", tmp_path / "u.svm", "--items", tmp_path / "i.svm", "--top", 12, "--json")
    assert run("train", tmp_path / "t.svm", "--fields", tmp_path / "fields.tsv", *options).code == 0
    answer = run(*sides, "--exclude", tmp_path / "seen.svm").json()
    assert answer["excluded"] == 2
    assert {1, 2, 3, 4, 5, 7, 9, 10, 11, 12} == {entry["item"] for entry in answer["items"]}
    assert run("train", tmp_path / "t.svm", *options).code == 0
    ran = run(*sides, "--exclude", tmp_path / "seen.svm")
    assert ran.json()["excluded"] == 0
    assert "compared by all their features" in ran.err
