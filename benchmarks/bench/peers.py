"""How fast do other libraries train and score a plain factorization machine?

Each peer is timed in a process of its own. Reading and conversion do not count: an epoch is the time of 1 + E epochs
minus that of one, divided by E; scoring is a difference too if the peer reads a file.

    xlearn  AdaGrad per row, no row normalisation; its text file is parsed once, into its binary cache; several threads
    vw      --lrq, which visits all pairs; its cache is read by a thread of its own, which counts; 2,000 rows
    myfm    Gibbs sampling: an epoch is a sweep over all rows, a costlier step than one of SGD
    river   one Python call per row; 500 rows
    libfm   the program `libFM`: SGD per row; it scores in every epoch, which counts; no figure for scoring alone
    torch   embeddings with sparse gradients, mini-batches of 256 rows, AdaGrad; several threads
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .child import call
from .clock import Seconds, cpu_seconds, epoch_seconds, least_seconds
from .shapes import SHAPES, Rows


class Timing(NamedTuple):
    """Time of one training epoch, and rows scored per CPU second if known."""

    epoch: Seconds
    scored: float | None


def write_text(path: Path, rows: Rows, prefixes: tuple[bytes, bytes], token: bytes) -> str:
    """Write one line per row: the prefix for label 0 or 1, then a token per feature; return the path as text."""
    tokens = np.array([token % i for i in range(rows.n_features)], dtype=object)[rows.indices]
    marks = np.array(prefixes, dtype=object)[rows.labels.astype(int)]
    cells = np.column_stack([marks, tokens.reshape(rows.labels.size, -1)])
    path.write_bytes(b"\n".join(map(b"".join, cells.tolist())) + b"\n")
    return str(path)


def time_xlearn(rows: Rows, rank: int, epochs: int, threads: int) -> Timing:
    """Train xLearn's FM; scoring includes reading its cache and writing one line of text per row."""
    import xlearn

    train_path = write_text(Path("train"), rows, (b"0", b"1"), b" %d:1")
    one_path = write_text(Path("one"), rows.first(1), (b"0", b"1"), b" %d:1")

    def machine(path: str, setter: str) -> Any:
        fm = xlearn.create_fm()
        getattr(fm, setter)(path)
        fm.disableNorm()
        fm.setQuiet()
        return fm

    def train(n_epochs: int) -> None:
        settings = {"task": "binary", "k": rank, "lr": 0.2, "lambda": 2e-5, "epoch": n_epochs, "nthread": threads}
        machine(train_path, "setTrain").fit(settings, "model")

    def score(path: str) -> float:
        return cpu_seconds(lambda: machine(path, "setTest").predict("model", "out"), repeats=3)

    train(1)  # parses the text and writes the binary cache
    epoch = epoch_seconds(train, 5 * epochs, repeats=3)  # its epochs are fast, so time more of them against noise
    return Timing(epoch, rows.labels.size / (score(train_path) - score(one_path)))


def time_vw(rows: Rows, rank: int, epochs: int, threads: int) -> Timing:
    """Train Vowpal Wabbit's low-rank quadratic model; scoring is another pass over the cache in test mode."""
    from vowpalwabbit import Workspace

    few = rows.first(2000)
    path = write_text(Path("train.vw"), few, (b"-1 |a", b"1 |a"), b" %d")
    bits = min(26, int(np.ceil(np.log2(rows.n_features * (rank + 1)))))  # a table without collisions, if it fits
    settings = {"loss_function": "logistic", "lrq": f"aa{rank}", "b": bits, "quiet": True}
    cache = {"d": path, "cache_file": "cache", "holdout_off": True}

    def run(n_passes: int, **more: object) -> None:
        Workspace(passes=n_passes, **settings, **cache, **more).finish()

    run(1)  # writes the cache
    epoch = epoch_seconds(run, epochs) / (few.labels.size / rows.labels.size)
    passes = epoch_seconds(lambda n: run(n, testonly=True), epochs)
    return Timing(epoch, few.labels.size / passes.cpu)


def time_myfm(rows: Rows, rank: int, epochs: int, threads: int) -> Timing:
    """Train myFM's Gibbs sampler on rows in memory."""
    from myfm import MyFMClassifier
    from scipy.sparse import csr_matrix

    shape = (rows.labels.size, rows.n_features)
    matrix = csr_matrix((rows.values.astype(np.float64), rows.indices, rows.indptr), shape=shape)

    def train(n_epochs: int) -> Any:
        quiet = {"callback": lambda *_: (False, None), "n_kept_samples": 1}
        return MyFMClassifier(rank, random_seed=0).fit(matrix, rows.labels > 0, n_iter=n_epochs, **quiet)

    epoch = epoch_seconds(train, epochs)
    model = train(1)
    return Timing(epoch, rows.labels.size / cpu_seconds(lambda: model.predict_proba(matrix)))


def time_river(rows: Rows, rank: int, epochs: int, threads: int) -> Timing:
    """Train river's FM on dictionaries, row by row."""
    from river.facto import FMClassifier

    few = rows.first(500)
    n_rows = few.labels.size
    lines = [dict.fromkeys(map(str, line), 1.0) for line in few.indices.reshape(n_rows, -1).tolist()]
    labels, model = (few.labels > 0).tolist(), FMClassifier(n_factors=rank, seed=0)

    def train() -> None:
        for x, y in zip(lines, labels):
            model.learn_one(x, y)

    train()  # vectors are allocated at the first occurrence
    epoch = least_seconds(train) / (n_rows / rows.labels.size)
    return Timing(epoch, n_rows / cpu_seconds(lambda: [model.predict_proba_one(x) for x in lines]))


def time_libfm(rows: Rows, rank: int, epochs: int, threads: int) -> Timing:
    """Train with the libFM program, which requires at least one test row."""
    train_path = write_text(Path("train"), rows, (b"0", b"1"), b" %d:1")
    one_path = write_text(Path("one"), rows.first(1), (b"0", b"1"), b" %d:1")

    def train(n_epochs: int) -> None:
        command = ["libFM", "-task", "c", "-method", "sgd", "-learn_rate", "0.05", "-dim", f"1,1,{rank}"]
        command += ["-train", train_path, "-test", one_path, "-iter", str(n_epochs)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return Timing(epoch_seconds(train, epochs), None)


def time_torch(rows: Rows, rank: int, epochs: int, threads: int) -> Timing:
    """Train an FM in PyTorch on rows in memory."""
    from .torchfm import TorchFM

    model = TorchFM(rows.n_features, rank, threads)
    table = rows.indices.reshape(rows.labels.size, -1)
    model.epoch(table[:512], rows.labels[:512])  # warm-up
    epoch = least_seconds(lambda: model.epoch(table, rows.labels), repeats=2)
    return Timing(epoch, rows.labels.size / cpu_seconds(lambda: model.probabilities(table)))


PEERS: dict[str, Callable[[Rows, int, int, int], Timing]] = {
    "xlearn": time_xlearn,
    "vw": time_vw,
    "myfm": time_myfm,
    "river": time_river,
    "libfm": time_libfm,
    "torch": time_torch,
}


def time_peer(peer: str, shape: str, n_rows: int, rank: int, epochs: int, threads: int) -> dict[str, Any]:
    """Time one peer in this process."""
    epoch, scored = PEERS[peer](SHAPES[shape](n_rows), rank, epochs, threads)
    return {"elapsed": epoch.elapsed, "cpu": epoch.cpu, "scored": scored}


def measure(peer: str, rows: Rows, rank: int, epochs: int = 4, threads: int = 1, limit: float = 3600) -> Timing:
    """Time one peer on rows of a shape in a process of its own."""
    size = {"shape": rows.name.split("-")[0], "n_rows": rows.labels.size}
    found = call("peers", "time_peer", limit, threads, peer=peer, rank=rank, epochs=epochs, **size)
    if "failed" in found:
        raise RuntimeError(f"{peer}: {found['failed']}")
    return Timing(Seconds(found["elapsed"], found["cpu"]), found["scored"])
