"""What the package imports is declared, what is declared is used, and bounds are those of versions that were tried."""

import ast
import re
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import numba
import pytest

NEWEST_NUMBA = (0, 68)  # that was tried
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
IMPORTED_AS = {"scikit-learn": "sklearn"}
NOT_IMPORTED = {"httptools"}  # uvicorn imports it
ACCEPTED = {"pandas", "polars"}  # their data frames are taken from who has them; nobody needs them


def bounds(lines):
    """Return the lowest version, and the first that is too new or None, of each package; every line must have one."""
    found = [re.fullmatch(r"([\w-]+)>=([\d.]+)(?:,<([\d.]+))?(?:; .*)?", line).groups() for line in lines]
    return {name: (lowest, too_new) for name, lowest, too_new in found}


def own(extra):
    """Return what an extra lists besides other extras of the package."""
    return [line for line in EXTRAS[extra] if not line.startswith("rafm[")]


USED = [line for extra in EXTRAS.keys() - {"dev", "docs"} for line in own(extra)]
RUNNING = bounds([*PROJECT["dependencies"], *USED])


def test_the_lowest_versions_that_ci_installs_are_those_declared():  # case 138
    declared = {**RUNNING, **bounds(own("dev"))}
    lines = (ROOT / ".ci" / "lowest.txt").read_text().splitlines()
    assert sorted(lines) == sorted(f"{name}=={lowest}" for name, (lowest, _) in declared.items())


def test_the_package_imports_what_it_declares_and_nothing_else():
    nodes = [node for path in (ROOT / "src").rglob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8")))]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    imported = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - ACCEPTED
    assert imported == {IMPORTED_AS.get(name, name) for name in RUNNING.keys() - NOT_IMPORTED}


def test_numba_has_an_upper_bound_just_above_the_newest_version_that_was_tried():
    major, minor = NEWEST_NUMBA
    assert RUNNING["numba"][1] == f"{major}.{minor + 1}"


def test_llvmlite_has_the_bounds_of_the_lowest_and_the_newest_numba():
    [line] = [line for line in requires("numba") if line.startswith("llvmlite")]
    lowest, too_new = re.search(r">=([\d.]+?)(?:\.0)?dev0", line)[1], re.search(r"<([\d.]+)", line)[1]
    if f"{numba.version_info.major}.{numba.version_info.minor}" == RUNNING["numba"][0]:
        assert lowest == RUNNING["llvmlite"][0]
    elif numba.version_info.short == NEWEST_NUMBA:
        assert too_new == RUNNING["llvmlite"][1]
    else:
        pytest.skip("neither the lowest nor the newest Numba")
