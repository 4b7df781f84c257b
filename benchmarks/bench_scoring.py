"""How many rows a second does a trained model score on one thread, next to other libraries?

    python benchmarks/bench_scoring.py [--shapes frappe,criteo] [--peers xlearn] [--ranks 8,32,128,512]

Two figures of ours: `kernel` scores rows that are numbered already, as validation rows are in training; `model` is
Model.scores, which also looks up and sorts the ids of every row. The ratio takes `model`. peers.py says what the
peers' figures contain: xLearn also reads its binary cache and writes a line of text per row.

Then RaFM of several rank sets, relative to the FM of their top rank. A level that none of a row's features ends on is
skipped, so scoring may cost less than the active factors.
"""

from __future__ import annotations

import argparse

import numpy as np
from bench_training import PEER_FACTORS, RANK_SETS, REPEATS, SHAPES, as_batch
from peers import cpu_seconds, installed, measure
from shapes import Rows

from rafm.batch import number_rows
from rafm.model import Model
from rafm.options import resolve
from rafm.parameters import RecordLayout
from rafm.ranks import describe_plan
from rafm.scoring import score
from rafm.trainer import train_model

CHECKED = 50  # rows scored by the definition


def plain_score(model: Model, numbers: np.ndarray) -> float:
    """Return the score of a row whose values are all 1, pair by pair at the rank that both features have."""
    parameters, levels = model.parameters, model.plan.levels()
    total = parameters.bias[0].astype(float) + parameters.weights[numbers].sum(dtype=float)
    for place, i in enumerate(numbers):
        for j in numbers[:place]:
            block = parameters.factors[min(levels[i], levels[j]) - 1]
            total += block[i].astype(float) @ block[j].astype(float)
    return total


class Scorer:
    """A model trained for one epoch, and the rows to score."""

    def __init__(self, rows: Rows, family: str, ranks: tuple[int, ...]):
        self.batch = as_batch(rows)
        options = resolve(task="binary", model=family, ranks=ranks, n_epochs=1)
        self.model = train_model(self.batch, options)
        self.rows = number_rows(self.batch, self.model.numbering)
        layout, parameters = RecordLayout(self.model.plan, with_states=False), self.model.parameters
        self.tables, self.records = layout.tables(), layout.pack(parameters.weights, parameters.factors)
        self.kernel_best = self.model_best = np.inf
        self.check()

    def kernel(self) -> np.ndarray:
        return score(self.rows, self.tables, self.records, self.model.parameters.bias[0])

    def check(self) -> None:
        """Assert that scores are those of the definition; this also compiles outside the clock."""
        ends = self.rows.indptr[1 : 1 + CHECKED]
        expected = [plain_score(self.model, numbers) for numbers in np.split(self.rows.indices[: ends[-1]], ends[:-1])]
        np.testing.assert_allclose(self.kernel()[:CHECKED], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(self.model.scores(self.batch), self.kernel())

    def time(self, repeats: int = REPEATS) -> None:
        """Keep the CPU seconds of the fastest pass so far, both ways."""
        self.kernel_best = min(self.kernel_best, cpu_seconds(self.kernel, repeats))
        self.model_best = min(self.model_best, cpu_seconds(lambda: self.model.scores(self.batch), repeats))


def compare_peers(rows: Rows, peers: list[str], rank: int) -> str:
    """Return one line of the first table; ours is timed before and after each peer."""
    ours, theirs = Scorer(rows, "fm", (rank,)), {}
    ours.time()
    for peer in peers if rows.n_features * rank <= PEER_FACTORS else []:
        theirs[peer] = measure(peer, rows, rank, epochs=1).scored_per_second
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--peers", default=",".join(installed()))
    parser.add_argument("--ranks", default="8,32,128,512")
    options = parser.parse_args()
    for shape in options.shapes.split(","):
        rows = SHAPES[shape]()
        print(f"\n{rows}")
        show_peers(rows, [peer for peer in options.peers.split(",") if peer], [*map(int, options.ranks.split(","))])
        show_top(rows)


if __name__ == "__main__":
    main()
