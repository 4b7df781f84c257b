"""Does the cost of a table grow with the number of its columns, and not faster?

    python -m benchmarks.bench_columns

A CSV file of two rows is read, its kinds are chosen and it is encoded, with 1,000 to 32,000 columns. The microseconds
of CPU time per column should stay about the same; the last column is their ratio to those of the narrowest table.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from benchmarks.arguments import numbers_asked_for
from rafm.encode.encoder import TableEncoder
from rafm.read.csv.reader import read_delimited

WIDTHS, REPEATS = (1000, 2000, 4000, 8000, 16_000, 32_000), 3


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the least CPU time of a few runs, after one that warms up."""
    work()
    found = []
    for _ in range(REPEATS):
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return min(found)


def read(path: Path) -> pa.Table:
    """Read the file, all columns as numbers."""
    names = path.read_text().split("\n", 1)[0].split(",")
    return pa.Table.from_batches(read_delimited(path, columns=dict.fromkeys(names, "number")))


def main() -> None:
    """Print a line per width."""
    print(f"{'columns':>8}{'read us':>10}{'encode us':>11}{'ratio':>7}")
    first = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for n in WIDTHS:
            path = Path(folder, f"{n}.csv")
            cells = [f"column {k}" for k in range(n)], ["1.5"] * n, ["2.5"] * n
            path.write_text("\n".join(map(",".join, cells)) + "\n")
            table = read(path)
            times = [cpu_seconds(run) / n * 1e6 for run in (lambda: read(path), lambda: encode(table))]  # noqa: B023
            first = first or sum(times)
            print(f"{n:>8,}{times[0]:>10.1f}{times[1]:>11.1f}{sum(times) / first:>7.2f}")


def encode(table: pa.Table) -> object:
    """Choose the kinds of all columns, learn and encode."""
    return TableEncoder.learn(table).encode(table)


if __name__ == "__main__":
    numbers_asked_for(__doc__)
    main()
