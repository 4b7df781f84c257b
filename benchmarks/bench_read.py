"""How many MB/s of CSV do we read into record batches, compared with pandas.read_csv?

    python -m benchmarks.bench_read [megabytes of each file]

Three generated files: rows of a click log (14 whole numbers, 26 hex codes, some missing), the same with quotes
around the codes, and rows of decimals. pandas is asked for the same: codes as text. Both read the whole file in
the same run; Arrow parses with as many threads as there are cores, pandas with one.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.arguments import numbers_asked_for
from rafm.read.tables import read_table

SEED, N_ROWS = 0, 2000
SHAPES = ("click log", "click log, quoted", "decimals")


def columns_of(shape: str, random: np.random.Generator) -> dict[str, list[str]]:
    """Return columns of text."""
    if shape == "decimals":
        return {f"x{k}": [f"{x:.6f}" for x in random.normal(size=N_ROWS)] for k in range(20)}
    mark = '"' if "quoted" in shape else ""
    present = random.random((40, N_ROWS)) < 0.9
    numbers = {
        f"I{k}": [str(x) if here else "" for x, here in zip(random.geometric(0.01, N_ROWS), present[k])]
        for k in range(1, 14)
    }
    codes = {
        f"C{k}": [f"{mark}{x:08x}{mark}" if here else "" for x, here in zip(random.integers(2**32, size=N_ROWS), row)]
        for k, row in enumerate(present[14:], 1)
    }
    return {"label": [str(x) for x in random.integers(2, size=N_ROWS)]} | numbers | codes


def write_rows(path: Path, shape: str, megabytes: float) -> None:
    """Write about so many megabytes: a few thousand rows, repeated."""
    columns = columns_of(shape, np.random.default_rng(SEED))
    rows = "".join(",".join(row) + "\n" for row in zip(*columns.values()))
    with path.open("w") as file:
        file.write(",".join(columns) + "\n")
        file.writelines([rows] * max(1, round(megabytes * 1e6 / len(rows))))


def read_ours(path: Path) -> int:
    """Read all batches; return the number of rows."""
    return sum(batch.num_rows for batch in read_table(path, format="csv"))


def read_pandas(path: Path, text: list[str]) -> pd.DataFrame:
    """Read the file with codes as text and nothing but the empty field missing."""
    return pd.read_csv(path, dtype=dict.fromkeys(text, "str"), keep_default_na=False, na_values=[""])


def check_agreement(path: Path) -> list[str]:
    """Assert that both read the same first rows; return the names of text columns."""
    ours = next(iter(read_table(path, format="csv"))).slice(0, N_ROWS).to_pandas()
    text = [name for name in ours.columns if not pd.api.types.is_numeric_dtype(ours[name])]
    theirs = read_pandas(path, text).head(len(ours))
    for name in ours.columns:
        equal = (ours[name] == theirs[name]) | (ours[name].isna() & theirs[name].isna())
        assert equal.all(), name
    return text


def seconds(runs: list[Callable[[], object]], repeats: int) -> list[float]:
    """Return the best time of each; the runs take turns, so that both sides see the same neighbours."""
    best = [float("inf")] * len(runs)
    for _ in range(repeats):
        for k, run in enumerate(runs):
            begin = time.perf_counter()
            run()
            best[k] = min(best[k], time.perf_counter() - begin)
    return best


def main(megabytes: float) -> None:
    """Write, check and time each shape."""
    print(f"{os.cpu_count()} cores")
    print(f"{'rows':>18} {'MB':>8} {'rafm MB/s':>10} {'pandas MB/s':>12} {'ratio':>7}")
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            path = Path(folder, "train.csv")
            write_rows(path, shape, megabytes)
            text, size = check_agreement(path), path.stat().st_size / 1e6
            ours, theirs = seconds([lambda: read_ours(path), lambda: read_pandas(path, text)], repeats=5)  # noqa: B023
            print(f"{shape:>18} {size:8.1f} {size / ours:10.1f} {size / theirs:12.1f} {theirs / ours:7.2f}")


if __name__ == "__main__":
    main(*numbers_asked_for(__doc__, megabytes=100.0))
