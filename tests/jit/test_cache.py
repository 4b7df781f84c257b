"""The disk cache of compiled code: torn, unwritable, raced (case 64), or open to other users (case 128)."""

import os
import pickle
import shutil
import sys
from subprocess import PIPE

import pytest
from warm import start_python

from rafm.jit.folder_access import place_open_to_others

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
@pytest.mark.parametrize("depth", [0, 1], ids=["the folder around", "the folder"])
def test_code_that_others_could_have_planted_is_not_read_and_that_is_said_once(
    start, filled, tmp_path, depth
):  # case 128
    cache = tmp_path / "cache"
    shutil.copytree(filled, cache)
    [inner] = cache.iterdir()
    [index] = inner.glob("*.nbi")
    index.write_bytes(pickle.dumps(Planted(tmp_path / "planted")))
    place = (cache, inner)[depth]
    let_all_write(place)
    before = sorted(cache.rglob("*"))
    for _ in range(2):
        output, errors = start("f4").communicate(timeout=600)
        assert output.split()[0] == "float32", errors
        assert not (tmp_path / "planted").exists()
        assert errors.count("UserWarning") == errors.count(f"{place}: other users can write to this directory") == 1
    assert sorted(cache.rglob("*")) == before


@needs_root
@pytest.mark.parametrize("depth", [0, 1], ids=["the folder around", "the folder"])
@pytest.mark.parametrize("name", OPEN)
def test_a_folder_is_open_to_whoever_can_write_to_it(tmp_path, name, depth):  # case 128
    folders = tmp_path / "outer", tmp_path / "outer" / "inner"
    folders[1].mkdir(parents=True)
    assert place_open_to_others(str(folders[1])) is None
    place_open_to_others.cache_clear()
    OPEN[name](folders[depth])
    assert place_open_to_others(str(folders[1])) == folders[depth]


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
