"""The house rules that a program can check: sizes, comments, what tests may import, and that data stay data."""

import ast
import io
import re
from collections import Counter
from functools import cache
from pathlib import Path
from tokenize import COMMENT, generate_tokens

import pytest

ROOT = Path(__file__).parents[1]
SRC, TESTS = ROOT / "src" / "rafm", ROOT / "tests"
MODULES = {path.relative_to(SRC).as_posix(): path.read_text() for path in sorted(SRC.rglob("*.py"))}
TEST_FILES = {path.relative_to(TESTS).as_posix(): path.read_text() for path in sorted(TESTS.rglob("*.py"))}
MODULE_LINES, FUNCTION_LINES, PARAMETERS = 450, 60, 20
COMMENT_SHARE = (0.03, 0.07)
KERNEL_LINES, KERNEL_PARAMETERS = 25, 8
COMPILING = {  # decorators of kernels
    "compiled",
    "entry",
    "as_written",
    "kernel",
    "helper",
    "inlined",
    "called",
    "intrinsic",
}
LARGER_KERNELS = {  # and why
    "jit/vectors.py:adagrad_steps": "an operation on four arrays, with the numbers of a step",
    "kernels/whole_data.py:multiply": "four products at a time, then the rest one by one",
    "kernels/whole_data.py:solve_systems": "allocates its work space",
    "kernels/mixture.py:step_factors": "both vectors of a pair, for every rank",
    "kernels/mixture.py:step_mixture": "both weights of a pair, for every rank",
    "kernels/mixture.py:train_mixture": "called from Python: the arrays of one pass",
    "read/csv/plain_kernels.py:split_rows": "one pass over bit masks, whose ten running numbers would be arguments",
    "read/csv/plain_kernels.py:read_columns": "called from Python: the arrays of one pass",
    "rows/numbering.py:_sort_by_counts": "the arrays of one pass, and room to sort a row in",
    "rows/numbering.py:_sort_rows": "called from Python: the arrays of one pass, and room to sort a row in",
}
PUBLIC = ("_replace", "_asdict", "_fields", "_make", "_dict")  # of named tuples, and what a DOK matrix of SciPy is
PUBLIC += ("_repr_html_", "_repr_mimebundle_")  # what notebooks call
CALLED_BY_OTHERS = {  # defined here and called by nobody here, and who calls it
    "handle_exit": "uvicorn, of a server",
    "choose_compiled": "Numba, in the place of what it is registered for",
    "decision_function": "scikit-learn, of a classifier",
    "predict_proba": "scikit-learn, of a classifier",
    "pid": "tests that kill an actor",
    "read_rows": "benchmarks, experiments and tests",
    "train_model": "benchmarks, experiments and tests",
    "train_sizes": "experiments.paper",
    "train_sampled_sizes": "experiments.paper",
}
ESTIMATORS = {f"estimators/{name}.py" for name in ("classifier", "regressor", "ranker")}
PROGRAMS = ("rafm", "experiments", "benchmarks")
WITHOUT_MODULES = {"fuzz", "golden", "experiments", "benchmarks"}  # folders of tests that mirror no folder of modules


@cache
def nodes_of(text):
    """Return all nodes of a module."""
    return [*ast.walk(ast.parse(text))]


@cache
def functions():
    """Return (module:name, definition) of every function and method."""
    nodes = ((name, node) for name, text in MODULES.items() for node in nodes_of(text))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [(f"{name}:{node.name}", node) for name, node in nodes if isinstance(node, kinds)]


def n_lines(node):
    """Count the lines of a function without its docstring and decorators."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def n_parameters(node):
    given = node.args
    return len([*given.posonlyargs, *given.args, *given.kwonlyargs])


def n_comments(text):
    """Count the comments for readers, not those for linters."""
    comments = (token.string for token in generate_tokens(io.StringIO(text).readline) if token.type == COMMENT)
    return sum(not comment.startswith(("# type:", "# noqa", "# mypy:")) for comment in comments)


def test_no_module_is_longer_than_a_reader_can_hold():
    long = {name for name, text in MODULES.items() if len(text.splitlines()) > MODULE_LINES}
    # each one file by nature: `export --to python` copies the first, and all emitted code is in the second
    assert long <= {"export/program.py", "jit/lanes.py"}
    assert len(MODULES["jit/lanes.py"].splitlines()) <= 500


def test_no_function_is_longer_than_a_page():
    assert not {name: n_lines(node) for name, node in functions() if n_lines(node) > FUNCTION_LINES}


def test_no_function_has_more_parameters_than_a_command_has_flags():
    many = {name.partition(":")[0] for name, node in functions() if n_parameters(node) > PARAMETERS}
    assert many == ESTIMATORS  # scikit-learn's way: one parameter per option


def is_kernel(node):
    """Tell whether a function is compiled, by its decorators."""
    names = (each.func if isinstance(each, ast.Call) else each for each in node.decorator_list)
    return any(isinstance(name, ast.Name) and name.id in COMPILING for name in names)


def test_kernels_are_small_or_say_why_not():
    kernels = [(name, node) for name, node in functions() if is_kernel(node)]
    assert len(kernels) > 100
    large = {name for name, node in kernels if n_lines(node) > KERNEL_LINES or n_parameters(node) > KERNEL_PARAMETERS}
    assert large == set(LARGER_KERNELS)


def defined(text):
    """Yield the names of functions, classes and constants of a module."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    yield from (node.name for node in nodes_of(text) if isinstance(node, kinds))
    for node in nodes_of(text)[0].body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def test_nothing_is_defined_that_nothing_names():
    words = Counter(word for text in MODULES.values() for word in re.findall(r"\w+", text))
    names = {name for text in MODULES.values() for name in defined(text) if not name.startswith("__")}
    assert {name for name in names if words[name] == 1} - set(PUBLIC) == set(CALLED_BY_OTHERS)


def test_comments_are_few_but_there():
    lines = sum(len(text.splitlines()) for text in MODULES.values())
    share = sum(map(n_comments, MODULES.values())) / lines
    print(f"{share:.1%} of {lines:,} lines have a comment")
    assert COMMENT_SHARE[0] < share < COMMENT_SHARE[1]


def test_folders_of_tests_are_those_of_modules():
    folders = {str(Path(name).parent) for name in MODULES}
    tested = {str(Path(name).parent) for name in TEST_FILES}
    assert tested - folders <= WITHOUT_MODULES
    tops = {Path(folder).parts[0] for folder in folders if folder != "."}
    assert tops <= tested


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def imported(tree):
    """Yield (module, names) of every import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, ()) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or "", tuple(alias.name for alias in node.names)


def private_names(tree):
    """Yield private names of ours that a test imports, reads, sets or replaces."""
    for module, names in imported(tree):
        if module.partition(".")[0] in PROGRAMS:
            yield from filter(is_private, (*module.split("."), *names))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in PUBLIC:
            yield node.attr
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("rafm."):
            yield from filter(is_private, node.value.split("."))


def test_test_files_import_no_test_file_and_no_private_name():
    trees = {name: ast.parse(text) for name, text in TEST_FILES.items()}
    taken = [(name, module) for name, tree in trees.items() for module, _ in imported(tree)]
    assert not [each for each in taken if each[1].split(".")[-1].startswith("test_")]
    assert not {name: private for name, tree in trees.items() if (private := list(private_names(tree)))}


def test_private_names_are_found_wherever_a_test_may_take_them():
    program = """
from rafm.read import _hidden
import rafm._secret
sketch._slots
monkeypatch.setattr("rafm.read.compression._open", None)
row._replace(x=1).__class__
"""
    assert list(private_names(ast.parse(program))) == ["_hidden", "_secret", "_slots", "_open"]


# Data never become code

FORBIDDEN_MODULES = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "copyreg"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {"np.load", "numpy.load", "torch.load", "pd.read_pickle", "pandas.read_pickle"}


def ways_to_run_code(source):
    """Yield the imports and calls of a source file through which data could become code."""
    for node in nodes_of(source):
        if isinstance(node, ast.Import):
            yield from FORBIDDEN_MODULES & {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            paths = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from FORBIDDEN_ATTRIBUTES & paths
            yield from FORBIDDEN_MODULES & {
                str(node.module).split(".")[0],
                *(p.split(".")[-1] for p in paths),
            }
        elif isinstance(node, ast.Name):
            yield from FORBIDDEN_CALLS & {node.id}
        elif isinstance(node, ast.Attribute):
            yield from FORBIDDEN_ATTRIBUTES & {ast.unparse(node) if node.attr in ("load", "read_pickle") else ""}
        elif isinstance(node, ast.keyword):
            yield from {"allow_pickle"} & {node.arg}


def test_no_file_of_the_package_can_turn_data_into_code():
    assert {name: ways for name, text in MODULES.items() if (ways := list(ways_to_run_code(text)))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "import os, marshal as m",
        "from joblib import load",
        "from sklearn.externals import joblib",
        "def f():\n    from dill import loads",
        "eval('1')",
        "run = exec",
        "import numpy as np\nnp.load('x')",
        "from numpy import load",
        "f(x, allow_pickle=True)",
    ],
)
def test_the_search_for_ways_to_run_code_finds_them(source):
    assert list(ways_to_run_code(source))
