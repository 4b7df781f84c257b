"""How many MB/s of CSV become encoded rows, compared with pandas turning the same columns into categories?

    python benchmarks/bench_encode.py [megabytes of CSV]

The file is shaped like a click log: 13 counts and 26 hexadecimal texts a row, Zipf-like, some columns with few values
and some with hundreds of thousands. Ours is pyarrow.csv, learning and encoding into a Batch; theirs is
pandas.read_csv and astype("category") of every column. Both start from the file and end with codes of all cells.
CPU seconds are those of all threads: pyarrow reads with several, which only the elapsed seconds show.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from rafm.batch import Batch
from rafm.data.columns import ColumnSpec, TableSpec
from rafm.data.encoder import TableEncoder

SEED, N_COUNTS = 0, 13
SIZES = [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000] * 2 + [50, 500, 5000, 50_000, 500_000, 20]


def write_log(path: Path, megabytes: float) -> int:
    """Write about so many megabytes of rows; return how many rows there are."""
    n_rows, draw = int(megabytes * 1e6 / 276), np.random.default_rng(SEED)
    columns = {"label": draw.integers(0, 2, n_rows)}
    for i in range(N_COUNTS):
        columns[f"I{i + 1}"] = (draw.pareto(0.9, n_rows) * 3).astype(int).clip(0, 10**6)
    for i, size in enumerate(SIZES):
        names = np.array([f"{value:08x}" for value in draw.integers(0, 2**32, size)])
        columns[f"C{i + 1}"] = names[(size * draw.random(n_rows) ** 3).astype(int)]
    pa.csv.write_csv(pa.table(columns), path)
    return n_rows


SPEC = TableSpec(columns=tuple(ColumnSpec(f"I{i + 1}", "log_bins") for i in range(N_COUNTS)), label="label")


def read(path: Path) -> pa.Table:
    """Read the file in blocks of 8 MB."""
    return pa.csv.read_csv(path, read_options=pa.csv.ReadOptions(block_size=1 << 23))


def ours(path: Path) -> tuple[TableEncoder, Batch]:
    """Read, learn and encode."""
    return TableEncoder.learn_encode(read(path), SPEC)


def theirs(path: Path) -> pd.DataFrame:
    """Read and make categories."""
    return pd.read_csv(path).astype("category")


def seconds(run: Callable[[], object], repeats: int = 3) -> tuple[float, float]:
    """Return the least CPU time and the least elapsed time of several runs."""
    times = []
    for _ in range(repeats):
        cpu, begin = time.process_time(), time.perf_counter()
        run()
        times.append((time.process_time() - cpu, time.perf_counter() - begin))
    return min(cpu for cpu, _ in times), min(elapsed for _, elapsed in times)


def check_agreement(path: Path) -> None:
    """Assert that both tell the same values apart; this also compiles ours outside the clock."""
    (encoder, batch), frame = ours(path), theirs(path)
    rows = batch.indices.reshape(len(frame), -1)
    for place, column in enumerate(encoder.columns):
        if column.kind == "category":
            names = [f"{column.name}={value}" for value in frame[column.name].cat.categories]
            first = encoder.first_ids[place]
            assert names == [column.feature_name(code) for code in range(column.n_features)]
            np.testing.assert_array_equal(rows[:, place] - first, frame[column.name].cat.codes)


def main(megabytes: float) -> None:
    """Write the file, check, time, print."""
    with tempfile.TemporaryDirectory() as folder:
        path, small = Path(folder) / "log.csv", Path(folder) / "small.csv"
        write_log(small, 1)
        check_agreement(small)
        n_rows = write_log(path, megabytes)
        size, table = path.stat().st_size / 1e6, read(path)
        encoder, batch = ours(path)
        width = batch.indices.size / n_rows
        print(f"{n_rows} rows, {width:.0f} features a row, {encoder.n_features} distinct, {size:.0f} MB")
        steps = {
            "pyarrow.csv alone": seconds(lambda: read(path)),
            "learn a table in memory": seconds(lambda: TableEncoder.learn(table, SPEC)),
            "learn and encode at once": seconds(lambda: TableEncoder.learn_encode(table, SPEC)),
            "encode a table in memory": seconds(lambda: encoder.encode(table)),
            "CSV -> learn -> encode": seconds(lambda: ours(path)),
            "CSV -> encode": seconds(lambda: encoder.encode(read(path))),
            "pandas.read_csv + category": seconds(lambda: theirs(path)),
        }
    print(f"{'step':28}{'CPU s':>9}{'MB/s':>7}{'ns a cell':>11}{'x pandas':>10}{'elapsed s':>11}{'x pandas':>10}")
    theirs_cpu, theirs_elapsed = steps["pandas.read_csv + category"]
    for name, (cpu, elapsed) in steps.items():
        print(
            f"{name:28}{cpu:9.2f}{size / cpu:7.0f}{cpu / batch.indices.size * 1e9:11.0f}{theirs_cpu / cpu:10.2f}"
            f"{elapsed:11.2f}{theirs_elapsed / elapsed:10.2f}"
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 100)
