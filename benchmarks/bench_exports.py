"""How long does one row take in C, in ONNX Runtime and in plain Python, next to rafm itself?

    python -m benchmarks.bench_exports [rounds]

A RaFM of ranks 8, 32, 128 on rows of ten features, in floats and with 8 and 4 bits, and its exports. All ways take
turns in one run and are checked to agree; CPU microseconds per row, the best of the rounds. `batch` scores all rows in
one call, everything else row by row. The C function is called in a loop of C. If LightGBM is installed, its call for
one row is measured too: 100 trees of 31 leaves on the same ten columns, which are numbers to it; and xLearn's, which
reads the model and the row from files in each call, for the file of all rows and for that of one.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from benchmarks.arguments import numbers_asked_for
from benchmarks.bench.shapes import Rows, frappe_shaped
from rafm import Scorer
from rafm.compress.budget import compress
from rafm.export.export import export
from rafm.model.file import Saved, save
from rafm.options import resolve
from rafm.train.dispatch import train_model

ROWS, ROUNDS, RANKS, SLOW_ROWS = 20_000, 7, (8, 32, 128), 300
XLEARN_CALLS = 20
DRIVER = """
#include "model.c"
double run(const int64_t *ids, const float *values, size_t rows, size_t length, double *out)
{
    double total = 0;
    for (size_t r = 0; r < rows; r++) {
        rafm_predict(ids + r * length, values + r * length, length, out + r);
        total += out[r];
    }
    return total;
}
"""
Way = tuple[int, Callable[[], Any]]  # number of rows, and what scores them


def c_way(folder: Path, saved: Saved, ids: np.ndarray) -> Way:
    """Return a loop over the compiled function."""
    export(saved, "c", folder / "model.c")
    (folder / "driver.c").write_text(DRIVER)
    flags = ["-std=c99", "-O3", "-march=native", "-shared", "-fPIC", "-DRAFM_NO_MAIN"]
    subprocess.run(["gcc", *flags, folder / "driver.c", "-o", folder / "model.so", "-lm"], check=True)
    run = ctypes.CDLL(str(folder / "model.so")).run
    values, out = np.ones(ids.shape, np.float32), np.empty(len(ids))
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    run.restype = ctypes.c_double

    def score() -> np.ndarray:
        run(ids.ctypes.data, values.ctypes.data, *ids.shape, out.ctypes.data)
        return out

    return len(ids), score


def onnx_ways(folder: Path, saved: Saved, ids: np.ndarray) -> dict[str, Way]:
    """Return ONNX Runtime on one thread, row by row and in batches of 1000 rows."""
    export(saved, "onnx", folder / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    values = np.ones(ids.shape, np.float32)

    def score(size: int, stop: int) -> np.ndarray:
        parts = [slice(at, at + size) for at in range(0, stop, size)]
        return np.concatenate([session.run(["prediction"], {"ids": ids[s], "values": values[s]})[0] for s in parts])

    return {
        "ONNX Runtime": (10 * SLOW_ROWS, lambda: score(1, 10 * SLOW_ROWS)),
        "ONNX Runtime, 1000 rows": (ROWS, lambda: score(1000, ROWS)),
    }


def python_way(folder: Path, saved: Saved, ids: np.ndarray) -> Way:
    """Return the program in plain Python."""
    export(saved, "python", folder / "model.py")
    names: dict[str, Any] = {"__name__": "model"}
    exec(compile((folder / "model.py").read_text(), "model.py", "exec"), names)
    rows = [dict.fromkeys(row, 1.0) for row in ids[:SLOW_ROWS].tolist()]
    return SLOW_ROWS, lambda: np.array([names["predict"](row) for row in rows])


def scorer_way(folder: Path, saved: Saved, ids: np.ndarray) -> Way:
    """Return rafm's own call for one row."""
    save(folder / "model.rafm", saved)
    scorer = Scorer(folder / "model.rafm")
    rows = [dict.fromkeys(row, 1.0) for row in ids[: 10 * SLOW_ROWS].tolist()]
    return len(rows), lambda: np.array([scorer.predict(row) for row in rows])


def peer_ways(folder: Path, rows: Rows, ids: np.ndarray) -> dict[str, Way]:
    """Return the peers that are installed; they predict other numbers."""
    found: dict[str, Way] = {}
    try:
        import lightgbm

        options = {"objective": "binary", "num_threads": 1, "verbose": -1}
        booster = lightgbm.train(options, lightgbm.Dataset(ids.astype(float), rows.labels[:ROWS]), 100)
        table = ids[:SLOW_ROWS].astype(float)
        found["LightGBM, 100 trees"] = (SLOW_ROWS, lambda: [booster.predict(row[None], num_threads=1) for row in table])
    except ImportError:
        pass
    return found


def xlearn_ways(folder: Path, rows: Rows, ids: np.ndarray) -> dict[str, Way]:
    """Return xLearn's predictions of files with an FM of rank 32, if it is installed."""
    try:
        import xlearn
    except ImportError:
        return {}
    os.environ.setdefault("USER", "nobody")  # it crashes without
    lines = [f"{int(y)} " + " ".join(f"{id}:1" for id in row) for y, row in zip(rows.labels, ids.tolist())]
    whole, single, out = folder / "rows.svm", folder / "row.svm", str(folder / "out.txt")
    whole.write_text("\n".join(lines) + "\n")
    single.write_text(lines[0] + "\n")
    machine = xlearn.create_fm()
    machine.setTrain(str(whole))
    machine.setQuiet()
    machine.fit({"task": "binary", "k": 32, "epoch": 1, "nthread": 1}, str(folder / "model.out"))

    def predict(path: Path) -> None:
        machine.setTest(str(path))
        machine.predict(str(folder / "model.out"), out)

    return {
        "xLearn, a file of all rows": (ROWS, lambda: predict(whole)),
        "xLearn, a file of one row": (XLEARN_CALLS, lambda: [predict(single) for _ in range(XLEARN_CALLS)]),
    }


def measured(ways: dict[str, Way], rounds: int) -> dict[str, float]:
    """Return CPU microseconds per row, the best of the rounds; ways take turns."""
    best = dict.fromkeys(ways, np.inf)
    for _ in range(rounds):
        for name, (n_rows, score) in ways.items():
            begun = time.process_time()
            score()
            best[name] = min(best[name], 1e6 * (time.process_time() - begun) / n_rows)
    return best


def main() -> None:
    """Print a table."""
    (rounds,) = numbers_asked_for(__doc__, rounds=ROUNDS)
    rows = frappe_shaped(ROWS)
    batch = rows.batch()
    ids = np.ascontiguousarray(batch.indices.reshape(ROWS, -1), np.int64)
    floats = Saved(train_model(batch, resolve(task="binary", ranks=RANKS, n_epochs=1)).for_scoring())
    with tempfile.TemporaryDirectory() as name:
        ways: dict[str, Way] = {}
        for bits in (32, 8, 4):
            folder = Path(name, str(bits))
            folder.mkdir()
            saved = floats if bits == 32 else compress(floats, bits=bits)
            own = {"rafm, batch": (ROWS, lambda model=saved.model: model.predict(batch))}
            own |= {"rafm.Scorer": scorer_way(folder, saved, ids), "C": c_way(folder, saved, ids)}
            own |= onnx_ways(folder, saved, ids)
            own |= {"Python": python_way(folder, saved, ids)} if bits == 32 else {}
            expected = saved.model.predict(batch)
            for n_rows, score in own.values():
                np.testing.assert_allclose(score(), expected[:n_rows], atol=2e-6)
            ways |= {f"{way}, {bits} bits": found for way, found in own.items()}
        ways |= peer_ways(Path(name), rows, ids) | xlearn_ways(Path(name), rows, ids)
        found = measured(ways, rounds)
    print(f"{rows}\nranks {RANKS}; CPU microseconds per row")
    for way, microseconds in found.items():
        print(f"{way:34} {microseconds:10.2f}")


if __name__ == "__main__":
    main()
