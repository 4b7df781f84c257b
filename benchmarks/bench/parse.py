"""How fast is libsvm text parsed, compared with scikit-learn's loader and with only splitting the text?

Small ids are frequent, as in files whose ids are sorted by frequency. Splitting reads the file and stores the start of
each token in a compiled loop, which is the least that any reader must do. CPU seconds include all threads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from sklearn.datasets import load_svmlight_file

from rafm.read.libsvm.reader import iterate_rows

from .clock import Seconds, least_seconds

N_FEATURES, SEED = 1_000_000, 0
SHAPES = {"clicks, 39 a row": (39, 0.0), "clicks, 10 a row": (10, 0.0), "decimals, 39 a row": (39, 0.5)}


def row_text(random: np.random.Generator, n_entries: int, decimals: float) -> str:
    """Return one row of text; `decimals` is the share of values other than 1."""
    ids = np.unique((N_FEATURES * random.random(n_entries) ** 4).astype(int))
    values = [f"{random.normal():.6f}" if random.random() < decimals else "1" for _ in ids]
    return f"{random.integers(2)} " + " ".join(f"{i}:{value}" for i, value in zip(ids, values)) + "\n"


def write_rows(path: Path, megabytes: float, n_entries: int, decimals: float) -> None:
    """Write a file of about this size: a hundredth of it, repeated, because generating text is slow."""
    random, rows, size = np.random.default_rng(SEED), [], 0
    while size < megabytes * 1e4:
        rows.append(row_text(random, n_entries, decimals))
        size += len(rows[-1])
    path.write_text("".join(rows) * 100)


@njit(nogil=True)
def token_starts(text, starts):  # type: ignore[no-untyped-def]
    """Store the starts of tokens, which follow blanks, colons and line feeds; return their number."""
    n = 0
    for at in range(text.size):
        byte = text[at]
        starts[n] = at + 1  # overwritten unless n moves on: no branch
        n += (byte == 32) | (byte == 58) | (byte == 10)
    return n


def split(path: Path) -> int:
    """Read the file and find its tokens; return their number."""
    text = np.fromfile(path, np.uint8)
    return int(token_starts(text, np.empty(text.size // 2 + 2, np.int64)))


def in_turns(runs: list[Callable[[], object]], repeats: int) -> list[Seconds]:
    """Return the minimum time of each run; they are interleaved, so that slow phases of the machine hit all alike."""
    taken = [[least_seconds(run) for run in runs] for _ in range(repeats)]
    return [Seconds(*map(min, zip(*own))) for own in zip(*taken)]


def read(path: Path) -> list[np.ndarray]:
    """Return labels, offsets, ids and values of a file."""
    parts = list(iterate_rows(path))
    offsets = np.cumsum([0, *(part.indices.size for part in parts)])
    indptr = np.concatenate([[0], *(part.indptr[1:] + offset for part, offset in zip(parts, offsets))])
    labels, indices, values = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("labels", "indices", "values")
    )
    return [labels, indptr, indices, values]


def check_agreement(path: Path) -> None:
    """Assert that both readers return the same rows; this also compiles ours before it is timed."""
    matrix, labels = load_svmlight_file(str(path), zero_based=True)
    for own, other in zip(read(path), (labels, matrix.indptr, matrix.indices, matrix.data.astype(np.float32))):
        np.testing.assert_array_equal(own, other)


def time_parsing(megabytes: float, threads: int = 0) -> dict[str, Any]:
    """Write, check and time each shape in the current directory."""
    path, lines = Path("train.svm"), []
    for name, (n_entries, decimals) in SHAPES.items():
        write_rows(path, megabytes, n_entries, decimals)
        check_agreement(path)
        split(path)  # compiles
        size = path.stat().st_size / 1e6
        ours, splitting = in_turns([lambda: read(path), lambda: split(path)], repeats=9)
        (theirs,) = in_turns([lambda: load_svmlight_file(str(path), zero_based=True)], repeats=2)
        who = {"rafm": ours, "sklearn": theirs, "split": splitting}
        speeds = {each: {"elapsed": size / taken.elapsed, "cpu": size / taken.cpu} for each, taken in who.items()}
        lines.append({"rows": name, **speeds})
    return {"lines": lines}
