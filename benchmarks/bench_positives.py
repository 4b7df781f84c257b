"""How good are recommendations from positives alone for their time, beside `implicit` and popularity?

    RAFM_DATA=folder python -m benchmarks.bench_positives [rank ...]

The folder holds amazon-book-implicit/{train,test}.txt.gz: lines of a user and the items that they bought. All methods
take turns in one run, on one thread, with the same matrix; seconds are CPU seconds of `fit`, without compiling. Ours
has its default settings and SWEEPS sweeps; alpha 60 and regularization 10 of implicit's ALS are the best of a search on
items that were held out, the settings of its BPR those of decision 0031. implicit is left out if it is missing.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from rafm.estimators.ranker import RaFMRanker
from rafm.metrics.top_items import TopItems

TOP, SWEEPS, RANKS = 20, 16, (64, 128, 256)
METRICS = (f"recall@{TOP}", f"ndcg@{TOP}", f"coverage@{TOP}")
Lists = Callable[[np.ndarray], np.ndarray]  # users -> their best items


def read_pairs(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the users and items of a file."""
    with gzip.open(path, "rt") as file:
        lines = [np.array(line.split(), np.int64) for line in file]
    users = np.concatenate([np.full(line.size - 1, line[0]) for line in lines])
    return users, np.concatenate([line[1:] for line in lines])


def load(folder: Path) -> tuple[csr_matrix, csr_matrix]:
    """Return training and test purchases."""
    both = [read_pairs(folder / f"{name}.txt.gz") for name in ("train", "test")]
    shape = tuple(max(int(part[k].max()) for part in both) + 1 for k in (0, 1))
    found = [csr_matrix((np.ones(users.size, np.float32), (users, items)), shape) for users, items in both]
    for one in found:
        one.data[:] = 1
    return found[0], found[1]


def judge(best: Lists, test: csr_matrix) -> dict[str, float]:
    """Return the metrics of the best items of all users with test items."""
    users, metrics = np.flatnonzero(np.diff(test.indptr)), TopItems([TOP], test.shape[1])
    for block in np.array_split(users, -(-users.size // 4096)):
        items, wanted = best(block), test[block]
        hits = np.array([np.isin(own, wanted[row].indices) for row, own in enumerate(items)])
        metrics.add(items, hits, np.diff(wanted.indptr))
    return metrics.values()


def ours(train: csr_matrix, rank: int, n_epochs: int = SWEEPS) -> Lists:
    """Train by the loss over all pairs."""
    model = RaFMRanker(rank, n_epochs=n_epochs, validation_fraction=0).fit(train)
    return lambda users: model.recommend(users, top=TOP, exclude=train[users]).items


def implicit_lists(model: Any, train: csr_matrix) -> Lists:
    """Train a model of implicit."""
    model.fit(train, show_progress=False)
    return lambda users: model.recommend(users, train[users], N=TOP)[0]


def popular(train: csr_matrix) -> Lists:
    """Recommend what most users bought."""
    order = np.argsort(-np.bincount(train.indices, minlength=train.shape[1]), kind="stable")[:2000]
    return lambda users: np.array([order[~np.isin(order, train[user].indices)][:TOP] for user in users])


def methods(train: csr_matrix, ranks: tuple[int, ...]) -> Iterator[tuple[str, Callable[[], Lists]]]:
    """Yield what competes, by name."""
    yield "popularity", lambda: popular(train)
    for rank in ranks:
        yield f"rafm, all pairs, rank {rank}", lambda rank=rank: ours(train, rank)
        if find_spec("implicit"):
            from implicit.als import AlternatingLeastSquares
            from implicit.bpr import BayesianPersonalizedRanking

            single = {"num_threads": 1, "random_state": 0}
            als = AlternatingLeastSquares(rank, regularization=10.0, alpha=60.0, iterations=SWEEPS, **single)
            yield f"implicit ALS, rank {rank}", lambda als=als: implicit_lists(als, train)
            bpr = BayesianPersonalizedRanking(rank, learning_rate=0.05, regularization=1e-4, iterations=60, **single)
            yield f"implicit BPR, rank {rank}", lambda bpr=bpr: implicit_lists(bpr, train)


def main(arguments: list[str]) -> None:
    """Print a table."""
    train, test = load(Path(os.environ["RAFM_DATA"]) / "amazon-book-implicit")
    ranks = tuple(map(int, arguments)) or RANKS
    print(f"{train.shape[0]} users, {train.shape[1]} items, {train.nnz} purchases; {test.nnz} test items")
    print(f"{'':28}" + "".join(f"{name:>14}" for name in METRICS) + f"{'CPU seconds':>14}")
    ours(train[:200], 8, 1)  # compiles
    for name, fit in methods(train, ranks):
        begun = time.process_time()
        best = fit()
        seconds, found = time.process_time() - begun, judge(best, test)
        print(f"{name:28}" + "".join(f"{found[one]:14.4f}" for one in METRICS) + f"{seconds:14.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
