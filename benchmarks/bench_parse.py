"""How many MB/s of libsvm text do we parse, compared with scikit-learn's loader, and with only splitting it?

    python benchmarks/bench_parse.py [megabytes of each file]

Three generated files: wide rows of `id:1` as in click logs, short ones, and wide rows where half the values
have six decimals. Small ids are frequent, as in files that are numbered by falling frequency. Splitting reads the
file and stores where each token begins, in a compiled loop: what any reader must do. CPU seconds are of all threads.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numba import njit
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


@njit(nogil=True)
def token_starts(text, starts):  # type: ignore[no-untyped-def]
    """Store where tokens begin: behind blanks, colons and line ends; return how many there are."""
    n = 0
    for at in range(text.size):
        byte = text[at]
        starts[n] = at + 1
        n += (byte == 32) | (byte == 58) | (byte == 10)
    return n


def split(path: Path) -> int:
    """Read the file and find its tokens; return how many there are."""
    text = np.fromfile(path, np.uint8)
    return token_starts(text, np.empty(text.size // 2 + 2, np.int64))


def seconds(runs: list[Callable[[], object]], repeats: int) -> list[tuple[float, float]]:
    """Return the least elapsed and the least CPU seconds of each; the runs take turns."""
    times: list[list[tuple[float, float]]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, own in zip(runs, times):
            begin, cpu = time.perf_counter(), time.process_time()
            run()
            own.append((time.perf_counter() - begin, time.process_time() - cpu))
    return [tuple(map(min, zip(*own))) for own in times]


def check_agreement(path: Path) -> None:
    """Assert that both read the same rows; this also compiles ours outside the clock."""
    rows = read_libsvm(path)
    matrix, labels = load_svmlight_file(str(path), zero_based=True)
    np.testing.assert_array_equal(rows.labels, labels)
    np.testing.assert_array_equal(rows.indptr, matrix.indptr)
    np.testing.assert_array_equal(rows.indices, matrix.indices)
    np.testing.assert_array_equal(rows.values, matrix.data.astype(np.float32))


def compare(name: str, path: Path) -> None:
    """Print two lines of the table."""
    check_agreement(path)
    split(path)
    megabytes = path.stat().st_size / 1e6
    quick = seconds([lambda: read_libsvm(path), lambda: split(path)], repeats=9)
    times = [*quick, *seconds([lambda: load_svmlight_file(str(path), zero_based=True)], repeats=3)]
    for kind, (ours, splitting, theirs) in zip(("elapsed", "CPU"), zip(*times)):
        speeds = f"{megabytes / ours:10.1f} {megabytes / theirs:14.1f} {theirs / ours:8.1f}"
        print(f"{name:>18} {kind:>8} {speeds} {megabytes / splitting:12.1f} {ours / splitting:8.2f}")


def main(megabytes: float) -> None:
    """Write, check and time each shape."""
    print(f"{'rows':>18} {'':>8} {'rafm MB/s':>10} {'sklearn MB/s':>14} {'times':>8} {'split MB/s':>12} {'slower':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (n_entries, decimals) in SHAPES.items():
            path = Path(folder, "train.svm")
            write_rows(path, megabytes, n_entries, decimals)
            compare(name, path)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
