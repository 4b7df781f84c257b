"""What is imported and compiled when: help imports nothing heavy, and a second run compiles nothing."""

import functools
import re

import pytest
import worlds
from commands import rows_of_pairs, run_alone
from warm import run_script

import rafm

HEAVY = ("numba", "llvmlite", "sklearn", "scipy", "numpy", "pyarrow", "pandas", "polars", "matplotlib")


@functools.cache
def imported_by(*arguments):
    """Return the names of all modules that a command imports."""
    ran = run_alone(*arguments, options=["-X", "importtime"])
    assert ran.code == 0, ran.err
    return set(re.findall(r"^import time:.*\| +(\S+)$", ran.err, re.MULTILINE))


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["--version"]], ids=" ".join)
def test_help_imports_nothing_heavy(arguments):
    packages = {name.split(".")[0] for name in imported_by(*arguments)}
    assert "typer" in packages
    assert packages.isdisjoint(HEAVY)


def test_importing_the_package_imports_nothing_heavy_until_a_name_is_used():
    script = (
        "import sys, rafm; print(sorted(set({}) & set(sys.modules))); rafm.NearestRank; print('numpy' in sys.modules)"
    )
    assert worlds.run_python("-c", script.format(HEAVY)).split("\n")[:2] == ["[]", "True"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with rows and a model of them; what `rafm train` and `evaluate` need is compiled."""
    folder = tmp_path_factory.mktemp("cold")
    (folder / "rows.svm").write_text(rows_of_pairs(30))
    for arguments in (TRAIN, EVALUATE):
        ran = run_alone(*within(folder, arguments))
        assert ran.code == 0, ran.err
    return folder


TRAIN = ("train", "rows.svm", "--valid", "rows.svm", "--out", "m.rafm", "--epochs", "1", "--ranks", "2")
EVALUATE, PREDICT = ("evaluate", "m.rafm", "rows.svm"), ("predict", "m.rafm", "rows.svm")


def within(folder, arguments):
    """Return the arguments with files of the folder."""
    return [folder / argument if "." in argument else argument for argument in arguments]


@pytest.mark.parametrize("arguments", [TRAIN, EVALUATE, PREDICT], ids=lambda arguments: arguments[0])
def test_commands_import_only_what_they_need(folder, arguments):
    imported = imported_by(*within(folder, arguments))
    assert "numba" in imported
    assert imported.isdisjoint(("sklearn", "scipy.sparse", "pandas", "polars", "matplotlib", "pyarrow", "rich"))


def test_commands_on_tables_import_arrow_but_not_pandas(tmp_path):
    (tmp_path / "log.csv").write_text("click,city,price\n" + "1,Rome,2.5\n0,,NA\n0,Oslo,1.0\n" * 50)
    imported = imported_by(*within(tmp_path, ("train", "log.csv", "--label", "click", "--out", "m.rafm")))
    assert "pyarrow" in imported
    assert imported.isdisjoint(("sklearn", "pandas.core.api", "polars", "matplotlib"))


def test_rows_that_wait_in_a_file_do_without_arrow(folder):
    assert "pyarrow" not in imported_by(*within(folder, TRAIN), "--memory", "0")


def test_the_end_of_a_command_looks_for_no_garbage():
    script = (
        "import atexit, gc, sys; atexit.register(lambda: print(gc.get_freeze_count() > 0)); "
        "sys.argv[1:] = ['--version']; from rafm.cli import main; main()"
    )
    assert worlds.run_python("-c", script).split("\n")[1] == "True"


TELLING = """
import runpy
from numba.core import config
config.DEBUG_CACHE = True
runpy.run_module("rafm", run_name="__main__", alter_sys=True)
"""


def code_of(*arguments):
    """Return the files of compiled code that a command reads or writes."""
    ran = run_script(TELLING, *arguments)
    assert ran.returncode == 0, ran.stderr
    assert "Cannot cache" not in ran.stderr
    return set(re.findall(r"^\[cache\] data (?:loaded from|saved to) '(.*)'$", ran.stdout, re.MULTILINE))


def test_another_run_needs_no_code_that_the_first_did_not_need(folder):
    """The first is run again in the end, as another process may have replaced a file by the same code meanwhile."""
    first = (*within(folder, TRAIN), "--ranks", "2,4,8")
    before = code_of(*first)
    assert len(before) > 5
    others = [(*within(folder, TRAIN), "--model", "fm"), (*first, "--update", "algorithm1"), within(folder, PREDICT)]
    found = [code_of(*arguments) for arguments in others]
    known = before | code_of(*first)
    assert [code - known for code in found] == [set()] * len(others)


def test_a_name_that_the_package_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'RaFM'"):
        rafm.RaFM  # noqa: B018
    assert all(hasattr(rafm, name) for name in rafm.__all__)
