"""How fast do other libraries train and score a plain factorization machine on one thread?

    pip install xlearn vowpalwabbit myfm river      (xlearn compiles: it needs cmake and a C++ compiler)
    python benchmarks/peers.py --ranks 8,32,128

Times are CPU seconds of a process of its own. Reading and conversion are kept out: an epoch is the time of
1 + E epochs minus that of one, divided by E; scoring is a difference too where the peer reads a file.

    xlearn  AdaGrad per row, no row normalisation; its text file is parsed once, into its binary cache
    vw      --lrq, which visits all pairs; its cache is read by a thread of its own, which counts; 2,000 rows
    myfm    Gibbs sampling: an epoch is a sweep over all rows, a costlier step than one of SGD
    river   one Python call per row; 500 rows
"""

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
from shapes import Rows, criteo_shaped, frappe_shaped


class Timing(NamedTuple):
    """What one peer took: seconds for an epoch of training, rows scored in a second."""

    seconds_per_epoch: float
    scored_per_second: float


def installed() -> list[str]:
    """Name the peers that this interpreter can import."""
    return [name for name, (module, _) in PEERS.items() if importlib.util.find_spec(module)]


def cpu_seconds(task: Callable[[], object], repeats: int = 1) -> float:
    """Run a task and return the CPU time of this process, all threads together: the least of some repeats."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        task()
        seconds.append(time.process_time() - start)
    return min(seconds)


def epoch_seconds(train: Callable[[int], object], epochs: int, repeats: int = 1) -> float:
    """Time an epoch as a difference, so that what happens once does not count."""
    once = cpu_seconds(lambda: train(1), repeats)
    return (cpu_seconds(lambda: train(1 + epochs), repeats) - once) / epochs


def first_rows(rows: Rows, n_rows: int) -> Rows:
    """Cut the rows short."""
    end = rows.indptr[n_rows]
    return rows._replace(
        indptr=rows.indptr[: n_rows + 1],
        indices=rows.indices[:end],
        values=rows.values[:end],
        labels=rows.labels[:n_rows],
    )


def write_text(path: Path, rows: Rows, heads: tuple[bytes, bytes], token: bytes) -> str:
    """Write a line per row: the head for label 0 or 1, then a token per feature; return the path as text."""
    tokens = np.array([token % i for i in range(rows.n_features)], dtype=object)[rows.indices]
    marks = np.array(heads, dtype=object)[rows.labels.astype(int)]
    cells = np.column_stack([marks, tokens.reshape(rows.labels.size, -1)])
    path.write_bytes(b"\n".join(map(b"".join, cells.tolist())) + b"\n")
    return str(path)


def time_xlearn(rows: Rows, rank: int, epochs: int, folder: Path) -> Timing:
    """Train xLearn's FM; scoring includes reading its cache and writing one line of text per row."""
    import xlearn

    train_path = write_text(folder / "train", rows, (b"0", b"1"), b" %d:1")
    one_path = write_text(folder / "one", first_rows(rows, 1), (b"0", b"1"), b" %d:1")
    model_path, out_path = str(folder / "model"), str(folder / "out")

    def machine(path: str, setter: str) -> xlearn.XLearn:
        fm = xlearn.create_fm()
        getattr(fm, setter)(path)
        fm.disableNorm()
        fm.setQuiet()
        return fm

    def train(n_epochs: int) -> None:
        settings = {"task": "binary", "k": rank, "lr": 0.2, "lambda": 2e-5, "epoch": n_epochs, "nthread": 1}
        machine(train_path, "setTrain").fit(settings, model_path)

    def score(path: str) -> float:
        return cpu_seconds(lambda: machine(path, "setTest").predict(model_path, out_path), repeats=4)

    train(1)  # parses the text and leaves the binary cache
    seconds = epoch_seconds(train, epochs, repeats=3)
    return Timing(seconds, rows.labels.size / (score(train_path) - score(one_path)))


def time_vw(rows: Rows, rank: int, epochs: int, folder: Path) -> Timing:
    """Train Vowpal Wabbit's low-rank quadratic; scoring is one more pass over the cache in test mode."""
    from vowpalwabbit import Workspace

    few = first_rows(rows, min(2000, rows.labels.size))
    path = write_text(folder / "train.vw", few, (b"-1 |a", b"1 |a"), b" %d")
    bits = min(26, int(np.ceil(np.log2(rows.n_features * (rank + 1)))))
    settings = {"loss_function": "logistic", "lrq": f"aa{rank}", "b": bits, "quiet": True}
    cache = {"d": path, "cache_file": str(folder / "cache"), "holdout_off": True}

    def run(n_passes: int, **more: object) -> None:
        Workspace(passes=n_passes, **settings, **cache, **more).finish()

    run(1)  # writes the cache
    seconds = epoch_seconds(run, epochs) * rows.labels.size / few.labels.size
    passes = epoch_seconds(lambda n: run(n, testonly=True), epochs)
    return Timing(seconds, few.labels.size / passes)


def time_myfm(rows: Rows, rank: int, epochs: int, folder: Path) -> Timing:
    """Train myFM's Gibbs sampler on the rows as they lie in memory."""
    from myfm import MyFMClassifier
    from scipy.sparse import csr_matrix

    shape = (rows.labels.size, rows.n_features)
    matrix = csr_matrix((rows.values.astype(np.float64), rows.indices, rows.indptr), shape=shape)

    def train(n_epochs: int) -> MyFMClassifier:
        quiet = {"callback": lambda *_: (False, None), "n_kept_samples": 1}
        return MyFMClassifier(rank, random_seed=0).fit(matrix, rows.labels > 0, n_iter=n_epochs, **quiet)

    seconds = epoch_seconds(train, epochs)
    model = train(1)
    return Timing(seconds, rows.labels.size / cpu_seconds(lambda: model.predict_proba(matrix)))


def time_river(rows: Rows, rank: int, epochs: int, folder: Path) -> Timing:
    """Train river's FM on dictionaries, row by row."""
    from river.facto import FMClassifier

    few = min(500, rows.labels.size)
    table = rows.indices[: rows.indptr[few]].reshape(few, -1)
    lines = [dict.fromkeys(map(str, line), 1.0) for line in table.tolist()]
    labels = (rows.labels[:few] > 0).tolist()
    model = FMClassifier(n_factors=rank, seed=0)

    def train() -> None:
        for x, y in zip(lines, labels):
            model.learn_one(x, y)

    train()  # the vectors are made at first sight
    seconds = cpu_seconds(train) * rows.labels.size / few
    return Timing(seconds, few / cpu_seconds(lambda: [model.predict_proba_one(x) for x in lines]))


PEERS = {
    "xlearn": ("xlearn", time_xlearn),
    "vw": ("vowpalwabbit", time_vw),
    "myfm": ("myfm", time_myfm),
    "river": ("river", time_river),
}


def measure(peer: str, rows: Rows, rank: int, epochs: int = 4) -> Timing:
    """Time one peer in a child process (some print, some abort) and in a folder that goes afterwards."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, initializer=_settle) as pool:
        return pool.submit(PEERS[peer][1], rows, rank, epochs, Path(folder)).result()


def _settle() -> None:
    """Keep the child process on one thread and silent."""
    os.environ |= {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    os.environ.setdefault("USER", "nobody")  # xlearn aborts without it
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def main() -> None:
    """Print a table: a line per shape, peer and rank."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", default=",".join(installed()))
    parser.add_argument("--ranks", default="8,32,128")
    parser.add_argument("--epochs", type=int, default=4)
    options = parser.parse_args()
    for rows in (frappe_shaped(), criteo_shaped()):
        print(rows)
        print("peer     rank   seconds/epoch   M updates/s   M rows/s trained   M rows/s scored")
        for peer in options.peers.split(","):
            for rank in map(int, options.ranks.split(",")):
                seconds, scored = measure(peer, rows, rank, options.epochs)
                updates, trained = rows.indices.size * rank / seconds / 1e6, rows.labels.size / seconds / 1e6
                line = f"{seconds:15.3f} {updates:13.1f} {trained:18.3f} {scored / 1e6:17.3f}"
                print(f"{peer:8} {rank:4} {line}", flush=True)


if __name__ == "__main__":
    main()
