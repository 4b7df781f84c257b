"""`rafm inspect MODEL` tells what a model is: task, loss, and the columns of its table with their kinds."""

import json

from commands import run


def test_a_model_of_a_table_is_described_with_its_columns_and_kinds(tmp_path):
    lines = ["y,store,price,city", *(f"{i % 5},{i % 7},{i % 11}.5,{'Rome' if i % 2 else 'Oslo'}" for i in range(60))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    chosen = ("--label", "y", "--task", "count", "--column", "price=bins:4", "--ranks", "2", "--epochs", "1")
    trained = run("train", tmp_path / "t.csv", *chosen, "--out", tmp_path / "m.rafm")
    assert trained.code == 0, trained.err
    for line in ("price   double   bins       as given", "store   int64    category   whole numbers"):
        assert line in trained.out
    report = json.loads(run("inspect", tmp_path / "m.rafm", "--json").out)
    assert (report["task"], report["loss"]) == ("count", "poisson")
    assert report["columns"] == [
        {"column": "city", "kind": "category", "features": 2},
        {"column": "price", "kind": "bins", "n_bins": 4, "features": 4},
        {"column": "store", "kind": "category", "features": 7},
    ]
    shown = run("inspect", tmp_path / "m.rafm").out
    assert "loss           poisson" in shown
    assert "features  kind      column\n       2  category  city\n       4  bins      price\n" in shown


def test_a_model_of_ids_has_no_columns(tmp_path):
    (tmp_path / "t.libsvm").write_text("1 0:1 1:1\n0 1:1\n" * 9)
    run("train", tmp_path / "t.libsvm", "--ranks", "2", "--epochs", "1", "--out", tmp_path / "m.rafm")
    report = json.loads(run("inspect", tmp_path / "m.rafm", "--json").out)
    assert (report["task"], report["loss"], "columns" in report) == ("binary", "log", False)
