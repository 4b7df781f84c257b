"""What does a sweep of Gibbs sampling cost, beside myFM, on two threads, and as the data grow?

    python -m benchmarks.bench_gibbs [peer] [threads] [growth] [--rows 1000000] [--ranks 8,16,32] [--plot FILE]

Ratings are generated: users and items with Zipf's frequencies, and further fields of a hundred values. Peer: CPU
milliseconds per sweep on one thread, and those of myFM, if installed, in turns; many sweeps less one, so that preparing
does not count. Threads: milliseconds by the clock on one and two threads in turns, and whether one, two and four have
the same bytes. Growth: nanoseconds per row, field and factor (weights count as one) while one of the three grows; with
--plot also as a picture (SVG).
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np

from rafm.charts import STYLE, Axis, Series, chart
from rafm.kernels.tables import Rows
from rafm.plan.ranks import RankPlan
from rafm.train.gibbs.engine import GibbsEngine

TABLES = ("peer", "threads", "growth")
USERS, ITEMS, SMALL = 6000, 3700, 100  # features of the first, second and further fields
TURNS, SWEEPS = 4, 4  # the best turn counts


class Ratings:
    """Generated ratings with one feature of each field per row."""

    def __init__(self, n_rows: int, n_fields: int = 2):
        rng, sizes = np.random.default_rng(0), (USERS, ITEMS, *[SMALL] * n_fields)[:n_fields]
        self.sizes, starts = sizes, np.cumsum((0, *sizes))
        ranked = [rng.random(n_rows) ** 2 * size for size in sizes]  # frequent ones first
        self.ids = np.stack([start + found.astype(np.int64) for start, found in zip(starts, ranked)], axis=1)
        self.labels = rng.integers(1, 6, n_rows).astype(np.float32)

    def engine(self, rank: int, threads: int = 1) -> GibbsEngine:
        """Return a sampler of these rows, apart from a run."""
        n_rows, n_fields = self.ids.shape
        n, indptr = sum(self.sizes), np.arange(n_rows + 1) * n_fields
        ones = np.ones(self.ids.size, np.float32), np.ones(n_rows, np.float32)
        rows = Rows(indptr, indptr[1:], self.ids.ravel(), ones[0], self.labels, ones[1])
        fields = np.repeat(np.arange(n_fields), self.sizes)
        return GibbsEngine(rows, RankPlan("fm", (rank,), (n, n, 0)), fields, 0, float(self.labels.mean()), threads)

    def peer(self, rank: int) -> Callable[[int], None] | None:
        """Return a function that runs so many sweeps of myFM; None if it is not installed."""
        try:
            from myfm import MyFMRegressor
        except ImportError:
            return None
        from scipy.sparse import csr_matrix

        indptr = np.arange(len(self.ids) + 1) * self.ids.shape[1]
        matrix = csr_matrix((np.ones(self.ids.size), self.ids.ravel(), indptr), shape=(len(self.ids), sum(self.sizes)))

        def run(n_sweeps: int) -> None:
            peer, labels = MyFMRegressor(rank, random_seed=0), self.labels.astype(float)
            quiet: dict[str, Any] = {"n_kept_samples": 1, "callback": lambda *_: (False, "")}
            with redirect_stderr(io.StringIO()):  # without its progress bar
                peer.fit(matrix, labels, n_iter=n_sweeps, group_shapes=[*self.sizes], **quiet)

        return run


def sample(engine: GibbsEngine, first: int, n_sweeps: int = SWEEPS) -> None:
    for sweep in range(first, first + n_sweeps):
        for begin, stop in engine.pieces():
            engine.sample(begin, stop, sweep, False)


def cpu_of(work: Callable[..., None], *given: Any) -> float:
    begun = time.process_time()
    work(*given)
    return time.process_time() - begun


def sweep_seconds(engine: GibbsEngine) -> float:
    """Return the CPU seconds of a sweep, the best of several turns."""
    sample(engine, 0, 1)
    return min(cpu_of(sample, engine, 1 + turn * SWEEPS) for turn in range(TURNS)) / SWEEPS


def show_peer(ratings: Ratings, ranks: list[int]) -> None:
    """Print a sweep beside one of myFM."""
    for rank in ranks:
        engine, peer, own, other = ratings.engine(rank), ratings.peer(rank), [], []
        sample(engine, 0, 1)
        for turn in range(TURNS):
            own.append(cpu_of(sample, engine, 1 + turn * SWEEPS) / SWEEPS)
            if peer is not None:
                start = cpu_of(peer, 1)
                other.append((cpu_of(peer, SWEEPS + 1) - start) / SWEEPS)
        beside = f", myFM {1e3 * min(other):7.1f}: {min(other) / min(own):.1f} times" if other else ""
        print(f"rank {rank:3}: {1e3 * min(own):7.1f} CPU ms per sweep{beside}", flush=True)


def show_threads(ratings: Ratings, ranks: list[int]) -> None:
    """Print a sweep on one and on two threads, and compare the bytes of one, two and four."""
    for rank in ranks:
        engines = {n: ratings.engine(rank, n) for n in (1, 2, 4)}
        best = dict.fromkeys(engines, np.inf)
        for turn in range(2 * TURNS):
            for n, engine in engines.items():
                engine.team.probe.alone = n == 1
                engine.team.probe.left = np.inf  # as a team all the time
                begun = time.perf_counter()
                sample(engine, turn * SWEEPS)
                best[n] = min(best[n], (time.perf_counter() - begun) / SWEEPS)
        states = [{key: array.tobytes() for key, array in engine.state().items()} for engine in engines.values()]
        same = "equal" if states[0] == states[1] == states[2] else "DIFFERENT"
        times = f"{1e3 * best[1]:7.1f} ms, two threads {1e3 * best[2]:7.1f}: {best[1] / best[2]:.2f} times"
        print(f"rank {rank:3}: {times}; bytes of 1, 2, 4 threads {same}", flush=True)


def show_growth(n_rows: int, ranks: list[int], plot: str | None) -> None:
    """Print the cost of a row, field and factor as rows, fields and rank grow; draw the time of a sweep."""
    points: dict[str, list[tuple[float, float]]] = {}
    cases = [("rows", n_rows // share, 2, 8) for share in (8, 4, 2, 1)]
    cases += [("fields", n_rows // 4, n_fields, 8) for n_fields in (2, 4, 8)]
    cases += [("rank", n_rows // 4, 2, rank) for rank in ranks]
    for grows, rows, n_fields, rank in cases:
        seconds = sweep_seconds(Ratings(rows, n_fields).engine(rank))
        unit = 1e9 * seconds / (rows * n_fields * (rank + 1))
        size = f"{rows:8} rows, {n_fields} fields, rank {rank:3}"
        print(f"{grows:6} {size}: {1e3 * seconds:7.1f} CPU ms per sweep, {unit:5.2f} ns each", flush=True)
        points.setdefault(grows, []).append((rows * n_fields * (rank + 1) / 1e6, 1e3 * seconds))
    if plot:
        series = [Series(f"more {name}", *zip(*own), style=k) for k, (name, own) in enumerate(points.items(), 1)]
        axes = Axis("millions of rows x fields x (rank + 1)", is_log=True), Axis("CPU ms of a sweep", is_log=True)
        Path(plot).write_text(chart("A sweep grows with rows, fields and rank", *axes, series, style=STYLE))


def main() -> None:
    """Print the tables that are asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--ranks", default="8,16,32")
    parser.add_argument("--plot")
    chosen = parser.parse_args()
    ranks, wanted = [*map(int, chosen.ranks.split(","))], chosen.tables or TABLES
    ratings = Ratings(chosen.rows)
    print(f"{chosen.rows} ratings of {ITEMS} items by {USERS} users")
    if "peer" in wanted:
        show_peer(ratings, ranks)
    if "threads" in wanted:
        show_threads(ratings, ranks)
    if "growth" in wanted:
        show_growth(chosen.rows, ranks, chosen.plot)


if __name__ == "__main__":
    main()
