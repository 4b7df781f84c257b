"""How much memory does training need?

By design: 4 bytes per parameter, 4 per AdaGrad accumulator (one per weight and per vector), scratch memory of a
mini-batch, and a constant for the interpreter, libraries and compiled code. Records are padded to whole cache lines.
Initial vectors are drawn into the records a few thousand at a time; when the parameters are copied out of them at the
end, their pages are released on the way (on Linux). With validation rows, the best epoch so far is a second copy of the
parameters. Rows come from a mapped Arrow file, of which one block of up to 8 M entries is in memory.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .child import Ran, watch

N_FIELDS, RANK, LIMIT = 8, 512, 3600  # the limit is in seconds
TIMES = 8  # the larger file has this many times as many rows


def accumulators(n_features: int, n_vectors: int) -> int:
    """Return the number of AdaGrad's accumulators: one per weight and one per vector.

    >>> accumulators(n_features=100, n_vectors=130)
    230
    """
    return n_features + n_vectors


def write_rows(path: Path, n_rows: int, n_features: int, seed: int = 0) -> None:
    """Write rows of uniformly drawn features as libsvm text."""
    from rafm.demo.click_log import ClickLog, write_libsvm

    from .shapes import even_rows

    rows = even_rows(n_rows, n_features, N_FIELDS, seed)
    names, offsets = tuple(f"field{k}" for k in range(N_FIELDS)), np.arange(N_FIELDS + 1) * (n_features // N_FIELDS)
    probabilities = np.full(n_rows, 0.5)
    write_libsvm(path, ClickLog(rows.indptr, rows.indices, rows.values, rows.labels, probabilities, names, offsets))


def rafm(*arguments: object) -> Ran:
    """Run a command of rafm in a process of its own, and sample its memory."""
    return watch([sys.executable, "-m", "rafm", *arguments], LIMIT)


def train_mapped(folder: Path, n_rows: int, n_features: int) -> dict[str, Any]:
    """Convert rows and train an FM on the mapped file; return sizes and peak anonymous memory in MB."""
    text, arrow, model = folder / "rows.libsvm", folder / "rows.arrow", folder / "model.rafm"
    write_rows(text, n_rows, n_features)
    converted = rafm("convert", text, arrow)
    if converted.failure:
        return {"failed": converted.failure}
    options = ("--model", "fm", "--ranks", RANK, "--epochs", 1, "--valid-share", 0, "--out", model, "--json")
    ran = rafm("train", arrow, *options)
    if ran.failure:
        return {"failed": ran.failure}
    parameters = json.loads(ran.output.splitlines()[-1])["parameters"]
    n_features = (parameters - 1) // (1 + RANK)  # those that occur
    return {
        "rows": n_rows,
        "file": arrow.stat().st_size / 1e6,
        "parameters": 4 * parameters / 1e6,
        "accumulators": 4 * accumulators(n_features, n_features) / 1e6,
        "peak": ran.peak,
    }


def run_memory(n_rows: int, folder: Path) -> dict[str, Any]:
    """Train a tiny model for the constant, then a large one on few rows and on many."""
    n_features = n_rows // N_FIELDS * N_FIELDS  # all but one in 3,000 occur even in the smaller file
    constant = train_mapped(folder, 400, 80)
    lines = [train_mapped(folder, rows, n_features) for rows in (n_rows, TIMES * n_rows)]
    for line in lines:
        if "failed" not in line and "failed" not in constant:
            line["constant"] = constant["peak"]
            kept = line["parameters"] + line["accumulators"]
            line["times_kept"] = (line["peak"] - constant["peak"]) / kept
    return {"constant": constant.get("peak"), "lines": lines}
