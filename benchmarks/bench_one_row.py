"""How long does one row take: by `Scorer`, by `predict_proba` of a one-row frame, Arrow table or CSR matrix?

    python -m benchmarks.bench_one_row [repeats]

A RaFM of ranks 8, 32, 128 on a table of five categories, three binned numbers and a list, and one on a matrix of 30
nonzeros per row. All ways take turns in one run and are checked to agree; CPU microseconds per call, medians of the
rounds. LightGBM's call for one row is measured too if it is installed, with 100 trees on the columns that are numbers.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse

from benchmarks.arguments import numbers_asked_for
from rafm import RaFMClassifier, Scorer, load

ROWS, ROUNDS, RANKS = 20_000, 7, (8, 32, 128)


def make_table(n_rows: int) -> pa.Table:
    """Return a table with a long tail of categories."""
    draw = np.random.default_rng(0)
    texts = {f"c{i}": [f"v{x}" for x in draw.zipf(1.3, n_rows) % 10_000] for i in range(5)}
    numbers = {f"n{i}": draw.lognormal(0, 2, n_rows) for i in range(3)}
    tags = [[f"t{x}" for x in {*draw.integers(0, 50, 3).tolist()}] for _ in range(n_rows)]
    return pa.table({**texts, **numbers, "tags": tags})


def make_matrix(n_rows: int, n_columns: int = 5000, length: int = 30) -> sparse.csr_matrix:
    """Return a matrix with rows of equal length."""
    draw = np.random.default_rng(0)
    columns = np.sort(np.stack([draw.choice(n_columns, length, replace=False) for _ in range(n_rows)]), axis=1)
    values = np.ones(columns.size, np.float32)
    return sparse.csr_matrix((values, columns.ravel(), np.arange(0, columns.size + 1, length)), (n_rows, n_columns))


def fitted(X: Any, folder: str) -> tuple[Any, Scorer]:
    """Return a trained model as an estimator and as a scorer."""
    y, path = np.random.default_rng(1).integers(0, 2, ROWS), Path(folder) / "model.rafm"
    RaFMClassifier(ranks=RANKS, n_epochs=1, validation_fraction=0).fit(X, y).save(path)
    return load(path), Scorer(path)


def microseconds(ways: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the CPU microseconds of a call of each; they take turns."""
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, call in ways.items():
            begin = time.process_time()
            for _ in range(repeats):
                call()
            rounds[name].append((time.process_time() - begin) / repeats * 1e6)
    return {name: float(np.median(found)) for name, found in rounds.items()}


def add_lightgbm(ways: dict[str, Callable[[], Any]], table: pa.Table) -> None:
    """Add LightGBM's prediction of one row of numbers, if it is installed."""
    try:
        import lightgbm
    except ImportError:
        return
    X = np.column_stack([table[name].to_numpy() for name in table.column_names if name.startswith("n")])
    y = np.random.default_rng(1).integers(0, 2, ROWS)
    booster = lightgbm.train({"verbose": -1, "num_threads": 1}, lightgbm.Dataset(X, y), 100)
    ways["LightGBM, 100 trees"] = lambda: booster.predict(X[:1], num_threads=1)


def main(repeats: int) -> None:
    """Check that all ways agree, then time them."""
    warnings.simplefilter("ignore")
    table, matrix = make_table(ROWS), make_matrix(ROWS)
    with tempfile.TemporaryDirectory() as folder:
        (of_table, table_scorer), (of_matrix, matrix_scorer) = fitted(table, folder), fitted(matrix, folder)
    one_table, one_frame, row = table.slice(7, 1), table.slice(7, 1).to_pandas(), table.slice(7, 1).to_pylist()[0]
    cells, one_csr = tuple(row.values()), matrix[7]
    ids = dict(zip(one_csr.indices.tolist(), one_csr.data.tolist()))
    many = table.slice(0, 1000).to_pylist()
    assert isinstance(one_frame, pd.DataFrame)
    ways: dict[str, Callable[[], Any]] = {
        "Scorer, dict of a table": lambda: table_scorer.predict(row),
        "Scorer, tuple of a table": lambda: table_scorer.predict(cells),
        "predict_proba, frame": lambda: of_table.predict_proba(one_frame)[0, 1],
        "predict_proba, Arrow": lambda: of_table.predict_proba(one_table)[0, 1],
        "Scorer, dict of ids": lambda: matrix_scorer.predict(ids),
        "predict_proba, CSR": lambda: of_matrix.predict_proba(one_csr)[0, 1],
    }
    found = [call() for call in ways.values()]
    assert len({*found[:4]}) == len({*found[4:]}) == 1, found
    ways["Scorer, 1000 dicts / 1000"] = lambda: table_scorer.predict(many)
    add_lightgbm(ways, table)
    times = microseconds(ways, repeats)
    times["Scorer, 1000 dicts / 1000"] /= 1000
    print(f"{ROWS:,} rows, 9 columns of a table or 30 ids of a matrix, ranks {RANKS}")
    for name, each in times.items():
        print(f"{name:28}{each:10.1f} us{each / times['Scorer, dict of a table']:8.1f}")


if __name__ == "__main__":
    main(*numbers_asked_for(__doc__, repeats=50))
