"""`--threads` reports what is really used."""

import pytest
from commands import rows_of_pairs, run


@pytest.mark.parametrize(("model", "used"), [("rafm", 2), ("mrma", 1)])
def test_more_threads_than_training_uses_are_noted(tmp_path, model, used):
    (tmp_path / "rows.svm").write_text(rows_of_pairs(60))
    more = ("--model", model, "--ranks", "2", "--epochs", "1", "--json")
    ran = run("train", tmp_path / "rows.svm", "--out", tmp_path / "m.rafm", "--threads", "8", *more)
    assert f"note: training uses {used} of 8 threads; more do not help this model\n" in ran.err
    assert ran.json()["threads"] == used


def test_threads_that_are_all_used_are_not_noted(tmp_path):
    (tmp_path / "rows.svm").write_text(rows_of_pairs(60))
    more = ("--threads", "2", "--ranks", "2", "--epochs", "1", "--json")
    ran = run("train", tmp_path / "rows.svm", "--out", tmp_path / "m.rafm", *more)
    assert "note" not in ran.err
    assert ran.json()["threads"] == 2
