"""How many rows a second does a trained model score on one thread, next to other libraries?

    python -m benchmarks.bench_scoring [--shapes frappe,criteo] [--peers xlearn] [--ranks 8,32,128,512]

Two figures of ours: `kernel` scores rows that are numbered already, as validation rows are in training; `model` is
Model.scores, which also looks up and sorts the ids of every row. The ratio takes `model`. benchmarks.bench.peers says
what the peers' figures contain: xLearn also reads its binary cache and writes a line of text per row.

Then RaFM of several rank sets, relative to the FM of their top rank. A level that none of a row's features ends on is
skipped, so scoring may cost less than the active factors.
"""

from __future__ import annotations

from benchmarks.arguments import asked_for
from benchmarks.bench.peers import measure
from benchmarks.bench.shapes import Rows
from benchmarks.bench.trainee import REPEATS, Scorer
from benchmarks.bench_training import PEER_FACTORS, RANK_SETS
from rafm.plan.ranks import describe_plan


def compare_peers(rows: Rows, peers: list[str], rank: int) -> str:
    """Return one line of the first table; ours is timed before and after each peer."""
    ours, theirs = Scorer(rows, "fm", (rank,)), {}
    ours.time()
    for peer in peers if rows.n_features * rank <= PEER_FACTORS else []:
        theirs[peer] = measure(peer, rows, rank, epochs=1).scored
        ours.time()
    kernel, whole = rows.labels.size / ours.kernel_best, rows.labels.size / ours.model_best
    line = f"{rank:5} {kernel / 1e6:16.3f} {whole / 1e6:15.3f}"
    for peer in peers:
        known = f"{theirs[peer] / 1e6:16.3f} {whole / theirs[peer]:8.2f}" if peer in theirs else " " * 24 + "-"
        line += f" {known}"
    return line


def show_peers(rows: Rows, peers: list[str], ranks: list[int]) -> None:
    """Print the first table, in millions of rows per CPU second."""
    columns = [f"{peer + ' M rows/s':>16} {'ratio':>8}" for peer in peers]
    print(f"{'rank':>5} {'kernel M rows/s':>16} {'model M rows/s':>15}", *columns)
    for rank in ranks:
        print(compare_peers(rows, peers, rank), flush=True)


def compare_top(rows: Rows, ranks: tuple[int, ...]) -> str:
    """Return one line of the second table; both models take turns."""
    rafm, top = Scorer(rows, "rafm", ranks), Scorer(rows, "fm", ranks[-1:])
    for _ in range(REPEATS):
        rafm.time(1)
        top.time(1)
    *levels, whole = describe_plan(rafm.model.plan, rafm.model.counts, rafm.model.n_rows)
    work = sum(line["factors_per_row"] for line in levels) / whole["factors_per_row"]
    shares = ", ".join(f"{line['share_of_nonzeros']:.0%} >= {line['rank']}" for line in levels)
    rate, time = 1e-6 * rows.labels.size / rafm.kernel_best, rafm.kernel_best / top.kernel_best
    return f"{' '.join(map(str, ranks)):>12} {rate:15.3f} {work:13.3f} {time:11.3f}   {shares}"


def show_top(rows: Rows) -> None:
    """Print the second table."""
    print(
        f"\n{'rafm ranks':>12} {'kernel M rows/s':>15} {'active of top':>13} {'time of top':>11}   "
        "share of nonzeros per rank"
    )
    for ranks in RANK_SETS:
        print(compare_top(rows, ranks), flush=True)


def main() -> None:
    """Print both tables for each shape."""
    for rows, peers, ranks in asked_for(__doc__):
        show_peers(rows, peers, ranks)
        show_top(rows)


if __name__ == "__main__":
    main()
