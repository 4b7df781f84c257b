"""The disk cache of compiled code: torn, unwritable, raced (case 64)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
MODULE = """
import sys
import numpy as np
from rafm.kernels.compiling import kernel

@kernel()
def double(values):
    return values + values

for name in sys.argv[1:]:
    print(double(np.ones(2, name)).dtype, end=" ")
print(sum(double.stats.cache_hits.values()), sum(double.stats.cache_misses.values()))
"""


@pytest.fixture
def start(tmp_path):
    """Return a function that starts the module with a cache folder."""
    (tmp_path / "doubling.py").write_text(MODULE)

    def run(*types, cache=tmp_path / "cache"):
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(SRC)}
        command = [sys.executable, tmp_path / "doubling.py", *types]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    return run


def told(process):
    """Return what a process printed; it must have ended well."""
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return output.split()


def test_code_is_compiled_once_and_then_read(start):
    assert told(start("f4")) == ["float32", "0", "1"]
    assert told(start("f4")) == ["float32", "1", "0"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_torn_files_are_compiled_again(start, tmp_path, suffix, share):
    told(start("f4"))
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
