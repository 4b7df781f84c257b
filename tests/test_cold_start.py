"""What is imported and compiled when: help imports nothing heavy, and a second run compiles nothing."""

import re

import pytest
import worlds
from commands import rows_of_pairs, run_alone

import rafm

HEAVY = ("numba", "llvmlite", "sklearn", "scipy", "numpy", "pyarrow", "pandas", "polars", "matplotlib")


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--version"]], ids=" ".join)
def test_help_imports_nothing_heavy(arguments):
    ran = run_alone(*arguments, options=["-X", "importtime"])
    assert ran.code == 0
    imported = {name.split(".")[0] for name in re.findall(r"^import time:.*\| +(\S+)$", ran.err, re.MULTILINE)}
    assert "typer" in imported
    assert imported.isdisjoint(HEAVY)


def test_importing_the_package_imports_nothing_heavy_until_a_name_is_used():
    script = (
        "import sys, rafm; print(sorted(set({}) & set(sys.modules))); rafm.NearestRank; print('numpy' in sys.modules)"
    )
    assert worlds.run_python("-c", script.format(HEAVY)).split("\n")[:2] == ["[]", "True"]


def test_commands_do_not_import_scikit_learn(tmp_path):
    (tmp_path / "rows.svm").write_text(rows_of_pairs(30))
    arguments = ("train", tmp_path / "rows.svm", "--out", tmp_path / "m.rafm", "--epochs", "1", "--ranks", "2")
    ran = run_alone(*arguments, options=["-X", "importtime"])
    assert ran.code == 0
    imported = set(re.findall(r"^import time:.*\| +(\S+)$", ran.err, re.MULTILINE))
    assert "numba" in imported
    assert imported.isdisjoint(("sklearn", "scipy.sparse", "pandas", "polars", "matplotlib"))


@pytest.mark.slow
def test_a_second_run_compiles_nothing(tmp_path):
    (tmp_path / "rows.svm").write_text(rows_of_pairs(100))
    cache = tmp_path / "cache"
    rows, model = tmp_path / "rows.svm", tmp_path / "m.rafm"

    def compiled_after(*arguments):
        ran = run_alone(*arguments, environment={"NUMBA_CACHE_DIR": str(cache)})
        assert ran.code == 0, ran.err
        files = [path for path in cache.rglob("*") if path.suffix in (".nbi", ".nbc")]
        return {path: (path.stat().st_mtime_ns, path.stat().st_ino, path.stat().st_size) for path in files}

    first = compiled_after("train", rows, "--valid", rows, "--out", model, "--epochs", "2")
    assert len(first) > 10
    assert compiled_after("train", rows, "--valid", rows, "--out", model, "--model", "fm", "--ranks", "4") == first
    assert compiled_after("predict", model, rows) == first


def test_a_name_that_the_package_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'RaFM'"):
        rafm.RaFM  # noqa: B018
    assert all(hasattr(rafm, name) for name in rafm.__all__)
