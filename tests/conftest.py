"""Property tests draw the same examples in every run, and two workers begin with what takes longest."""

import functools
import gc
import os
import signal
from pathlib import Path

import drawing
from hypothesis import settings

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each of hundreds of processes would parse the package again
settings.load_profile(drawing.STEADY)
# Signals may be ignored where tests were started (by nohup, or in the background), and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

TESTS = Path(__file__).parent
FRONT = (
    "estimators",
    "train",
    "cli",
    "experiments",
    "benchmarks",
    "demo",
    "model",
)  # they train in float32, and wait for its kernels
BACK = "kernels"  # most of which nobody else compiles
LATER = "test_pairs.py"  # of these, what estimators compile at the same time


def pytest_collection_modifyitems(config, items):
    """Leave out what a test runs in an interpreter of its own; deal out the rest."""
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        left_out = {item for item in items if (mark := item.get_closest_marker("interpreted")) and not mark.kwargs}
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)
    deal_out(items)


def deal_out(items):
    """Give each of two workers one half of the tests, so that they do not compile the same code at the same time.

    `--dist worksteal` hands out the list in two parts, and who is done takes tests from the other's end. So each half
    begins with the folder that compiles most, goes on with slow tests, and ends with quick ones.
    """
    front = sorted((item for item in items if folder_of(item) in FRONT), key=haste)
    back = sorted((item for item in items if folder_of(item) not in FRONT), key=haste)
    half = len(items) // 2
    if len(front) > half:
        front, back = front[:half], back + front[half:]
    else:
        front, back = front + back[len(items) - half :], back[: len(items) - half]
    items[:] = front + back


def pytest_collection_finish(session):
    """Spare the garbage collector what was imported and collected: it lives as long as the run."""
    gc.freeze()


def folder_of(item):
    """Return the folder of a test below this one, or "" for those elsewhere."""
    return folder_below(item.path)


@functools.cache
def folder_below(path):
    return path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else ""


def haste(item):
    """Return what sorts tests by when they should run; equal ones stay in their order."""
    return folder_of(item) not in (FRONT[0], BACK), item.path.name == LATER, item.get_closest_marker("slow") is None
