"""The disk cache of compiled code: torn, unwritable, raced (case 64)."""

import shutil
from subprocess import PIPE

import pytest
from warm import start_python

MODULE = """
import sys
import numpy as np
from rafm.jit.cache import kernel

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
