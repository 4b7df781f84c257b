"""How many MB/s of libsvm text do we parse, compared with scikit-learn's loader?

    python benchmarks/bench_parse.py [megabytes of each file]

Three generated files: wide rows of `id:1` as in click logs, short ones, and wide rows where half the values
have six decimals. Small ids are frequent, as in files that are numbered by falling frequency.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from rafm.data.libsvm import read_libsvm

N_FEATURES, SEED = 1_000_000, 0
SHAPES = {"clicks, 39 a row": (39, 0.0), "clicks, 10 a row": (10, 0.0), "decimals, 39 a row": (39, 0.5)}


def row_text(random: np.random.Generator, n_entries: int, decimals: float) -> str:
    """Return one row; `decimals` is the share of values that are not 1."""
    ids = np.unique((N_FEATURES * random.random(n_entries) ** 4).astype(int))
    values = [f"{random.normal():.6f}" if random.random() < decimals else "1" for _ in ids]
    return f"{random.integers(2)} " + " ".join(f"{i}:{value}" for i, value in zip(ids, values)) + "\n"


def write_rows(path: Path, megabytes: float, n_entries: int, decimals: float) -> None:
    """Write about so many megabytes: a hundredth of them, repeated."""
    random, rows, size = np.random.default_rng(SEED), [], 0
    while size < megabytes * 1e4:
        rows.append(row_text(random, n_entries, decimals))
        size += len(rows[-1])
    path.write_text("".join(rows) * 100)


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Return the best time of several runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def check_agreement(path: Path) -> None:
    """Assert that both read the same rows; this also compiles ours outside the clock."""
    rows = read_libsvm(path)
    matrix, labels = load_svmlight_file(str(path), zero_based=True)
    np.testing.assert_array_equal(rows.labels, labels)
    np.testing.assert_array_equal(rows.indptr, matrix.indptr)
    np.testing.assert_array_equal(rows.indices, matrix.indices)
    np.testing.assert_array_equal(rows.values, matrix.data.astype(np.float32))


def compare(name: str, path: Path) -> None:
    """Print one line of the table."""
    check_agreement(path)
    megabytes = path.stat().st_size / 1e6
    ours = megabytes / seconds(lambda: read_libsvm(path), repeats=7)
    theirs = megabytes / seconds(lambda: load_svmlight_file(str(path), zero_based=True), repeats=2)
    print(f"{name:>18} {megabytes:8.1f} {ours:10.1f} {theirs:14.1f} {ours / theirs:8.1f}")


def main(megabytes: float) -> None:
    """Write, check and time each shape."""
    print(f"{'rows':>18} {'MB':>8} {'rafm MB/s':>10} {'sklearn MB/s':>14} {'ratio':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (n_entries, decimals) in SHAPES.items():
            path = Path(folder, "train.svm")
            write_rows(path, megabytes, n_entries, decimals)
            compare(name, path)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
