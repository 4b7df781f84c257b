"""Programs outside of the package use what it has: benchmarks, experiments and examples."""

import ast
import importlib.util
import inspect
from pathlib import Path

import pytest
from commands import run

from rafm.cli.spelling import MOVED

ROOT = Path(__file__).parents[1]
PROGRAMS = ("benchmarks", "experiments", "examples")
SCRIPTS = sorted(path for folder in PROGRAMS for path in (ROOT / folder).rglob("*.py"))


def taken_from_rafm(tree):
    """Yield (module, name) of everything that a program imports from the package, or from another program."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in ("rafm", *PROGRAMS):
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_program_imports_and_passes_exists(path):
    tree, functions = ast.parse(path.read_text()), {}
    for module, name in taken_from_rafm(tree):
        found = getattr(importlib.import_module(module), name, None)
        if found is None:
            found = importlib.import_module(f"{module}.{name}")
        functions[name] = found
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and inspect.isfunction(functions.get(node.func.id))
        ):
            parameters = inspect.signature(functions[node.func.id]).parameters.values()
            if not any(one.kind is one.VAR_KEYWORD for one in parameters):
                assert {word.arg for word in node.keywords} <= {None, *(one.name for one in parameters)}, node.lineno


@pytest.mark.parametrize("name", MOVED)
def test_a_command_that_left_the_package_says_where_it_is(name):
    ran = run(name, "--quick")
    assert ran.code == 2
    assert f"`python -m {MOVED[name]}`" in ran.error()
    assert importlib.util.find_spec(f"{MOVED[name]}.__main__")
