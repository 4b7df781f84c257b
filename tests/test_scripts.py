"""Programs outside the package use what the package has: benchmarks, experiments and examples."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted(path for folder in ("benchmarks", "experiments", "examples") for path in (ROOT / folder).glob("*.py"))


def taken_from_rafm(tree):
    """Yield (module, name) of everything that a program imports from the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "rafm":
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
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
