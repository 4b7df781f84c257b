"""What does an epoch of a field-aware model cost, beside libffm and xLearn, on one thread and on two?

    python -m benchmarks.bench_ffm [--rows 20000] [--fields 39] [--ranks 4,8]

Rows are generated: one feature of each field, a few of them frequent. CPU milliseconds of an epoch on one thread, of
many epochs less one, so that reading and preparing do not count; beside them libffm (package pylibffm) and xLearn, if
installed, in turns. The best of several turns counts. libffm and xLearn keep one AdaGrad state per coordinate, rafm one
per vector. Threads: milliseconds by the clock on one thread and on two, in turns.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable

import numpy as np
from scipy.sparse import csr_matrix

from rafm.options import resolve
from rafm.rows.checked import Batch, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.rows.stats import count_rows
from rafm.train.resources import Resources
from rafm.train.steps.job import Job
from rafm.train.steps.run import Position, Run

FIELD_FEATURES, TURNS, EPOCHS = 1000, 3, 4


class Clicks:
    """Generated clicks with one feature of each field per row."""

    def __init__(self, n_rows: int, n_fields: int):
        rng = np.random.default_rng(0)
        codes = np.minimum((rng.pareto(1.0, (n_rows, n_fields)) * 5).astype(np.int64), FIELD_FEATURES - 1)
        self.ids, self.labels = codes + FIELD_FEATURES * np.arange(n_fields), rng.integers(0, 2, n_rows)
        self.n_features = n_fields * FIELD_FEATURES

    def run(self, rank: int, threads: int = 1) -> Run:
        """Return a run of rafm on these rows."""
        n_rows, n_fields = self.ids.shape
        ones, indptr = np.ones(self.ids.size), n_fields * np.arange(n_rows + 1)
        rows = check_batch(Batch(indptr, self.ids.ravel(), ones, self.n_features, self.labels.astype(np.float32)))
        fields = Fields.of_ranges(
            [f"field {k}" for k in range(n_fields)], [FIELD_FEATURES * k for k in range(n_fields + 1)]
        )
        options = resolve(task="binary", model="ffm", ranks=rank, threads=threads)
        job = Job(InMemory(rows, fields), None, count_rows([rows]), 1.0, Resources(), None)
        return job.run(job.features(options), options)

    def libffm(self, rank: int) -> Callable[[int], None] | None:
        """Return a function that runs so many epochs of libffm; None if it is not installed."""
        try:
            import pylibffm
        except ImportError:
            return None
        n_rows, n_fields = self.ids.shape
        indptr = n_fields * np.arange(n_rows + 1)
        ones = np.ones(self.ids.size, np.float32)
        matrix = csr_matrix((ones, self.ids.ravel().astype(np.int32), indptr), shape=(n_rows, self.n_features))
        fields = np.repeat(np.arange(n_fields), FIELD_FEATURES)

        def train(epochs: int) -> None:
            given = {"k": rank, "nr_iters": epochs, "nr_threads": 1}
            with tempfile.TemporaryDirectory() as folder:
                pylibffm.train(matrix, self.labels.astype(np.float32), fields, folder, given)

        return train

    def xlearn(self, rank: int) -> Callable[[int], None] | None:
        """Return a function that runs so many epochs of xLearn; None if it is not installed."""
        try:
            import xlearn
        except ImportError:
            return None
        folder = tempfile.mkdtemp()
        os.environ.setdefault("USER", "nobody")  # without it xLearn aborts
        with open(f"{folder}/rows.ffm", "w") as file:
            for label, ids in zip(self.labels, self.ids):
                file.write(f"{label} {' '.join(f'{field}:{i}:1' for field, i in enumerate(ids))}\n")

        def train(epochs: int) -> None:
            model = xlearn.create_ffm()
            model.setTrain(f"{folder}/rows.ffm")
            model.setQuiet()
            model.disableEarlyStop()
            given = {"task": "binary", "k": rank, "epoch": epochs, "nthread": 1, "opt": "adagrad"}
            model.fit(given, f"{folder}/model.out")

        return train


def cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a call."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def epochs(run: Run, n_epochs: int = 1) -> None:
    """Train so many epochs."""
    for _ in range(n_epochs):
        for _ in run.pieces():
            pass
        run.at = Position()


def per_epoch(train: Callable[[int], None]) -> float:
    """Return the CPU seconds of an epoch: of many less those of one."""
    return (cpu_of(lambda: train(1 + EPOCHS)) - cpu_of(lambda: train(1))) / EPOCHS


def quietly(train: Callable[[int], None]) -> Callable[[int], None]:
    """Return a function that does the same without what a library prints by itself."""

    def call(n_epochs: int) -> None:
        kept, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        try:
            train(n_epochs)
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            os.close(nothing)

    return call


def compare(clicks: Clicks, rank: int) -> None:
    """Print the milliseconds of an epoch of every library, in turns."""
    run, n_rows, pairs = clicks.run(rank), len(clicks.ids), clicks.ids.shape[1] * (clicks.ids.shape[1] - 1) / 2
    epochs(run)  # compiles
    rivals = {"libffm": clicks.libffm(rank), "xLearn": clicks.xlearn(rank)}
    times: dict[str, list[float]] = {"rafm": [], **{name: [] for name, train in rivals.items() if train}}
    for _ in range(TURNS):
        times["rafm"].append(cpu_of(lambda: epochs(run, EPOCHS)) / EPOCHS)
        for name, train in rivals.items():
            if train:
                times[name].append(per_epoch(quietly(train)))
    for name, found in times.items():
        ratio, of_pair = min(found) / min(times["rafm"]), 1e9 * min(found) / n_rows / pairs
        print(f"rank {rank}  {name:7} {1e3 * min(found):8.1f} ms  {of_pair:5.1f} ns/pair  {ratio:.2f}", flush=True)


def compare_threads(clicks: Clicks, rank: int) -> None:
    """Print the milliseconds by the clock of an epoch on one thread and on two, in turns."""
    runs, times = [clicks.run(rank, threads) for threads in (1, 2)], ([], [])  # type: ignore[var-annotated]
    for _ in range(TURNS + 1):
        for run, found in zip(runs, times):
            begun = time.perf_counter()
            epochs(run)
            found.append(1e3 * (time.perf_counter() - begun))
    one, two = (min(found[1:]) for found in times)
    print(f"rank {rank}  one thread {one:.1f} ms, two {two:.1f} ms by the clock: {one / two:.2f} times as fast")


def main() -> None:
    """Compare at each rank."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--fields", type=int, default=39)
    parser.add_argument("--ranks", default="4,8")
    given = parser.parse_args()
    clicks = Clicks(given.rows, given.fields)
    for rank in map(int, given.ranks.split(",")):
        compare(clicks, rank)
        compare_threads(clicks, rank)


if __name__ == "__main__":
    main()
