"""Memory of the reader, and its kernels without compilation: what needs a process of its own."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

SRC = Path(__file__).parents[3] / "src"
PRELUDE = """
import re, resource, sys
from rafm.read.libsvm.libsvm import Limits, iterate_libsvm, read_libsvm
from rafm.errors import RafmError

def megabytes(key):
    return int(re.search(key + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1000

def warm_up(path):
    open(path, "w").write("1 6:1 5:0.5\\n")
    read_libsvm(path)
"""


def run_script(script: str, *arguments: object, **environment: str) -> str:
    """Run a script in a new process; return what it printed."""
    process = subprocess.run(
        [sys.executable, "-c", PRELUDE + script, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": str(SRC)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


pytestmark = pytest.mark.slow
linux_only = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


@linux_only
def test_a_huge_id_is_refused_before_anything_is_allocated(tmp_path):  # case 24
    script = """
warm_up(sys.argv[1])
open(sys.argv[1], "w").write("1 1000000000000:1\\n")
room = int(megabytes("VmSize") * 1e6) + 100_000_000
resource.setrlimit(resource.RLIMIT_AS, (room, room))
try:
    read_libsvm(sys.argv[1])
except RafmError as error:
    print(type(error).__name__, error)
"""
    assert re.search(r"ResourceLimitError .*3,725.3 GiB", run_script(script, tmp_path / "train.svm"))


READ_AND_MEASURE = """
warm_up(sys.argv[2])
before = megabytes("VmHWM")
limits = Limits(max_rows=int(sys.argv[3])) if sys.argv[3:] else Limits()
n_rows = 0
try:
    for chunk in iterate_libsvm(sys.argv[1], limits=limits):
        n_rows += chunk.labels.size
except RafmError as error:
    print(type(error).__name__, error)
print("rows", n_rows)
print("grown", megabytes("VmHWM") - before)
"""


def grown(output: str) -> float:
    """Return the megabytes that the script's memory grew by."""
    return float(re.search(r"grown (\S+)", output)[1])


@linux_only
def test_a_line_of_400_megabytes_is_refused_in_bounded_memory(tmp_path):  # case 35
    path = tmp_path / "train.svm"
    path.write_bytes(b"1\n0" + b" 5:1" * 100_000_000)
    output = run_script(READ_AND_MEASURE, path, tmp_path / "small.svm")
    assert re.search(r"ResourceLimitError .*train.svm:2:1: line longer than max_line_bytes = 16777216", output)
    assert grown(output) < 350


@linux_only
def test_memory_does_not_grow_with_the_file(tmp_path):
    output = []
    for n_rows in (3_000_000, 18_000_000):
        path = tmp_path / "train.svm"
        path.write_bytes(b"1 5:1 77:2.5\n" * n_rows)
        output.append(run_script(READ_AND_MEASURE, path, tmp_path / "small.svm"))
        assert f"rows {n_rows}" in output[-1]
    extra = 15_000_000 * len(b"1 5:1 77:2.5\n") / 1e6  # MB of text; its rows would take thrice that
    assert grown(output[1]) < grown(output[0]) + 0.6 * extra


@linux_only
@pytest.mark.parametrize(
    ("text", "max_rows", "expected"),
    [
        (b"\0" * 2**20, [], "ResourceLimitError .*line longer"),
        (b"\n" * 2**20, [], "rows 0"),
        (b"x" * 2**20, [], "ResourceLimitError .*line longer"),
        (b"1 5:1\n" * 200_000, [1234567], "rows 1234567"),
    ],
    ids=["zeros", "blank lines", "one line", "rows"],
)
def test_a_gzip_bomb_stays_in_bounded_memory(tmp_path, text, max_rows, expected):  # case 39
    path = tmp_path / "train.svm"
    path.write_bytes(gzip.compress(text, 1) * 512)
    output = run_script(READ_AND_MEASURE, path, tmp_path / "small.svm", *max_rows)
    assert re.search(expected, output)
    assert grown(output) < 300  # of more than 500 MB of text


@linux_only
def test_a_zstd_bomb_stays_in_bounded_memory(tmp_path):  # case 39
    path, text = tmp_path / "train.svm", b"1 5:1\n" * 10**6
    path.write_bytes(pa.compress(text, "zstd", asbytes=True) * 75)
    output = run_script(READ_AND_MEASURE, path, tmp_path / "small.svm")
    assert "rows 75000000" in output
    assert grown(output) < 300  # of 450 MB of text


def test_the_fault_cases_hold_with_interpreted_kernels():
    faults = Path(__file__).with_name("test_diagnose.py")
    script = f"import pytest; sys.exit(pytest.main(['-q', '-W', 'ignore:overflow', {str(faults)!r}]))"
    assert " passed" in run_script(script, NUMBA_DISABLE_JIT="1")
