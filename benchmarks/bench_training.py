"""How many factor updates a second does training make on one thread, next to other libraries and to its own theory?

    python -m benchmarks.bench_training [--shapes frappe,criteo] [--peers xlearn,vw] [--ranks 8,32,128,512]

First table: a plain FM, millions of factor updates (nonzeros x rank) per CPU second of one epoch, default AdaGrad, and
how many times as fast as each installed peer that is; benchmarks.bench.peers says what their figures contain. Two
threads train the same bytes; their column says how many times as fast they are by the clock, if nobody else works.

Second table: RaFM of several rank sets against the FM of their top rank. A row costs D_k per nonzero and level it
reaches; if time per active factor is that of the FM, the pass costs what the theory says. Short vectors cost more per
factor, so the FM of the mean active rank (active factors / nonzeros, a multiple of 16) stands beside it.

On criteo-shaped rows peers stop at rank 128: with a state per factor their tables would take 5 GB at rank 512.
"""

from __future__ import annotations

import numpy as np

from benchmarks.arguments import asked_for
from benchmarks.bench.peers import measure
from benchmarks.bench.shapes import Rows
from benchmarks.bench.trainee import REPEATS, Trainee

RANK_SETS = ((8, 32, 128), (32, 512), (8, 32, 128, 512))
PEER_FACTORS = 3e8  # peers skip tables with more factors than this
TURNS = 8  # of one and two threads


def compare_threads(rows: Rows, rank: int) -> float:
    """Return how many times as fast two threads are as one, by the clock; both take turns."""
    crews = [Trainee(rows, "fm", (rank,), threads) for threads in (1, 2)]
    for crew in crews:
        crew.check()
    assert np.array_equal(*(crew.engine.state()["records"] for crew in crews)), "threads must not change a bit"
    for crew in crews:
        crew.settle()
    for _ in range(TURNS):
        for crew in crews:
            crew.time(1)
    return crews[0].elapsed / crews[1].elapsed


def compare_peers(rows: Rows, peers: list[str], rank: int) -> str:
    """Return one line of the first table; ours is timed before and after each peer."""
    ours, theirs = Trainee(rows, "fm", (rank,)), {}
    ours.check()
    ours.time()
    updates = rows.indices.size * rank / 1e6
    for peer in peers if rows.n_features * rank <= PEER_FACTORS else []:
        theirs[peer] = measure(peer, rows, rank).epoch.cpu
        ours.time()
    line = f"{rank:5} {updates / ours.best:10.1f} {1e-6 * rows.labels.size / ours.best:14.3f}"
    line += f" {compare_threads(rows, rank):11.2f}"
    for peer in peers:
        rate = f"{updates / theirs[peer]:10.1f} {theirs[peer] / ours.best:8.2f}" if peer in theirs else " " * 17 + "-"
        line += f" {rate}"
    return line


def show_peers(rows: Rows, peers: list[str], ranks: list[int]) -> None:
    """Print the first table."""
    ours = f"{'rank':>5} {'rafm M/s':>10} {'rafm M rows/s':>14} {'two threads':>11}"
    print(ours, *(f"{peer + ' M/s':>10} {'ratio':>8}" for peer in peers))
    for rank in ranks:
        print(compare_peers(rows, peers, rank), flush=True)


def shares_of(trainee: Trainee) -> str:
    """Return the share of nonzeros that reach each rank."""
    return ", ".join(f"{line['share_of_nonzeros']:.0%} >= {line['rank']}" for line in trainee.levels)


def compare_theory(rows: Rows, ranks: tuple[int, ...]) -> str:
    """Return one line of the second table; the three models take turns."""
    rafm = Trainee(rows, "rafm", ranks)
    mean_rank = 16 * max(1, round(rafm.active_factors * rafm.order.size / rows.indices.size / 16))
    top, even = Trainee(rows, "fm", ranks[-1:]), Trainee(rows, "fm", (mean_rank,))
    for trainee in (rafm, top, even):
        trainee.check()
    for _ in range(REPEATS):
        for trainee in (rafm, top, even):
            trainee.time(1)
    per_factor = [one.nanoseconds_per_row / one.active_factors for one in (rafm, top, even)]
    work, time = rafm.active_factors / top.active_factors, rafm.best / top.best
    return (
        f"{' '.join(map(str, ranks)):>12} {rafm.active_factors:9.0f} {work:9.3f} {time:9.3f} "
        f"{per_factor[0]:10.3f} {per_factor[1]:10.3f} {per_factor[0] / per_factor[1]:7.2f} "
        f"{mean_rank:9} {per_factor[0] / per_factor[2]:7.2f}   {shares_of(rafm)}"
    )


def show_theory(rows: Rows) -> None:
    """Print the second table."""
    print(
        f"\n{'rafm ranks':>12} {'active':>9} {'of fm top':>9} {'time of':>9} {'ns/factor':>10} {'ns/factor':>10} "
        f"{'ratio':>7} {'mean rank':>9} {'ratio':>7}   share of nonzeros\n"
        f"{'':>12} {'per row':>9} {'(theory)':>9} {'fm top':>9} {'rafm':>10} {'fm top':>10} "
        f"{'to top':>7} {'':>9} {'to mean':>7}   per rank"
    )
    for ranks in RANK_SETS:
        print(compare_theory(rows, ranks), flush=True)


def main() -> None:
    """Print both tables for each shape."""
    for rows, peers, ranks in asked_for(__doc__):
        show_peers(rows, peers, ranks)
        show_theory(rows)


if __name__ == "__main__":
    main()
