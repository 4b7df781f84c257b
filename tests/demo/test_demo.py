"""The demonstration trains what it says, on rows and models that anyone can use afterwards."""

import io
from xml.etree import ElementTree

import numpy as np
import pytest
from commands import run
from sklearn.metrics import log_loss

from rafm.demo.comparison import CONTESTANTS, run_demo
from rafm.model.file import load
from rafm.read.open import read_rows


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A small demonstration: its results, what it printed, and its folder."""
    folder, out = tmp_path_factory.mktemp("demo") / "new" / "folder", io.StringIO()
    return run_demo(str(folder), 3000, seed=1, out=out), out.getvalue(), folder


def test_every_contestant_has_a_line_whose_numbers_are_its_own(shown):
    results, printed, _ = shown
    assert [result.name for result in results] == list(CONTESTANTS)
    for result in results:
        found = [line for line in printed.splitlines() if line == result.line()]
        assert len(found) == 1
        assert f"{result.metrics['log_loss']:.5f}" in found[0]
        assert f"{result.model.n_parameters:,d}" in found[0]


def test_every_model_was_saved_and_its_file_has_the_size_that_was_told(shown):
    results, _, folder = shown
    saved = sorted(folder.glob("*.rafm"), key=lambda path: path.stat().st_size)
    assert [path.stat().st_size for path in saved] == sorted(result.n_bytes for result in results)


def test_the_test_loss_can_be_checked_with_the_files_alone(shown):
    results, _, folder = shown
    test = folder / "test.libsvm"
    labels = read_rows(test, task="binary").labels
    ran = run("evaluate", folder / "rafm-2-8-32.rafm", test, "--json")
    assert ran.code == 0
    told = {result.name: result.metrics["log_loss"] for result in results}
    assert ran.json()["log_loss"] == pytest.approx(told["RaFM 2,8,32"], rel=1e-6)
    predicted = run("predict", folder / "rafm-2-8-32.rafm", test).out.split()
    assert log_loss(labels, np.array(predicted, float)) == pytest.approx(told["RaFM 2,8,32"], rel=1e-6)


def test_no_model_is_better_than_the_best_possible(shown):
    results, printed, _ = shown
    best = float(next(line for line in printed.splitlines() if line.startswith("best possible")).split()[-1])
    assert best < min(result.metrics["log_loss"] for result in results)


def test_equal_seeds_give_equal_files(shown, tmp_path):
    _, _, folder = shown
    ran = run("demo", "--out", tmp_path, "--rows", 3000, "--seed", 1)
    assert ran.code == 0, ran.err
    names = sorted(path.name for path in folder.iterdir() if path.suffix in (".rafm", ".libsvm"))
    assert len(names) == len(CONTESTANTS) + 3
    for name in names:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_chart_has_a_mark_for_every_model_that_has_factors(shown):
    results, printed, folder = shown
    assert f"figure: {folder / 'comparison.svg'}" in printed
    chart = ElementTree.parse(folder / "comparison.svg")
    names = [element.text for element in chart.iter("{http://www.w3.org/2000/svg}title")][1:]
    assert names == [result.name for result in results[1:]]


def test_too_few_rows_are_a_usage_error(tmp_path):
    ran = run("demo", "--out", tmp_path / "x", "--rows", 10)
    assert ran.code == 2
    assert "--rows" in ran.error()
    assert not (tmp_path / "x").exists()


def test_models_in_the_folder_can_be_loaded(shown):
    _, _, folder = shown
    families = {load(path).model.plan.family for path in folder.glob("*.rafm")}
    assert families == {"lr", "fm", "difacto", "rafm"}
