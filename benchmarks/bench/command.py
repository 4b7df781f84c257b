"""Run the parts of the benchmarks and write their results."""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rafm.errors import ConfigError
from rafm.version import __version__

from .budget import Budget
from .child import call
from .contestants import CONTESTANTS, MODULES, is_installed, library_of
from .memory import run_memory
from .peers import PEERS
from .race import run_race
from .report import report_lines
from .roofline import Limits, compare_with_limits
from .speed import run_speed

Tell = Callable[[str], Any]
PARTS = ("race", "speed", "roofline", "parse", "growth", "memory")
SELF_LIMIT = 900.0  # time limit in seconds of parts that run rafm only


def known_peers() -> list[str]:
    """Return the names of all supported peers."""
    return [name for name in dict.fromkeys((*map(library_of, CONTESTANTS), *PEERS)) if name != "rafm"]


def choose_peers(names: Sequence[str] | None) -> list[str]:
    """Return the named peers, or all that are installed.

    >>> choose_peers(["xlern"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    rafm.errors.ConfigError: unknown peer 'xlern'; choose from xlearn, vw, myfm, lightgbm, sklearn, river, libfm, ...
    """
    for name in names or ():
        if name not in known_peers():
            raise ConfigError(f"unknown peer {name!r}; choose from {', '.join(known_peers())}", key="peers")
        if not is_installed(name):
            raise ConfigError(f"peer {name!r} is not installed", key="peers")
    return [*filter(is_installed, known_peers())] if names is None else [*names]


def choose_parts(names: Sequence[str]) -> list[str]:
    """Return the parts to run, in order; roofline needs the results of speed.

    >>> choose_parts(["roofline"]), choose_parts([]) == list(PARTS)
    (['speed', 'roofline'], True)
    """
    for name in names:
        if name not in PARTS:
            raise ConfigError(f"unknown part {name!r}; choose from {', '.join(PARTS)}", key="parts")
    wanted = {*(names or PARTS)} | ({"speed"} if "roofline" in names else set())
    return [part for part in PARTS if part in wanted]


def describe_machine(peers: Sequence[str]) -> dict[str, Any]:
    """Return processor, system and versions of the software."""
    versions = {"rafm": __version__, "python": platform.python_version()}
    packages = {"sklearn": "scikit-learn", **MODULES}
    for name in ("numba", "numpy", *peers):
        try:
            versions[name] = version(packages.get(name, name))  # without importing it
        except PackageNotFoundError:
            versions[name] = "found"  # a program, not a Python package
    return {"cores": os.cpu_count(), "processor": _processor(), "system": platform.system(), "versions": versions}


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.partition(":")[2] for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0].strip() if names else platform.machine()


def run_bench(parts: Sequence[str], peers: Sequence[str], budget: Budget, tell: Tell) -> dict[str, Any]:
    """Run the parts one after the other; return all results."""
    begin, found = time.perf_counter(), {}  # type: float, dict[str, Any]
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            tell(part)
            start = time.perf_counter()
            found[part] = _run_part(part, found, peers, budget, Path(folder), tell)
            tell(f"{part}: {time.perf_counter() - start:.0f} s")
    machine = describe_machine(peers)
    return {
        "budget": budget.name,
        "machine": machine,
        "parts": found,
        "seconds": time.perf_counter() - begin,
    }


def _run_part(
    part: str, found: dict[str, Any], peers: Sequence[str], budget: Budget, folder: Path, tell: Tell
) -> dict[str, Any]:
    if part == "race":
        return run_race(peers, budget, folder, tell)
    if part == "speed":
        return run_speed(peers, budget, tell)
    if part == "parse":
        return call("parse", "time_parsing", SELF_LIMIT, threads=2, megabytes=budget.parse_megabytes)
    if part == "growth":
        set_rows = budget.shape_rows[0][1] // 4
        return call("growth", "time_growth", SELF_LIMIT, n_rows=budget.growth_rows, set_rows=set_rows)
    if part == "memory":
        return run_memory(budget.memory_rows, folder)
    limits = call("roofline", "measure_limits", SELF_LIMIT, stream_megabytes=budget.stream_megabytes)
    if "failed" in limits:
        return limits
    del limits["peak"]  # memory of the process, added by `call`
    return {"limits": limits, "lines": compare_with_limits(Limits(**limits), found["speed"])}


def write_results(result: dict[str, Any], folder: Path) -> list[Path]:
    """Write bench.json, bench.txt and, if matplotlib is installed, the plots; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / "bench.json", folder / "bench.txt"]
    written[0].write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")
    written[1].write_text("\n".join(report_lines(result)) + "\n")
    try:
        from .figures import draw_all
    except ImportError:
        return written
    return written + draw_all(result, folder)
