"""From text to a model in memory that does not grow with the rows."""

import re
import runpy
import time
from pathlib import Path
from subprocess import DEVNULL

import pytest
from commands import start
from warm import run_script

from benchmarks.bench.child import anonymous_kilobytes

BENCH = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "bench_memory.py"))
N_ROWS, SIZES = 60_000, [2000] * 26
CONSTANT = 700  # MB: twice what was measured, of which 130 are the interpreter and the libraries
GROWN = 230  # MB: twice what was measured; buffers that are not full at first are

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc"),
]


def peaks(folder, n_rows):
    """Return the most memory that each command took on n_rows rows with the same distinct values."""
    text, arrow, model = folder / "log.txt", folder / "log.arrow", folder / "m.rafm"
    BENCH["write_criteo"](text, n_rows, SIZES)
    options = ["--epochs", 1, "--ranks", 8, "--out", model]
    commands = {
        "convert": ["convert", text, arrow],
        "train from Arrow": ["train", arrow, *options, "--valid-share", 0],
        "train from text": ["train", text, *options, "--memory", 50, "--spill", folder],
        "predict": ["predict", model, text, "--out", folder / "predictions"],
    }
    return {name: peak_of(*arguments) for name, arguments in commands.items()}


def peak_of(*arguments):
    """Run a command in a process of its own; return the most MB that it had asked for at any time."""
    peak = 0
    with start(*arguments, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, anonymous_kilobytes(process.pid) / 1000)
            time.sleep(0.005)
    assert process.returncode == 0
    return peak


def test_four_times_the_rows_need_the_same_memory(tmp_path):
    """Were it proportional, it would grow by three times what the rows of the first run take, about 270 MB."""
    few, many = peaks(tmp_path, N_ROWS), peaks(tmp_path, 4 * N_ROWS)
    grown = {name: many[name] - few[name] for name in many}
    assert max(many.values()) < CONSTANT, many
    assert max(grown.values()) < GROWN, grown


LEARN = """
import re, sys
import numpy as np, pyarrow as pa
from rafm.encode.spec import ColumnSpec, TableSpec
from rafm.encode.encoder import TableEncoder

KINDS = {"count": "log_bins", "size": "bins", "price": "number", "time": "datetime"}
SPEC = TableSpec(columns=(*(ColumnSpec(*kind) for kind in KINDS.items()), ColumnSpec("hashed", hash_size=1000)))
WORDS = [f"word {k}" for k in range(20_000)]
TEXTS = {"word": WORDS, "hashed": WORDS, "tags": ["a|b", "c|a"], "time": ["2014-10-21T08:00", "2015-10-21T09:00"]}
TEXTS = {name: pa.array(texts) for name, texts in TEXTS.items()}
peak = 0

def batches(n_rows):
    global peak
    draw = np.random.default_rng(0)
    for _ in range(0, n_rows, 50_000):
        columns = {name: texts.take(pa.array(draw.integers(0, len(texts), 50_000))) for name, texts in TEXTS.items()}
        columns |= {name: pa.array(draw.normal(5, 9, 50_000).round(3)) for name in ("count", "size", "price")}
        yield pa.record_batch(columns)
        peak = max(peak, int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1000)

for n_rows in (100_000, 200_000, 2_000_000):  # the first time compiles
    TableEncoder.learn(batches(n_rows), SPEC)
    print("peak", peak)
"""


def test_learning_keeps_distinct_values_but_no_rows():
    _, few, many = map(float, re.findall(r"peak (\S+)", run_script(LEARN).stdout))
    assert many < few + 100  # of more than 200 MB of rows
