"""How fast are exact recommendations, compared with scoring all pairs, and with implicit's `recommend`?

    python -m benchmarks.bench_recommend [contexts] [items]

A RaFM of ranks 8, 32, 128 with random vectors; contexts and items have one feature each, with Zipf-like counts. A
sample of contexts is scored against all items and extrapolated, since all pairs take minutes. implicit, if it is
installed, gets the same vectors, so that both do the same products. All take turns in one run, on all cores; CPU
seconds are those of all threads.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.arguments import numbers_asked_for
from rafm.losses import loss_named
from rafm.model.model import Model
from rafm.model.parameters import Parameters
from rafm.plan.ranks import NearestRank, plan_ranks
from rafm.recommend.sides import side_vectors
from rafm.recommend.top import Catalogue
from rafm.rows.checked import Batch, CheckedRows, check_batch
from rafm.rows.numbering import Numbering

RANKS, TOP, SAMPLE, REPEATS = (8, 32, 128), 100, 20, 3


def make_model(n_features: int) -> Model:
    """Return a model of random parameters."""
    draw = np.random.default_rng(0)
    counts = np.maximum(1, 1e5 / np.arange(1, n_features + 1)).astype(np.int64)[draw.permutation(n_features)]
    plan, order = plan_ranks("rafm", RANKS, counts, NearestRank(4.0))
    factors = [draw.normal(0, 0.1, (size, rank)).astype(np.float32) for size, rank in zip(plan.sizes[1:], RANKS)]
    weights = draw.normal(0, 0.1, n_features).astype(np.float32)
    parameters = Parameters(np.zeros(1, np.float32), weights, factors)
    return Model(plan, Numbering(order, n_features), counts[order], loss_named("log"), parameters, n_rows=1)


def single(ids: np.ndarray, n_features: int) -> CheckedRows:
    """Return rows of one feature each."""
    return check_batch(Batch(np.arange(ids.size + 1), ids, np.ones(ids.size, np.float32), n_features))


def score_all(model: Model, contexts: np.ndarray, items: np.ndarray, threads: int) -> np.ndarray:
    """Return the best items of contexts by scoring every pair as `predict` does."""
    best = []
    for context in contexts:
        ids = np.column_stack([np.full(items.size, context), items]).ravel()
        rows = Batch(np.arange(0, ids.size + 1, 2), ids, np.ones(ids.size, np.float32), model.numbering.n_inputs)
        scores = model.scores(check_batch(rows), threads=threads)
        some = np.argpartition(-scores, TOP)[:TOP]
        best.append(some[np.lexsort((some, -scores[some]))])
    return np.array(best)


def implicit_recommend(users: np.ndarray, goods: np.ndarray) -> Callable[[], Any] | None:
    """Return a call of implicit's `recommend` with these vectors, None if it is not installed."""
    try:
        from implicit.cpu.matrix_factorization_base import MatrixFactorizationBase
    except ImportError:
        return None

    class Vectors(MatrixFactorizationBase):  # type: ignore[misc]
        def fit(self, *_: Any, **__: Any) -> None: ...
        def save(self, *_: Any) -> None: ...

    model = Vectors()
    model.user_factors, model.item_factors, model.num_threads = users, goods, 0
    return lambda: model.recommend(np.arange(len(users)), None, N=TOP, filter_already_liked_items=False)


def least_seconds(runs: dict[str, Callable[[], Any]]) -> dict[str, np.ndarray]:
    """Return the least elapsed and CPU seconds of each; they take turns."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, run in runs.items():
            begin = time.perf_counter(), time.process_time()
            run()
            times[name].append((time.perf_counter() - begin[0], time.process_time() - begin[1]))
    return {name: np.min(found, axis=0) for name, found in times.items()}


def main(n_contexts: int, n_items: int) -> None:
    """Check that both find the same, then time them."""
    threads, n_features = os.cpu_count() or 1, n_contexts + n_items
    model, contexts, items = make_model(n_features), np.arange(n_contexts), np.arange(n_contexts, n_features)
    users, goods = single(contexts, n_features), single(items, n_features)
    sample, few = contexts[:: max(1, n_contexts // SAMPLE)][:SAMPLE], single(contexts[:8], n_features)
    Catalogue(model, goods).recommend(few, TOP)  # compiles
    expected = score_all(model, contexts[:8], items, threads)
    agree = (Catalogue(model, goods).recommend(few, TOP).items == expected).mean()
    vectors = side_vectors(model, users, "context"), side_vectors(model, goods, "item")
    runs: dict[str, Callable[[], Any]] = {
        "rafm recommend": lambda: Catalogue(model, goods).recommend(users, TOP, threads=threads),
        "rafm, all pairs": lambda: score_all(model, sample, items, threads),
    }
    if peer := implicit_recommend(*vectors):
        runs["implicit recommend"] = peer
    times = least_seconds(runs)
    times["rafm, all pairs"] *= n_contexts / SAMPLE
    own = times["rafm recommend"]
    print(f"{n_contexts:,} contexts x {n_items:,} items, {vectors[0].shape[1]} dimensions, top {TOP}, {threads} cores")
    print(f"same items as scoring all pairs: {agree:.2%} (others are ties within rounding)")
    print(f"{'':20}{'seconds':>10}{'ratio':>8}{'CPU':>10}{'ratio':>8}")
    for name, (elapsed, cpu) in times.items():
        print(f"{name:20}{elapsed:10.2f}{elapsed / own[0]:8.2f}{cpu:10.2f}{cpu / own[1]:8.2f}")


if __name__ == "__main__":
    main(*numbers_asked_for(__doc__, contexts=10_000, items=50_000))
