"""Helpers and kernels: what they contain, when garbage waits, and that only public names of Numba are used."""

import ast
import gc
from pathlib import Path

import numpy as np
import pytest
from numba import config, njit
from worlds import run_python

import rafm
from rafm.jit import compiling
from rafm.jit.compile import PLAIN, helper, kernel

SOURCES = sorted(Path(rafm.__file__).parent.rglob("*.py"))


@pytest.fixture
def without_code(tmp_path, monkeypatch):
    """Compile anew, with an empty cache."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))


def twice(x):
    """Return 2 x."""
    return x + x


def test_kernels_contain_the_helpers_that_they_call():
    inner = helper()(twice)
    outer = helper()(lambda x: inner(x) + inner(x + 1.0))

    @kernel()
    def fill(values):
        for i in range(values.size):
            values[i] = outer(values[i])

    values = np.arange(3.0)
    fill(values)
    np.testing.assert_array_equal(values, 4 * np.arange(3.0) + 2)


def test_helpers_are_python_functions_too():
    assert helper()(twice)(3) == njit(twice)(3) == 6


@pytest.mark.skipif(PLAIN, reason="uncompiled functions have no reference counts; bounds checks need them")
@pytest.mark.parametrize("makes_arrays", [True, False])
def test_only_functions_that_make_arrays_count_references(makes_arrays, without_code):
    @kernel(makes_arrays=makes_arrays)
    def first(pair, i):
        row = pair[0][i] if i > 0 else pair[1][i]
        return row[0]

    assert first((np.ones((2, 2)), np.zeros((2, 2))), 1) == 1
    [code] = first.dispatcher.inspect_llvm().values()
    assert ("NRT_incref" in code) == makes_arrays


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_is_not_collected_while_compiling(is_on, without_code):
    during, inner = [], helper()(lambda x: x - 1)

    class Listener(compiling.LogListener):
        def compiled_part(self, kernel, parts, seconds):
            during.append(gc.isenabled())

    def outer(x):
        return inner(x)

    outer.__module__, before = "rafm.outer", gc.isenabled()
    try:
        (gc.enable if is_on else gc.disable)()
        with compiling.told_to(Listener()):
            kernel()(outer)(1)
        assert (during, gc.isenabled()) == ([False], is_on)
    finally:
        (gc.enable if before else gc.disable)()


# ---- Public names


def private_names(tree):
    """Yield the private names that a module takes from others: attributes, imports, and names of options."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not (isinstance(node.value, ast.Name) and node.value.id in OWN):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("numba", "llvmlite")):
            names = [*node.module.split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [part for alias in node.names for part in alias.name.split(".")]
        elif isinstance(node, ast.keyword):
            names = [node.arg or ""]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            names = [node.value]  # for getattr, or as a key of options
        else:
            continue
        yield from (name for name in names if name.startswith("_") and not name.startswith("__"))


OWN = ("self", "cls", "os", "sys")


def test_private_names_are_found_however_they_are_written():
    written = [
        "a._nrt",
        "f(_nrt=False)",
        "from numba.core import _dispatcher",
        "import numba._devicearray",
        "g(a, '_x')",
    ]
    assert all(len([*private_names(ast.parse(line))]) == 1 for line in written)
    assert not [*private_names(ast.parse("self._x + a.b + a.__class__"))]


def test_no_module_that_compiles_uses_a_private_name_of_numba():
    """In all modules that import Numba or llvmlite; private names of other packages are not used there either."""
    texts = {path: path.read_text(encoding="utf-8") for path in SOURCES}
    texts = {path: text for path, text in texts.items() if "import numba" in text or "from numba" in text}
    found = {path.name: [*private_names(ast.parse(text))] for path, text in texts.items()}
    assert len(found) >= 3
    assert {name: names for name, names in found.items() if names} == {}


POISONED = """
import sys
from pathlib import Path
from numba.core import caching, codegen, compiler, cpu, dispatcher, options, registry

def refuse(self, name):
    caller = sys._getframe(1).f_globals.get("__name__", "")
    by_numba = name == "_compile_for_args"  # from C code, which has no frame
    if name.startswith("_") and not name.startswith("__") and caller.startswith("rafm") and not by_numba:
        raise AttributeError("renamed: " + name)
    return object.__getattribute__(self, name)

poisoned = 0
for module in (caching, codegen, compiler, dispatcher, registry):
    for kind in vars(module).values():
        is_own = isinstance(kind, type) and kind.__module__ == module.__name__
        if is_own and not issubclass(kind, (tuple, BaseException)):
            kind.__getattribute__ = refuse
            poisoned += 1
for kind in cpu.CPUTargetOptions.__mro__:
    if "_nrt" in vars(kind):
        del kind._nrt
assert poisoned > 20

import numpy as np
import rafm
X = np.eye(6)[np.arange(60) % 6] + np.eye(6)[np.arange(60) // 6 % 6]
model = rafm.RaFMClassifier(n_epochs=2, ranks=2, validation_fraction=0).fit(X, np.arange(60) % 2)
print(np.isfinite(model.predict_proba(X)).all(), len([*Path(sys.argv[1]).rglob("*.nbc")]) > 3)
"""


@pytest.mark.slow
def test_models_train_and_code_is_kept_with_private_names_of_numba_renamed(tmp_path):
    folder = str(tmp_path / "cache")
    printed = run_python("-c", POISONED, folder, NUMBA_CACHE_DIR=folder, NUMBA_OPT="0")
    assert printed.split()[-2:] == ["True", "True"]
