"""The first command on a machine says that it compiles, and does not count it as training."""

import io
import json
import os
import pty
import subprocess
import sys

import pytest
from commands import rows_of_pairs, run_alone, start

from rafm.cli.compiling import NOTE, CompileNote


@pytest.fixture
def rows(tmp_path):
    """Return the path of some rows."""
    path = tmp_path / "rows.svm"
    path.write_text(rows_of_pairs(60))
    return path


@pytest.mark.slow
def test_a_first_run_says_once_that_it_compiles_and_trains_for_all_of_its_seconds(rows, tmp_path):
    command = ("train", rows, "--out", tmp_path / "m.rafm", "--epochs", "2", "--ranks", "2", "--valid-share", "0")
    command += ("--json", "--model", "mrma")  # compiles in a third of the time, and without optimisation in less
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_OPT": "0"}
    process = start(*command, "--max-seconds", "1", environment=environment, text=True, stdin=subprocess.DEVNULL)
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert [line for line in err.splitlines() if NOTE in line] == [f"{NOTE} (later runs start at once)"]
    assert err.startswith(NOTE)
    assert "\r" not in err
    result = json.loads(out.splitlines()[-1])
    # Compiling takes longer than --max-seconds: if it counted, not even the first epoch would be complete.
    assert result["compile_seconds"] > 1
    assert result["epochs"] >= 1


def test_nothing_is_said_when_all_is_cached(rows, tmp_path):
    command = ("train", rows, "--out", tmp_path / "m.rafm", "--epochs", "1", "--ranks", "2", "--json")
    assert run_alone(*command).code == 0  # compiles, if no test did before
    process = start(*command, text=True, stdin=subprocess.DEVNULL)
    out, err = process.communicate(timeout=600)
    assert NOTE not in err
    assert '"compile_seconds": 0.0' in out


def test_in_a_pipe_there_is_one_line():
    stream = io.StringIO()
    note = CompileNote(stream)
    for kernel in ("scan_lines", "train_rows"):
        note.started(kernel)
        note.compiled_part(kernel, 3, 1.0)
        note.finished(kernel, 2.0)
    assert stream.getvalue() == f"{NOTE} (later runs start at once)\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")
def test_a_terminal_shows_what_is_compiled_and_clears_it():
    reader, writer = pty.openpty()
    with open(writer, "w") as stream:
        note = CompileNote(stream)
        note.started("train_rows")
        note.drawn = 0.0  # long ago
        note.compiled_part("train_rows", 3, 1.0)
        note.finished("train_rows", 2.0)
        shown, clear = "", "\r\x1b[K"
        while shown.count(clear) < 3:  # a terminal may hand on its text in pieces
            shown += os.read(reader, 4096).decode()
    os.close(reader)
    first, *redrawn = shown.split(clear)
    assert first.startswith(NOTE)
    assert redrawn == ["compiling train_rows", "compiling train_rows: 3 functions done after 1 s", ""]


LOGGING = """
import logging, numpy as np
from rafm.encode.interning import count_ids
count_ids(np.zeros(3, np.int32), np.zeros(1, np.int64))
logging.basicConfig(level='INFO')
count_ids(np.zeros(3, np.int64), np.zeros(1, np.int64))
"""


def test_the_library_only_logs_what_it_compiles(tmp_path):
    """By default nobody sees it."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", LOGGING]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=True)
    assert ran.stdout == ""
    begin, end = ran.stderr.splitlines()
    assert begin.startswith("INFO:rafm:compiling count_ids")
    assert end.startswith("INFO:rafm:compiled count_ids")


INTERRUPTED = """
import runpy, signal, sys
from llvmlite.binding import ExecutionEngine

_, *arguments = sys.argv
plain = ExecutionEngine.set_object_cache

def set_object_cache(engine, notify, get):
    def interrupted(module, code):
        signal.raise_signal(signal.SIGINT)
        notify(module, code)

    plain(engine, interrupted, get)

ExecutionEngine.set_object_cache = set_object_cache
sys.argv = ["rafm", *arguments]
runpy.run_module("rafm", run_name="__main__", alter_sys=True)
"""


def test_an_interrupt_within_the_compiler_ends_the_command_like_any_other(rows, tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", INTERRUPTED, "train", str(rows), "--out", str(tmp_path / "m.rafm")]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    lines = [line for line in ran.stderr.splitlines() if not line.startswith(NOTE)]
    assert (ran.returncode, lines) == (130, ["error: interrupted"])
