"""How long does `rafm convert` take for CSV, compared with pandas turning the same columns into categories?

    python -m benchmarks.bench_encode [megabytes of each file]

Three generated files: a click log of 13 counts and 26 quoted hexadecimal texts a row, Zipf-like, some columns with few
values and some with hundreds of thousands; and the quoted click log and the decimals of bench_read.py. Ours ends with
an Arrow file on the disk, theirs with pandas.read_csv(path).astype("category") in memory. Both take turns in one run;
CPU seconds are those of all threads. The Arrow file of the last turn is removed outside the clock, as if it were the
first.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from benchmarks.arguments import numbers_asked_for
from benchmarks.bench_read import write_rows
from rafm.encode.spec import TableSpec
from rafm.read.convert import convert
from rafm.read.converted.reader import ArrowRows
from rafm.read.open import ReadOptions
from rafm.rows.blocks import join_rows
from rafm.rows.spill import SpillOptions

SEED, N_COUNTS, REPEATS = 0, 13, 5
SIZES = [10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000] * 2 + [50, 500, 5000, 50_000, 500_000, 20]


def write_log(path: Path, megabytes: float) -> None:
    """Write about so many megabytes of rows."""
    n_rows, draw = int(megabytes * 1e6 / 276), np.random.default_rng(SEED)
    columns = {"label": draw.integers(0, 2, n_rows)}
    for i in range(N_COUNTS):
        columns[f"I{i + 1}"] = (draw.pareto(0.9, n_rows) * 3).astype(int).clip(0, 10**6)
    for i, size in enumerate(SIZES):
        names = np.array([f"{value:08x}" for value in draw.integers(0, 2**32, size)])
        columns[f"C{i + 1}"] = names[(size * draw.random(n_rows) ** 3).astype(int)]
    pa.csv.write_csv(pa.table(columns), path)


FILES: dict[str, tuple[str, Callable[[Path, float], None]]] = {  # label, writer
    "click log": ("label", write_log),
    "quoted, repeated": ("label", lambda path, megabytes: write_rows(path, "click log, quoted", megabytes)),
    "decimals": ("x0", lambda path, megabytes: write_rows(path, "decimals", megabytes)),
}


def ours(path: Path, label: str) -> Path:
    """Convert; return the Arrow file."""
    out, task = path.with_suffix(".arrow"), "regression" if label == "x0" else "binary"
    convert(path, out, ReadOptions(task, "csv", spec=TableSpec(label=label), room=SpillOptions(folder=path.parent)))
    return out


def theirs(path: Path) -> pd.DataFrame:
    """Read and make categories."""
    return pd.read_csv(path).astype("category")


def check_agreement(path: Path) -> None:
    """Assert that both tell the same values of the click log apart; this also compiles ours outside the clock."""
    rows, frame = ArrowRows(ours(path, "label")), theirs(path)
    encoder, ids = (
        rows.encoder,
        join_rows([rows.block(k) for k in range(rows.n_blocks)]).indices.reshape(len(frame), -1),
    )
    for place, column in enumerate(encoder.columns):
        if column.kind == "category":
            texts = frame[column.name].astype(str).astype("category").cat  # whole numbers too, in the order of texts
            names = [f"{column.name}={value}" for value in texts.categories]
            assert names == [column.feature_name(code) for code in range(column.n_features)]
            np.testing.assert_array_equal(ids[:, place] - encoder.first_ids[place], texts.codes)


def in_turns(out: Path, *runs: Callable[[], object]) -> list[tuple[float, float]]:
    """Return the least elapsed and CPU seconds of each; the runs take turns, so that all see the same neighbours."""
    times: list[list[tuple[float, float]]] = [[] for _ in runs]
    for _ in range(REPEATS):
        for own, run in zip(times, runs):
            out.unlink(missing_ok=True)
            begin = time.perf_counter(), time.process_time()
            run()
            own.append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return [(min(elapsed for elapsed, _ in own), min(cpu for _, cpu in own)) for own in times]


def main(megabytes: float) -> None:
    """Write, check and time each file."""
    print(f"{os.cpu_count()} cores; least of {REPEATS} turns")
    print(f"{'':>23}{'rafm':>22}{'pandas':>22}{'ratio':>13}")
    print(
        f"{'file':>17}{'MB':>6}{'seconds':>9}{'MB/s':>6}{'CPU':>7}{'seconds':>9}{'MB/s':>6}{'CPU':>7}{'':>7}{'CPU':>6}"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.csv")
        write_log(path, 1)
        check_agreement(path)
        for name, (label, write) in FILES.items():
            write(path, megabytes)
            out = ours(path, label)  # other kinds of columns compile other kernels
            size = path.stat().st_size / 1e6
            mine, other = in_turns(out, lambda: ours(path, label), lambda: theirs(path))  # noqa: B023
            sides = "".join(f"{elapsed:9.2f}{size / elapsed:6.0f}{cpu:7.2f}" for elapsed, cpu in (mine, other))
            print(f"{name:>17}{size:6.0f}{sides}{other[0] / mine[0]:7.2f}{other[1] / mine[1]:6.2f}")


if __name__ == "__main__":
    main(*numbers_asked_for(__doc__, megabytes=100.0))
