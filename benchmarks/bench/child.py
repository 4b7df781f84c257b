"""Measure in a separate process, because other libraries print, abort and hang, and memory is counted per process.

    python -m benchmarks.bench.child MODULE FUNCTION ARGUMENTS RESULT

calls the function of benchmarks.bench.MODULE with a JSON file of keyword arguments, and writes its result as JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

INTERVAL = 0.005  # seconds between two samples of a process's memory


class Ran(NamedTuple):
    """Result of a process: elapsed seconds, peak anonymous memory in MB, output, and why it failed or ""."""

    seconds: float
    peak: float
    output: str
    failure: str


def watch(command: Sequence[object], limit: float, environment: dict[str, str] | None = None) -> Ran:
    """Run a command for at most `limit` seconds and sample its memory; kill it and its children after that.

    Anonymous memory (RssAnon) is what a process has allocated. It excludes pages of mapped files, which the system can
    reclaim at any time.

    >>> watch([sys.executable, "-c", "raise SystemExit('no')"], 60).failure
    'exit code 1: no'
    """
    begin, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [*map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # a process group of its own, so that its children can be killed with it
        )
        try:
            while process.poll() is None and time.perf_counter() < begin + limit:
                peak = max(peak, anonymous_kilobytes(process.pid))
                time.sleep(INTERVAL)
        finally:
            seconds, late = time.perf_counter() - begin, process.poll() is None
            if late:
                _end(process)
        output.seek(0)
        text = output.read().decode(errors="replace")
    return Ran(seconds, 1024e-6 * peak, text, f"stopped after {limit:.0f} s" if late else _failure(process, text))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children."""
    import signal

    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _failure(process: subprocess.Popen[bytes], text: str) -> str:
    if process.returncode == 0:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"exit code {process.returncode}: {lines[-1][:200] if lines else 'no message'}"


def anonymous_kilobytes(process: int) -> int:
    """Return the anonymous memory of a process, 0 if it has ended or the system does not report it."""
    try:
        found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) if found else 0


def call(module: str, function: str, limit: float, threads: int = 1, **arguments: Any) -> dict[str, Any]:
    """Call a function of this package in a process of its own; return its result with `peak`, or {"failed": why}."""
    paths = os.pathsep.join(path for path in sys.path if path)
    settled = {"OMP_NUM_THREADS": str(threads), "TQDM_DISABLE": "1", "PYTHONPATH": paths, "PYTHONWARNINGS": "ignore"}
    settled["USER"] = os.environ.get("USER", "nobody")  # xLearn aborts without it
    with tempfile.TemporaryDirectory() as folder:
        given, result = Path(folder, "arguments.json"), Path(folder, "result.json")
        given.write_text(json.dumps({**arguments, "threads": threads}))
        program = [sys.executable, "-m", "benchmarks.bench.child", module, function, given, result]
        ran = watch(program, limit, settled)
        if ran.failure:
            return {"failed": ran.failure}
        return {**json.loads(result.read_text()), "peak": ran.peak}


def main(module: str, function: str, arguments: str, result: str) -> None:
    """Call the function in a temporary directory; its result must be a dict."""
    found = getattr(importlib.import_module(f"benchmarks.bench.{module}"), function)
    with tempfile.TemporaryDirectory() as folder:
        given = json.loads(Path(arguments).read_text())
        os.chdir(folder)  # some libraries leave files in the current directory
        Path(result).write_text(json.dumps(found(**given)))


if __name__ == "__main__":
    main(*sys.argv[1:])
