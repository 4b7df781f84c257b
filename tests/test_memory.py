"""From text to a model in memory that does not grow with the rows."""

import runpy
from pathlib import Path

import pytest

BENCH = runpy.run_path(str(Path(__file__).parents[1] / "benchmarks" / "bench_memory.py"))
N_ROWS, SIZES = 60_000, [2000] * 26
CONSTANT = 700  # MB: twice what was measured, of which 130 are the interpreter and the libraries
GROWN = 250  # MB: half of what ten times the rows take in memory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc"),
]


def peaks(folder, n_rows):
    """Return the most memory that each command took on so many rows with the same distinct values."""
    text, arrow, model = folder / "log.txt", folder / "log.arrow", folder / "m.rafm"
    BENCH["write_criteo"](text, n_rows, SIZES)
    options = ["--epochs", 1, "--ranks", 8, "--out", model]
    commands = {
        "convert": ["convert", text, arrow],
        "train from Arrow": ["train", arrow, *options],
        "train from text": ["train", text, *options, "--memory", 50, "--spill", folder],
        "predict": ["predict", model, text, "--out", folder / "predictions"],
        "evaluate": ["evaluate", model, text],
        "inspect": ["inspect", text],
    }
    return {name: BENCH["run"](*arguments).peak for name, arguments in commands.items()}


def test_ten_times_the_rows_need_the_same_memory(tmp_path):
    few, many = peaks(tmp_path, N_ROWS), peaks(tmp_path, 10 * N_ROWS)
    grown = {name: many[name] - few[name] for name in many}
    assert max(many.values()) < CONSTANT, many
    assert max(grown.values()) < GROWN, grown
