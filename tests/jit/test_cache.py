"""The disk cache of compiled code: torn, unwritable, raced (case 64), or open to other users (case 128)."""

import ast
import contextlib
import os
import pickle
import shutil
import subprocess
import sys
import time
from pathlib import Path
from subprocess import PIPE

import pytest
from numba import config
from warm import start_python

from rafm.jit import cache
from rafm.jit.compile import kernel
from rafm.jit.folder_access import locked, place_open_to_others

MODULE = """
import sys
import numpy as np
from rafm.jit.compile import kernel

@kernel()
def double(values):
    for i in range(values.size):  # compiles in a third of the time of values + values
        values[i] += values[i]
    return values

for name in sys.argv[1:]:
    print(double(np.ones(2, name)).dtype, end=" ")
print(sum(double.stats.cache_hits.values()), sum(double.stats.cache_misses.values()))
"""

WITH_A_CACHE = """
import os, runpy, sys
from numba.core import config
os.environ["NUMBA_CACHE_DIR"] = sys.argv[1]
config.reload_config()
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """Return the path of the module."""
    path = tmp_path_factory.mktemp("module") / "doubling.py"
    path.write_text(MODULE)
    return path


@pytest.fixture
def start(module, tmp_path):
    """Return a function that starts the module with a cache folder."""

    def run(*types, cache=tmp_path / "cache"):
        return start_python("-c", WITH_A_CACHE, cache, module, *types, stdout=PIPE, stderr=PIPE, text=True)

    return run


@pytest.fixture(scope="module")
def filled(module):
    """Return a cache folder that holds the module's code."""
    folder = module.parent / "cache"
    assert told(start_python("-c", WITH_A_CACHE, folder, module, "f4", stdout=PIPE, stderr=PIPE, text=True))
    return folder


def told(process):
    """Return what a process printed; it must have ended well."""
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return output.split()


def test_code_is_compiled_once_and_then_read(start):
    assert told(start("f4")) == ["float32", "0", "1"]
    assert told(start("f4")) == ["float32", "1", "0"]


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "share"), [(".nbi", 0.5), (".nbc", 0.0)], ids=["half an index", "no code"])
def test_torn_files_are_compiled_again(start, filled, tmp_path, suffix, share):
    shutil.copytree(filled, tmp_path / "cache")
    for path in (tmp_path / "cache").rglob(f"*{suffix}"):
        path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert told(start("f4")) == ["float32", "0", "1"]
    assert told(start("f4")) == ["float32", "1", "0"]


def test_a_folder_that_cannot_be_is_done_without(start):
    assert told(start("f4", cache="/proc/none"))[0] == "float32"


@pytest.mark.slow
def test_processes_that_compile_at_the_same_time_never_take_one_another_s_code(start, tmp_path):
    kinds = {"f4": "float32", "i8": "int64"}
    processes = [(kind, start(kind)) for kind in kinds for _ in range(2)]
    assert [told(process)[0] for _, process in processes] == [kinds[kind] for kind, _ in processes]
    data = [path.name for path in (tmp_path / "cache").rglob("*.nbc")]
    assert len(data) == len(set(data)) >= 2
    assert told(start(*kinds))[:2] == list(kinds.values())


class Planted:
    """Makes a file where it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


def let_all_write(folder):
    folder.chmod(0o777)


def let_a_group_write(folder):
    os.chown(folder, -1, os.geteuid() + 1)
    folder.chmod(0o775)


def give_away(folder):
    os.chown(folder, 12345, -1)


OPEN = {"everybody": let_all_write, "a group": let_a_group_write, "its owner": give_away}
needs_root = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root can give folders to others"
)


@pytest.mark.slow
@pytest.mark.parametrize("depth", [0, 1, 2], ids=["the folder of all", "the folder around", "the folder"])
def test_code_that_others_could_have_planted_is_not_read_and_that_is_said_once(
    start, filled, tmp_path, depth
):  # case 128
    outer = tmp_path / "cache"
    shutil.copytree(filled, outer)
    [index] = outer.rglob("*.nbi")
    index.write_bytes(pickle.dumps(Planted(tmp_path / "planted")))
    place = (outer, index.parent.parent, index.parent)[depth]
    let_all_write(place)
    before = sorted(outer.rglob("*"))
    for _ in range(2):
        output, errors = start("f4").communicate(timeout=600)
        assert output.split()[0] == "float32", errors
        assert not (tmp_path / "planted").exists()
        assert errors.count("UserWarning") == errors.count(f"{place}: other users can write to this directory") == 1
    assert sorted(outer.rglob("*")) == before


@needs_root
@pytest.mark.parametrize("depth", [0, 1, 2], ids=["the folder of all", "the folder around", "the folder"])
@pytest.mark.parametrize("name", OPEN)
def test_a_folder_is_open_to_whoever_can_write_to_it(tmp_path, name, depth):  # case 128
    folders = tmp_path / "outer", tmp_path / "outer" / "middle", tmp_path / "outer" / "middle" / "inner"
    folders[2].mkdir(parents=True)
    assert place_open_to_others(str(folders[2])) is None
    place_open_to_others.cache_clear()
    OPEN[name](folders[depth])
    assert place_open_to_others(str(folders[2])) == folders[depth]


@needs_root
def test_folders_of_ones_own_and_of_a_group_of_ones_own_are_not_open(tmp_path):  # case 128
    folder = tmp_path / "outer" / "inner"
    folder.mkdir(parents=True)
    folder.parent.chmod(0o1777)  # like /tmp
    folder.chmod(0o775)  # of a user whose group is hers alone
    os.chown(folder, os.geteuid(), os.geteuid())
    assert place_open_to_others(str(folder)) is None


def test_a_folder_in_which_everybody_owns_files_is_open(tmp_path):  # case 128
    folder = tmp_path / "inner"
    folder.mkdir()
    folder.chmod(0o1777)
    assert place_open_to_others(str(folder)) == folder


def test_a_kernel_whose_code_cannot_be_saved_runs_all_the_same(tmp_path):
    """A folder that is taken away after the module was imported."""
    script = tmp_path / "taken.py"
    script.write_text(MODULE.replace("for name", "__import__('shutil').rmtree(double.stats.cache_path)\nfor name"))
    process = start_python(
        "-c", WITH_A_CACHE, tmp_path / "cache", script, "f4", "f8", stdout=PIPE, stderr=PIPE, text=True
    )
    assert told(process)[:2] == ["float32", "float64"]


def test_every_source_that_others_contain_names_the_folder():
    """A module of helpers that another module's kernels may call must be in SHARED, or edits of it go unnoticed."""
    package = Path(cache.__file__).parents[1]
    shared = {path for name in cache.SHARED for path in [package / name, *(package / name).glob("*.py")]}
    for path in set(package.rglob("*.py")) - shared:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            for each in node.names if isinstance(node, ast.ImportFrom) and node.level else ():
                source = package.joinpath(*path.parent.relative_to(package).parts[: -node.level + 1 or None])
                source = source.joinpath(*(node.module or "").split(".")).with_suffix(".py")
                if source not in shared and source.exists():
                    assert each.name not in helpers_of(source), f"{path} takes {each.name} of {source}"


def helpers_of(source):
    """Return the names of the functions of a file that are helpers."""
    helpers, body = set(), ast.parse(source.read_text(encoding="utf-8")).body
    for function in (node for node in body if isinstance(node, ast.FunctionDef)):
        marks = " ".join(map(ast.dump, function.decorator_list))
        if any(f"'{name}'" in marks for name in ("helper", "compiled", "as_written", "inlined", "called")):
            helpers.add(function.name)
    return helpers


@pytest.mark.parametrize("what", ["an inlined file", "its own file", "versions"])
def test_an_edit_of_a_source_or_another_version_means_another_folder(what, monkeypatch, tmp_path):
    package, own = tmp_path / "rafm", tmp_path / "own.py"
    for name in cache.SHARED:
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("") if name.endswith(".py") else (package / name).mkdir()
    monkeypatch.setattr(cache, "PACKAGE", package)
    own.write_text("x = 1")
    found = []
    for _ in range(2):
        cache.digest.cache_clear(), cache.shared_digest.cache_clear()
        found += [cache.digest(str(own)), cache.digest(str(own))]
        if what == "versions":
            monkeypatch.setattr(cache.llvmlite, "__version__", "0")
        else:
            (own if what == "its own file" else package / "kernels" / "new.py").write_text("x = 2")
    cache.digest.cache_clear(), cache.shared_digest.cache_clear()
    assert found[0] == found[1] != found[2] == found[3]


@pytest.mark.parametrize(("days", "is_kept"), [(89, True), (91, False)])
def test_folders_that_nobody_opened_for_long_are_deleted(tmp_path, days, is_kept):
    old = tmp_path / "rafm-0"
    (old / "inner").mkdir(parents=True)
    os.utime(old, (0, time.time() - days * 86_400))
    cache.forget_unused(tmp_path)
    assert old.exists() == is_kept


def test_a_locked_file_is_waited_for(tmp_path):
    script = "from rafm.jit.folder_access import locked\nwith locked({!r}): print('in', flush=True)"
    path = tmp_path / "lock"
    with locked(path):
        process = start_python("-c", script.format(str(path)), stdout=PIPE, stderr=PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
    assert told(process) == ["in"]


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_code_is_saved_while_the_folder_is_locked(tmp_path, monkeypatch):
    """Numba saves between two of its events; if that changes, the lock must."""
    order, replace = [], os.replace

    @contextlib.contextmanager
    def recorded(path):
        order.append("locked")
        yield
        order.append("unlocked")

    def told_replace(old, new):
        order.append(Path(new).suffix)
        replace(old, new)

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "locked", recorded)
    monkeypatch.setattr(os, "replace", told_replace)
    assert kernel()(lambda x: x + 1)(1) == 2
    assert order == ["locked", ".nbi", ".nbc", "unlocked"]
