"""`rafm warmup` compiles ahead what other commands need."""

import pytest
from commands import run, run_alone, start

TABLE = "y,user,price\n" + "".join(f"{row % 2},u{row % 5},{row / 4}\n" for row in range(50))


@pytest.fixture(scope="module")
def report():
    """Return what the command says once it has compiled all that was missing."""
    ran = run("warmup", "--json")
    assert ran.code == 0, ran.err
    return ran


def test_the_second_run_finds_everything_compiled(report):
    again = run_alone("warmup")
    assert again.out.startswith("everything is already compiled; the code is in ")
    assert report.json()["cache"] in again.out
    assert again.err == ""


def test_a_run_after_it_compiles_nothing(report, tmp_path):
    (tmp_path / "rows.csv").write_text(TABLE)
    command = ("train", tmp_path / "rows.csv", "--label", "y", "--out", tmp_path / "m.rafm", "--epochs", "1", "--json")
    out, err = start(*command, text=True).communicate(timeout=600)
    assert '"compile_seconds": 0.0' in out, err
