"""Memory of the reader, and its kernels without compilation: what needs a process of its own."""

from __future__ import annotations

import gzip
import itertools
import re
from pathlib import Path

import pyarrow as pa
import pytest
from warm import run_script
from worlds import run_python

PRELUDE = """
import re, resource, sys
from reading import read_libsvm
from rafm.read.libsvm.reader import Limits, iterate_rows
from rafm.errors import RafmError

def megabytes(key):
    return int(re.search(key + r":\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1000

def warm_up(path):
    open(path, "w").write("1 6:1 5:0.5\\n")
    read_libsvm(path)
"""


def run_and_print(script: str, *arguments: object) -> str:
    """Run a script in a new process; return what it printed."""
    process = run_script(PRELUDE + script, *arguments)
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
    assert re.search(r"ResourceLimitError .*3,725.3 GiB", run_and_print(script, tmp_path / "train.svm"))


READ_AND_MEASURE = """
warm_up(sys.argv[1])
before = megabytes("VmHWM")
for path, max_rows in zip(sys.argv[2::2], sys.argv[3::2]):
    limits = Limits(max_line_bytes=2**20)
    n_rows, end = 0, "read"
    try:
        for chunk in iterate_rows(path, chunk_bytes=2**20, limits=limits):
            n_rows += chunk.labels.size
            if n_rows > int(max_rows):
                break
    except RafmError as error:
        end = f"{type(error).__name__} {error}"
    print(f"{n_rows}\\t{megabytes('VmHWM') - before}\\t{end}")
"""


def read_and_measure(folder: Path, *files: tuple[Path, int]) -> list[tuple[int, float, str]]:
    """Read files one after another; return of each its rows, MB by which the process had grown, and how it ended.

    Pieces of 1 MB and lines of no more, so that little text is already too much for them.
    """
    printed = run_and_print(READ_AND_MEASURE, folder / "small.svm", *itertools.chain(*files))
    found = (line.split("\t") for line in printed.splitlines())
    return [(int(n_rows), float(grown), end) for n_rows, grown, end in found]


MANY = 10**9
LONG = "ResourceLimitError .*:1:1: line longer than"
BOMBS = {  # text, how often, most rows; rows that are read, MB that they may take, and how it ends
    "one long line": (b"1" + b" 5:1" * 2**18, 100, MANY, 0, 80, LONG),
    "rows": (b"1 5:1\n" * 200_000, 100, MANY, 20_000_000, 80, "read"),
    "blank lines": (b"\n" * 2**20, 256, MANY, 0, 220, "read"),  # what is known of 1 MB of lines takes 120 MB
    "zeros": (b"\0" * 2**20, 256, MANY, 0, 220, LONG),
}


@linux_only
def test_bombs_stay_in_bounded_memory(tmp_path):  # cases 35 and 39
    for name, (text, times, *_) in BOMBS.items():
        (tmp_path / name).write_bytes(gzip.compress(text, 1) * times)
    text = b"".join(b"1 %d:1\n" % (k * k % 10**6) for k in range(100_000))
    (tmp_path / "zstd").write_bytes(pa.compress(text, "zstd", asbytes=True) * 100)
    files = [(tmp_path / "zstd", MANY), *((tmp_path / name, bomb[2]) for name, bomb in BOMBS.items())]
    expected = [(10**7, 80, "read"), *(bomb[3:] for bomb in BOMBS.values())]
    for (n_rows, grown, end), (rows, bound, ending) in zip(read_and_measure(tmp_path, *files), expected):
        assert n_rows == rows
        assert re.match(ending, end)
        assert grown < bound


@linux_only
def test_memory_does_not_grow_with_the_file(tmp_path):
    for name, n_rows in (("few", 1_000_000), ("many", 6_000_000)):
        (tmp_path / name).write_bytes(b"1 5:1 77:2.5\n" * n_rows)
    (_, few, _), (n_rows, many, _) = read_and_measure(tmp_path, (tmp_path / "few", MANY), (tmp_path / "many", MANY))
    assert n_rows == 6_000_000
    assert many < few + 40  # the text has 65 MB more, and its rows would take thrice that


def test_the_fault_cases_hold_with_interpreted_kernels():
    faults = Path(__file__).with_name("test_diagnose.py")
    assert " passed" in run_python("-m", "pytest", "-q", "-W", "ignore:overflow", faults, NUMBA_DISABLE_JIT="1")
