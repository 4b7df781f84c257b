"""How good are recommendations from clicks alone, beside popularity and `implicit`'s ALS and BPR, under the same split?

    RAFM_DATA=folder python experiments/ranking.py      prints a table; needs `pip install implicit` for the peers

The folder holds amazon-book-implicit/{train,test}.txt.gz: lines of a user and the items that they bought. Training rows
of rafm are the purchases, each with NEGATIVES items that the user did not buy, drawn by popularity to the power 3/4.
Every method has three settings to try, judged by NDCG@20 of VALID_USERS users for whom a fifth of the training items is
held out; then it is trained on all training items and judged by the test items of TEST_USERS users.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix

from rafm.metrics.top_items import TopItems
from rafm.options import resolve
from rafm.recommend.ranked import evaluate_ranking
from rafm.rows.checked import Batch, CheckedRows, check_batch
from rafm.train.trainer import train_model

TOP, NEGATIVES, RANK, VALID_USERS, TEST_USERS = 20, 4, 64, 3000, 10_000
Pairs = tuple[np.ndarray, np.ndarray]  # users and items


def read_pairs(path: Path) -> Pairs:
    """Return the users and items of a file."""
    users, items = [], []
    with gzip.open(path, "rt") as file:
        for line in file:
            user, *bought = map(int, line.split())
            users += [user] * len(bought)
            items += bought
    return np.array(users), np.array(items)


def negatives_of(train: Pairs, shape: tuple[int, int], seed: int = 0) -> Pairs:
    """Return users with items that they did not buy."""
    rng, (users, items) = np.random.default_rng(seed), train
    popularity = np.bincount(items, minlength=shape[1]) ** 0.75
    many, drawn = (
        np.repeat(users, NEGATIVES),
        rng.choice(shape[1], users.size * NEGATIVES, p=popularity / popularity.sum()),
    )
    fresh = ~np.isin(many * shape[1] + drawn, users * shape[1] + items)
    return many[fresh], drawn[fresh]


def rows_of(pairs: Pairs, shape: tuple[int, int], labels: np.ndarray) -> CheckedRows:
    """Return rows of a user and an item."""
    ids = np.stack([pairs[0], shape[0] + pairs[1]], 1).ravel()
    values = np.ones(ids.size, np.float32)
    return check_batch(Batch(np.arange(0, ids.size + 1, 2), ids, values, sum(shape), labels.astype(np.float32), None))


def rafm_values(train: Pairs, test: Pairs, shape: tuple[int, int], setting: float) -> dict[str, float]:
    """Train rafm and rank all items."""
    drawn = negatives_of(train, shape)
    both = np.concatenate([train[0], drawn[0]]), np.concatenate([train[1], drawn[1]])
    labels = np.arange(both[0].size) < train[0].size
    options = resolve(task="binary", model="rafm", ranks=(8, RANK), l2=setting, n_epochs=EPOCHS, threads=2)
    model = train_model(rows_of(both, shape, labels), options)
    ids = shape[0] + np.arange(shape[1])
    items = check_batch(Batch(np.arange(ids.size + 1), ids, np.ones(ids.size, np.float32), sum(shape), None, None))
    seen, own = (np.isin(part[0], test[0]) for part in (train, test))
    seen_rows = rows_of((train[0][seen], train[1][seen]), shape, np.ones(seen.sum()))
    return evaluate_ranking(
        model, rows_of((test[0][own], test[1][own]), shape, np.ones(own.sum())), items, [TOP], seen_rows
    )


def peer_values(
    fit: Callable[[csr_matrix], Callable], train: Pairs, test: Pairs, shape: tuple[int, int]
) -> dict[str, float]:
    """Train a peer and judge its lists."""
    bought = csr_matrix((np.ones(train[0].size, np.float32), train), shape)
    users = np.unique(test[0])
    wanted = csr_matrix((np.ones(test[0].size), test), shape)
    best = fit(bought)(users)
    hits = np.stack([np.isin(own, wanted[user].indices) for own, user in zip(best, users)])
    metrics = TopItems([TOP], shape[1])
    metrics.add(best, hits, np.diff(wanted.indptr)[users])
    return metrics.values()


def popularity(_: float) -> Callable:
    """Recommend what most users bought, but not what a user has."""

    def fit(bought: csr_matrix) -> Callable:
        counts = np.asarray(bought.sum(axis=0)).ravel()
        first = np.argsort(-counts, kind="stable")[: TOP + int(np.diff(bought.indptr).max())]
        return lambda users: np.stack([first[~np.isin(first, bought[user].indices)][:TOP] for user in users])

    return fit


def implicit_model(kind: str) -> Callable[[float], Callable]:
    def with_setting(setting: float) -> Callable:
        def fit(bought: csr_matrix) -> Callable:
            from implicit.als import AlternatingLeastSquares
            from implicit.bpr import BayesianPersonalizedRanking

            if kind == "ALS":
                model = AlternatingLeastSquares(factors=RANK, regularization=setting, iterations=10, random_state=0)
            else:
                model = BayesianPersonalizedRanking(factors=RANK, regularization=setting, iterations=60, random_state=0)
            model.fit(bought, show_progress=False)
            return lambda users: model.recommend(users, bought[users], N=TOP)[0]

        return fit

    return with_setting


def split(train: Pairs, rng: np.random.Generator) -> tuple[Pairs, Pairs]:
    """Hold out a fifth of the items of some users."""
    users = rng.choice(np.unique(train[0]), VALID_USERS, replace=False)
    held = np.isin(train[0], users) & (rng.random(train[0].size) < 0.2)
    return (train[0][~held], train[1][~held]), (train[0][held], train[1][held])


EPOCHS = 12
METHODS = {
    "popularity": ((0.0,), lambda s: lambda *given: peer_values(popularity(s), *given)),
    "implicit ALS": ((0.01, 0.1, 1.0), lambda s: lambda *given: peer_values(implicit_model("ALS")(s), *given)),
    "implicit BPR": ((0.001, 0.01, 0.05), lambda s: lambda *given: peer_values(implicit_model("BPR")(s), *given)),
    "rafm, log loss": ((0.003, 0.01, 0.03), lambda s: lambda *given: rafm_values(*given, s)),
}


def main(names: list[str]) -> None:
    folder, rng = Path(os.environ["RAFM_DATA"]) / "amazon-book-implicit", np.random.default_rng(0)
    train, test = (read_pairs(folder / f"{part}.txt.gz") for part in ("train", "test"))
    shape = (int(max(train[0].max(), test[0].max())) + 1, int(max(train[1].max(), test[1].max())) + 1)
    chosen = rng.choice(np.unique(test[0]), TEST_USERS, replace=False)
    own = np.isin(test[0], chosen)
    parts, judged = split(train, rng), (test[0][own], test[1][own])
    print(f"{'method':16} {'setting':>8} recall@{TOP}  ndcg@{TOP}  cpu seconds (one training)")
    for name in names or METHODS:
        grid, method = METHODS[name]
        tried = {s: method(s)(*parts, shape)[f"ndcg@{TOP}"] for s in grid} if len(grid) > 1 else {grid[0]: 0.0}
        best, begun = max(tried, key=tried.__getitem__), time.process_time()
        found = method(best)(train, judged, shape)
        taken = time.process_time() - begun
        shown = f"{found[f'recall@{TOP}']:9.4f} {found[f'ndcg@{TOP}']:8.4f} {taken:12.0f}"
        print(f"{name:16} {best:8g} {shown}   validation: {tried}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
