"""How good and how fast is Gibbs sampling, distilled into one model, on public ratings?

    RAFM_DATA=folder python experiments/gibbs.py [quality|speed|threads] [NAME ...]      prints tables

The folder holds <name>/<name>.{train,validation,test}.libfm.gz and <name>/features.tsv.gz with the fields. Quality:
test RMSE of the distilled model, default settings, for each seed. Nothing is tuned; validation rows set the noise and
end the run. Speed: CPU milliseconds per sweep on one thread, and those of myFM, if installed, in turns.
Threads: wall milliseconds per sweep on one and two threads in turns, and whether the parameters have the same bytes.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np

from rafm.model.model import Model
from rafm.options import resolve
from rafm.plan.features import plan_features
from rafm.read.fields import read_fields
from rafm.read.open import ReadOptions, labelled_rows, training_rows
from rafm.rows.blocks import join_rows
from rafm.rows.checked import CheckedRows
from rafm.rows.fields import Fields
from rafm.rows.numbering import number_rows
from rafm.rows.source import InMemory
from rafm.rows.stats import count_rows
from rafm.train.gibbs_engine import GibbsEngine
from rafm.train.trainer import Distilled, Finished, train

NAMES, SEEDS, RANKS = ("ml-100k", "ciao", "ml-1m"), (0, 1, 2), (8, 16, 32)
PARTS = ("train", "validation", "test")
TURNS, SWEEPS = 4, 4  # of a measurement of speed: the best turn counts


def load(name: str) -> tuple[InMemory, CheckedRows, CheckedRows]:
    """Return training rows with their fields, validation and test rows."""
    folder = Path(os.environ["RAFM_DATA"]) / name
    files = ReadOptions("regression", fields=read_fields(folder / "features.tsv.gz"))
    train, valid, test = (folder / f"{name}.{part}.libfm.gz" for part in PARTS)
    source, _ = training_rows(train, files)
    whole = join_rows([source.block(number) for number in range(source.n_blocks)])
    others = (labelled_rows(path, files, None) for path in (valid, test))
    return InMemory(whole, source.fields), *(other.block(0) for other in others)


def rmse(model: Model, rows: CheckedRows) -> float:
    return float(np.sqrt(np.mean((model.predict(rows) - rows.labels) ** 2)))


def quality(name: str) -> None:
    """Train with every seed and print what the models reach."""
    data, valid, test = load(name)
    for seed in SEEDS:
        options = resolve(task="regression", model="fm", ranks=8, optimizer="gibbs", seed=seed)
        begun = time.process_time()
        for event in train(data, options, valid):
            if isinstance(event, Distilled):
                gap = event
            if isinstance(event, Finished):
                model = event.model
        seconds, mean = time.process_time() - begun, model.history[-1]["valid_rmse"]
        found = f"mean of samples {mean:.4f}, one model {gap.metrics['rmse']:.4f}, test {rmse(model, test):.4f}"
        print(f"{name:8} seed {seed}: {len(model.history)} sweeps, {seconds:5.1f} CPU s, valid {found}", flush=True)


def engine_of(data: InMemory, rank: int, threads: int = 1) -> GibbsEngine:
    """Return a sampler of the rows, apart from a run."""
    found = count_rows([data.rows])
    features = plan_features(found, data.n_features, "fm", (rank,), np.zeros(0), data.fields)
    rows = number_rows(data.rows, features.numbering)
    return GibbsEngine(rows, features.plan, features.fields.numbers, 0, found.label_mean, threads)


def sample(engine: GibbsEngine, first: int, n_sweeps: int) -> None:
    for sweep in range(first, first + n_sweeps):
        for begin, stop in engine.pieces():
            engine.sample(begin, stop, sweep, False)


def matrix_of(data: InMemory) -> tuple[Any, list[int]]:
    """Return the rows as a matrix with columns ordered by field, and the number of columns of each field."""
    from scipy.sparse import csr_matrix

    rows, fields = data.rows, data.fields
    assert isinstance(fields, Fields)
    numbers = fields.of(np.arange(rows.n_features))
    order = np.argsort(numbers, kind="stable")
    matrix = csr_matrix((rows.values.astype(float), rows.indices, rows.indptr), shape=(rows.n_rows, rows.n_features))
    return matrix[:, order], np.bincount(numbers - numbers.min()).tolist()


def peer_of(data: InMemory, rank: int) -> Callable[[int], None] | None:
    """Return a function that runs so many sweeps of myFM; None if it is not installed."""
    try:
        from myfm import MyFMRegressor
    except ImportError:
        return None
    matrix, shapes = matrix_of(data)

    def run(n_sweeps: int) -> None:
        peer = MyFMRegressor(rank, random_seed=0)
        quiet = {"n_kept_samples": 1, "callback": lambda *_: (False, "")}
        with redirect_stderr(io.StringIO()):  # without its progress bar
            peer.fit(matrix, data.rows.labels.astype(float), n_iter=n_sweeps, group_shapes=shapes, **quiet)

    return run


def cpu_of(work: Callable[..., None], *given: Any) -> float:
    begun = time.process_time()
    work(*given)
    return time.process_time() - begun


def speed(name: str) -> None:
    """Print CPU milliseconds per sweep, and those of myFM: many sweeps less one, so that preparing does not count."""
    data, *_ = load(name)
    for rank in RANKS:
        engine, peer, own, other = engine_of(data, rank), peer_of(data, rank), [], []
        sample(engine, 0, 1)
        for turn in range(TURNS):
            own.append(cpu_of(sample, engine, turn * SWEEPS, SWEEPS) / SWEEPS)
            if peer is not None:
                start = cpu_of(peer, 1)
                other.append((cpu_of(peer, SWEEPS + 1) - start) / SWEEPS)
        ratio = f", myFM {1e3 * min(other):7.1f}: {min(other) / min(own):.1f} times" if other else ""
        print(f"{name:8} rank {rank:2}: {1e3 * min(own):6.1f} CPU ms per sweep{ratio}", flush=True)


def threads(name: str) -> None:
    """Print wall milliseconds per sweep on one and on two threads, and compare the bytes of one, two and four."""
    data, *_ = load(name)
    engines = {n: engine_of(data, 8, n) for n in (1, 2, 4)}
    best = dict.fromkeys(engines, np.inf)
    for turn in range(2 * TURNS):
        for n, engine in engines.items():
            engine.team.probe.alone = n == 1
            engine.team.probe.left = np.inf  # as a team all the time
            begun = time.perf_counter()
            sample(engine, turn * SWEEPS, SWEEPS)
            best[n] = min(best[n], (time.perf_counter() - begun) / SWEEPS)
    states = [{key: array.tobytes() for key, array in engine.state().items()} for engine in engines.values()]
    same = "equal" if states[0] == states[1] == states[2] else "DIFFERENT"
    ratio = f"{best[1] / best[2]:.2f} times"
    print(
        f"{name:8} {1e3 * best[1]:6.1f} ms, two threads {1e3 * best[2]:6.1f}: {ratio}; bytes of 1, 2, 4 threads {same}"
    )


if __name__ == "__main__":
    tables = {"quality": quality, "speed": speed, "threads": threads}
    chosen = [word for word in sys.argv[1:] if word in tables] or [*tables]
    for table in chosen:
        print(table)
        for name in [word for word in sys.argv[1:] if word not in tables] or NAMES:
            tables[table](name)
