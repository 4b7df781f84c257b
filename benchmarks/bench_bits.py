"""How fast does a model of few bits score, next to the same model in floats, on one thread?

    python -m benchmarks.bench_bits [--shapes frappe,criteo,wide] [--ranks 32,48,64,128,512] [--fields]

Scores rows that are numbered already: the time of the kernel alone. All models take turns, forwards and backwards, and
each figure is the ratio of the float model's median CPU time to that of the packed one; above 1 the packed model is
faster. `wide` has a million features that occur equally often, so that most vectors come from memory. --fields gives
the model field weights.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from benchmarks.bench.clock import cpu_seconds
from benchmarks.bench.shapes import SHAPES, Rows, even_rows
from rafm.compress.quantise import quantise
from rafm.losses import loss_named
from rafm.model.model import Model
from rafm.model.parameters import Parameters
from rafm.model.scores import score, score_packed
from rafm.plan.layout import RecordLayout
from rafm.plan.packed_layout import PackedLayout
from rafm.plan.ranks import RankPlan
from rafm.rows.numbering import Numbering, number_rows

BITS = (16, 8, 4)  # in memory: codes of 6 bits have 8 there
N_FIELDS, REPEATS = 4, 21
MAX_FACTORS = 300_000_000
Task = Callable[[], np.ndarray]


def model_of(rows: Rows, rank: int, with_fields: bool) -> Model:
    """Return an FM with random parameters."""
    rng, n = np.random.default_rng(0), rows.n_features
    plan = RankPlan("fm", (rank,), (n, n, 0), N_FIELDS if with_fields else 0)
    vectors = rng.standard_normal((n, rank), dtype=np.float32) * np.float32(0.1)
    weights = rng.standard_normal(n, dtype=np.float32)
    fields = np.linspace(0.1, 0.9, N_FIELDS).astype(np.float32) if with_fields else None
    parameters = Parameters(np.zeros(1, np.float32), weights, [vectors], fields=fields)
    return Model(plan, Numbering(np.arange(n), n), np.ones(n, np.int64), loss_named("log"), parameters, n_rows=1)


def kernel_of(model: Model, rows: Rows) -> Task:
    """Return a function that scores the rows."""
    numbered, found, bits = number_rows(rows.batch(), model.numbering), model.parameters, model.parameters.bits
    layout = RecordLayout(model.plan, False) if bits is None else PackedLayout(model.plan, False, bits=bits)
    tables, records = layout.tables(), layout.pack(found.weights, found.factors)
    if found.fields is not None:
        layout.put_fields(records, np.arange(model.plan.n_features) % N_FIELDS)
    if isinstance(layout, PackedLayout):
        stored = (records, layout.codes(records))
        return lambda: score_packed(numbered, tables, stored, found.bias[0], None, found.fields)
    return lambda: score(numbered, tables, records, found.bias[0], None, found.fields)


def ratios(rows: Rows, rank: int, with_fields: bool) -> dict[int, float]:
    """Return the time of floats over that of each number of bits."""
    model = model_of(rows, rank, with_fields)
    tasks = {32: kernel_of(model, rows)} | {bits: kernel_of(quantise(model, bits), rows) for bits in BITS}
    spread = tasks[32]().std()
    for bits, task in tasks.items():  # also compiles
        error = np.abs(task() - tasks[32]()).mean() / spread
        assert error < 2.0 ** (2 - bits) + 1e-3, f"{bits} bits: mean error {error:.4f} of the spread"
    times: dict[int, list[float]] = {bits: [] for bits in tasks}
    for turn in range(REPEATS):
        for bits in [*tasks][:: 1 if turn % 2 else -1]:
            times[bits].append(cpu_seconds(tasks[bits]))
    seconds = {bits: float(np.median(each)) for bits, each in times.items()}
    return {bits: seconds[32] / seconds[bits] for bits in BITS} | {32: rows.labels.size / seconds[32] / 1e6}


def main() -> None:
    """Print a table for each shape."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shapes", default="frappe,criteo,wide")
    parser.add_argument("--ranks", default="32,48,64,128,512")
    parser.add_argument("--fields", action="store_true")
    asked = parser.parse_args()
    shapes = {**SHAPES, "wide": lambda: even_rows(60_000, 1_000_000, 10)}
    for name in asked.shapes.split(","):
        rows = shapes[name]()
        print(f"\n{rows}\n rank  float M rows/s" + "".join(f"{bits:>9} bits" for bits in BITS))
        for rank in map(int, asked.ranks.split(",")):
            if rows.n_features * rank <= MAX_FACTORS:
                found = ratios(rows, rank, asked.fields)
                print(f"{rank:5} {found[32]:16.3f}" + "".join(f"{found[bits]:14.2f}" for bits in BITS), flush=True)


if __name__ == "__main__":
    main()
