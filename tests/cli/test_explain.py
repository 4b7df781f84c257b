"""`rafm explain`, `rafm importance`, `rafm similar` and `rafm recommend`, from files to lines."""

import csv
import json

import numpy as np
import pytest
from commands import run

USERS, FILMS = [f"u{k}" for k in range(12)], [f"f{k}" for k in range(9)]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Return a folder with ratings, users, films and a model."""
    folder, rng = tmp_path_factory.mktemp("shop"), np.random.default_rng(0)
    lines = ["user,film,year,liked"]
    for u, f in zip(rng.integers(0, 12, 2000), rng.integers(0, 9, 2000)):
        lines.append(f"{USERS[u]},{FILMS[f]},{1990 + f // 3}.5,{int((u + f) % 3 == 0)}")
    (folder / "ratings.csv").write_text("\n".join(lines) + "\n")
    (folder / "users.csv").write_text("\n".join(["user", *USERS]) + "\n")
    films = [f"{name},{1990 + k // 3}.5" for k, name in enumerate(FILMS)]
    (folder / "films.csv").write_text("\n".join(["film,year", *films]) + "\n")
    options = ("--label", "liked", "--epochs", "4", "--ranks", "2,5", "--out", folder / "m.rafm")
    ran = run("train", folder / "ratings.csv", *options)
    assert ran.code == 0, ran
    return folder


def test_explained_rows_add_up_to_the_score(shop):
    ran = run("explain", shop / "m.rafm", shop / "ratings.csv", "--rows", 5, "--top", 2, "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.code, len(rows)) == (0, 5)
    predicted = [float(line) for line in run("predict", shop / "m.rafm", shop / "ratings.csv").out.split()][:5]
    for row, probability in zip(rows, predicted):
        total = row["bias"] + row["rest"] + sum(term["value"] for term in row["terms"])
        assert total == pytest.approx(row["score"], abs=1e-4)
        assert row["prediction"] == pytest.approx(probability, abs=1e-6)
        assert all({"features", "level", "value"} <= term.keys() for term in row["terms"])
        assert len(row["terms"]) == 2


def test_an_explanation_can_be_read(shop):
    out = run("explain", shop / "m.rafm", shop / "ratings.csv", "--rows", 2).out
    assert out.startswith("row 1: score ")
    assert "\n\nrow 2: score " in out
    assert " x " in out
    assert "(level 2, rank 5)" in out


def test_importance_of_every_column(shop):
    ran = run("importance", shop / "m.rafm", shop / "ratings.csv", "--json", "--rows", 500)
    assert ran.json()["rows"] == 500
    assert {one["column"] for one in ran.json()["columns"]} == {"user", "film", "year"}
    table = run("importance", shop / "m.rafm", shop / "ratings.csv", "--rows", 500).out
    assert table.splitlines()[0].split() == ["column", "importance", "standard", "error"]


def test_importance_tells_of_values_never_seen_in_training(shop, tmp_path):
    (tmp_path / "new.csv").write_text("user,film,year,liked\n" + "stranger,f1,1990.5,1\nu1,f2,1990.5,0\n" * 20)
    assert "user" in run("importance", shop / "m.rafm", tmp_path / "new.csv").err


def test_similar_films_are_listed(shop):
    found = run("similar", shop / "m.rafm", "film=f0", "--json", "--top", 3).json()
    assert found["name"] == "film=f0"
    assert len(found["similar"]) == 3
    assert "film=f" in run("similar", shop / "m.rafm", "film=f0").out
    assert "did you mean" in run("similar", shop / "m.rafm", "film=f").error()


def test_recommended_films_are_those_of_all_predictions(shop, tmp_path):
    ran = run("recommend", shop / "m.rafm", shop / "users.csv", "--items", shop / "films.csv", "--top", 4, "--json")
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [row["context"] for row in rows] == list(range(1, 13))
    pairs = [f"{user},{film},{1990 + k // 3}.5" for user in USERS for k, film in enumerate(FILMS)]
    (tmp_path / "all.csv").write_text("\n".join(["user,film,year", *pairs]) + "\n")
    predicted = run("predict", shop / "m.rafm", tmp_path / "all.csv").out.split()
    probabilities = np.array(predicted, float).reshape(12, 9)
    for row, line in zip(rows, probabilities):
        best = np.argsort(-line, kind="stable")[:4]
        assert [entry["item"] - 1 for entry in row["items"]] == best.tolist()
        assert f"film={FILMS[best[0]]}" in row["items"][0]["features"]


def test_seen_films_are_not_recommended(shop):
    arguments = ("recommend", shop / "m.rafm", shop / "users.csv", "--items", shop / "films.csv", "--top", 9)
    everything = run(*arguments).out.splitlines()
    assert len(everything) == 12 * 9
    nothing = run(*arguments, "--exclude", shop / "ratings.csv").out
    seen = {(line["user"], line["film"]) for line in csv.DictReader((shop / "ratings.csv").read_text().splitlines())}
    assert len(nothing.splitlines()) == 12 * 9 - len(seen)


def test_columns_of_neither_side_are_refused(shop, tmp_path):
    (tmp_path / "other.csv").write_text("colour\nred\n")
    ran = run("recommend", shop / "m.rafm", tmp_path / "other.csv", "--items", shop / "films.csv")
    assert "none of the columns that the model was trained with: " in ran.error()


def test_rows_of_ids_are_split_by_the_items(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(u, 6 + i, (u + i) % 2) for u, i in zip(rng.integers(0, 6, 800), rng.integers(0, 5, 800))]
    (tmp_path / "t.svm").write_text("".join(f"{y} {u}:1 {i}:1\n" for u, i, y in rows))
    (tmp_path / "u.svm").write_text("".join(f"0 {u}:1\n" for u in range(6)))
    (tmp_path / "i.svm").write_text("".join(f"0 {6 + i}:1\n" for i in range(5)))
    assert run("train", tmp_path / "t.svm", "--out", tmp_path / "m.rafm", "--epochs", 3, "--ranks", 4).code == 0
    sides = ("recommend", tmp_path / "m.rafm", tmp_path / "u.svm", "--items", tmp_path / "i.svm", "--top", 5)
    assert len(run(*sides).out.splitlines()) == 30
    assert run(*sides, "--exclude", tmp_path / "t.svm").out == ""
    assert run("explain", tmp_path / "m.rafm", tmp_path / "t.svm", "--rows", 1).out.startswith("row 1: score")


def test_one_row_is_no_rows(tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "x,0\nz,1\n" * 20 + "once,1\n")
    fit = (
        "train",
        tmp_path / "t.csv",
        "--label",
        "y",
        "--model",
        "fm",
        "--ranks",
        2,
        "--epochs",
        1,
        "--valid-share",
        0,
    )
    assert run(*fit, "--out", tmp_path / "m.rafm").code == 0
    assert "a=once  (1 row)\n" in run("similar", tmp_path / "m.rafm", "a=x").out
