"""How much memory do conversion and training need, from text to a model, and does it grow with the rows?

    python -m benchmarks.bench_memory [rows]

A generated file in Criteo's format (label, 13 counts, 26 codes; some fields empty, up to 1.4 million distinct values)
is converted and trained for one epoch, and trained from the text itself; then the same with a tenth of the rows.

What counts is anonymous memory (RssAnon), sampled every few milliseconds: what the process has asked for. Pages of a
mapped file are not in it, because the system takes them back whenever it likes; VmHWM would count them.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.bench.child import Ran
from benchmarks.bench.memory import rafm

SEED, PIECE_ROWS, N_COUNTS, EMPTY = 0, 100_000, 13, 0.03
SIZES = [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000] * 2 + [50, 500, 5000, 50_000, 500_000, 20]


def write_criteo(path: Path, n_rows: int, sizes: list[int] = SIZES, seed: int = SEED) -> None:
    """Write rows in Criteo's format; small numbers of each column are frequent."""
    draw = np.random.default_rng(seed)
    counts = pa.array([*map(str, range(1000)), ""])
    codes = [pa.array([*(f"{code:08x}" for code in draw.integers(2**32, size=size)), ""]) for size in sizes]
    with path.open("wb") as file:
        for first in range(0, n_rows, PIECE_ROWS):
            n = min(PIECE_ROWS, n_rows - first)
            columns = [pa.array(draw.integers(2, size=n).astype(str))]
            for texts in [counts] * N_COUNTS + codes:
                places = ((len(texts) - 1) * draw.random(n) ** 3).astype(int)
                columns.append(texts.take(pa.array(np.where(draw.random(n) < EMPTY, len(texts) - 1, places))))
            table = pa.table(columns, names=[str(k) for k in range(len(columns))])
            csv.write_csv(table, file, csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none"))


def run(*arguments: object) -> Ran:
    """Run `rafm` with these arguments and watch its memory."""
    ran = rafm(*arguments)
    assert not ran.failure, ran.output
    return ran


def measure(folder: Path, n_rows: int) -> None:
    """Print a line per step."""
    text, arrow, model = folder / "log.txt", folder / "log.arrow", folder / "m.rafm"
    begin = time.perf_counter()
    write_criteo(text, n_rows)
    print(f"{n_rows:,} rows, {text.stat().st_size / 1e6:.0f} MB, written in {time.perf_counter() - begin:.0f} s")
    options = ["--epochs", 1, "--valid-share", 0, "--ranks", 8, "--out", model]
    steps = {
        "convert": ["convert", text, arrow],
        "train from Arrow": ["train", arrow, *options],
        "train from text": ["train", text, *options, "--memory", 100, "--spill", folder],
        "evaluate text": ["evaluate", model, text],
        "predict text": ["predict", model, text, "--out", folder / "predictions"],
    }
    models = []
    for name, arguments in steps.items():
        ran = run(*arguments)
        print(f"{name:20} {ran.seconds:8.1f} s {ran.peak:8.0f} MB", flush=True)
        if name.startswith("train"):
            models.append(model.read_bytes())
    assert models[0] == models[1]
    print(f"{'the model file':20} {'':10} {len(models[0]) / 1e6:8.0f} MB\n")


def main(n_rows: int) -> None:
    """Measure with a tenth of the rows, then with all."""
    print(f"{os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), n_rows // 100)  # compiles
        for rows in (n_rows // 10, n_rows):
            measure(Path(folder), rows)


if __name__ == "__main__":
    from benchmarks.arguments import numbers_asked_for  # not where tests run a part of this

    main(*numbers_asked_for(__doc__, rows=5_000_000))
