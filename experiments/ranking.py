"""How good are recommendations from clicks alone, beside popularity and `implicit`'s ALS and BPR, under the same split?

    RAFM_DATA=folder python -m experiments.ranking [METHOD ...]     prints a table; needs `pip install implicit`

The folder holds amazon-book-implicit/{train,test}.txt.gz: lines of a user and the items that they bought. Every method
has seven settings to try (log loss three), judged by NDCG@20 of VALID_USERS users for whom a fifth of the training
items is held out; then it is trained on all training items with each of SEEDS and judged by the test items of
TEST_USERS users. With log loss, rafm's rows are the purchases, each with NEGATIVES items that the user did not buy,
drawn by popularity to the power 3/4.
"""

from __future__ import annotations

import gzip
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from rafm.losses.bpr import Bpr
from rafm.metrics.top_items import TopItems
from rafm.options import resolve
from rafm.recommend.ranked import evaluate_ranking
from rafm.rows.checked import Batch, CheckedRows, check_batch
from rafm.rows.fields import Fields
from rafm.rows.source import InMemory
from rafm.train.dispatch import train_model

TOP, NEGATIVES, VALID_USERS, TEST_USERS, SEEDS = 20, 4, 3000, 10_000, (0, 1, 2)
Pairs = tuple[np.ndarray, np.ndarray]  # users and items
Setting = dict[str, Any]


def read_pairs(path: Path) -> Pairs:
    """Return the users and items of a file."""
    users, items = [], []
    with gzip.open(path, "rt") as file:
        for line in file:
            user, *bought = map(int, line.split())
            users += [user] * len(bought)
            items += bought
    return np.array(users), np.array(items)


def negatives_of(train: Pairs, shape: tuple[int, int], seed: int) -> Pairs:
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


def rafm_pairs(setting: Setting, seed: int, train: Pairs, test: Pairs, shape: tuple[int, int]) -> dict[str, float]:
    """Train rafm on pairs of items."""
    rest = {"model": "fm", **setting}
    loss = Bpr(rest.pop("power", 0.5))
    options = resolve(task="ranking", item_fields="item", loss=loss, seed=seed, **rest)
    fields = Fields.of_ranges(("user", "item"), [0, shape[0], sum(shape)])
    model = train_model(InMemory(rows_of(train, shape, np.ones(train[0].size)), fields), options)
    return rafm_values(model, train, test, shape)


def rafm_clicks(setting: Setting, seed: int, train: Pairs, test: Pairs, shape: tuple[int, int]) -> dict[str, float]:
    """Train rafm on log loss."""
    drawn = negatives_of(train, shape, seed)
    both = np.concatenate([train[0], drawn[0]]), np.concatenate([train[1], drawn[1]])
    labels = np.arange(both[0].size) < train[0].size
    model = train_model(rows_of(both, shape, labels), resolve(task="binary", seed=seed, **setting))
    return rafm_values(model, train, test, shape)


def rafm_values(model: Any, train: Pairs, test: Pairs, shape: tuple[int, int]) -> dict[str, float]:
    """Rank all items."""
    ids = shape[0] + np.arange(shape[1])
    items = check_batch(Batch(np.arange(ids.size + 1), ids, np.ones(ids.size, np.float32), sum(shape), None, None))
    seen, own = (np.isin(part[0], test[0]) for part in (train, test))
    seen_rows = rows_of((train[0][seen], train[1][seen]), shape, np.ones(seen.sum()))
    return evaluate_ranking(
        model, rows_of((test[0][own], test[1][own]), shape, np.ones(own.sum())), items, [TOP], seen_rows
    )


def popularity(setting: Setting, seed: int, bought: csr_matrix) -> Callable[[np.ndarray], np.ndarray]:
    """Recommend what most users bought, but not what a user has."""
    counts = np.asarray(bought.sum(axis=0)).ravel()
    first = np.argsort(-counts, kind="stable")[: TOP + int(np.diff(bought.indptr).max())]
    return lambda users: np.stack([first[~np.isin(first, bought[user].indices)][:TOP] for user in users])


def als(setting: Setting, seed: int, bought: csr_matrix) -> Callable[[np.ndarray], np.ndarray]:
    from implicit.als import AlternatingLeastSquares

    return lists_of(AlternatingLeastSquares(random_state=seed, num_threads=1, **setting), bought)


def bpr(setting: Setting, seed: int, bought: csr_matrix) -> Callable[[np.ndarray], np.ndarray]:
    from implicit.bpr import BayesianPersonalizedRanking

    return lists_of(BayesianPersonalizedRanking(random_state=seed, num_threads=1, **setting), bought)


def lists_of(model: Any, bought: csr_matrix) -> Callable[[np.ndarray], np.ndarray]:
    model.fit(bought, show_progress=False)
    return lambda users: model.recommend(users, bought[users], N=TOP)[0]


def peer(fit: Callable[..., Callable[[np.ndarray], np.ndarray]]) -> Callable[..., dict[str, float]]:
    """Return a function that trains a peer and judges its lists."""

    def values(setting: Setting, seed: int, train: Pairs, test: Pairs, shape: tuple[int, int]) -> dict[str, float]:
        bought = csr_matrix((np.ones(train[0].size, np.float32), train), shape)
        users, wanted = np.unique(test[0]), csr_matrix((np.ones(test[0].size), test), shape)
        best = fit(setting, seed, bought)(users)
        hits = np.stack([np.isin(own, wanted[user].indices) for own, user in zip(best, users)])
        metrics = TopItems([TOP], shape[1])
        metrics.add(best, hits, np.diff(wanted.indptr)[users])
        return metrics.values()

    return values


def split(train: Pairs, rng: np.random.Generator) -> tuple[Pairs, Pairs]:
    """Hold out a fifth of the items of some users."""
    users = rng.choice(np.unique(train[0]), VALID_USERS, replace=False)
    held = np.isin(train[0], users) & (rng.random(train[0].size) < 0.2)
    return (train[0][~held], train[1][~held]), (train[0][held], train[1][held])


def grid(names: str, *values: tuple[Any, ...]) -> list[Setting]:
    return [dict(zip(names.split(), one)) for one in values]


# Each list was written down in two steps: the first four, then others around the best of them.
METHODS = {
    "popularity": (peer(popularity), [{}]),
    "implicit ALS": (
        peer(als),
        grid(
            "factors regularization alpha iterations",
            (64, 0.01, 1.0, 10),
            (64, 0.1, 10.0, 10),
            (128, 0.1, 1.0, 10),
            (128, 1.0, 10.0, 10),
            (128, 0.1, 10.0, 10),
            (128, 1.0, 40.0, 10),
            (128, 10.0, 10.0, 10),
        ),
    ),
    "implicit BPR": (
        peer(bpr),
        grid(
            "factors learning_rate regularization iterations",
            (64, 0.01, 0.01, 60),
            (64, 0.05, 0.01, 60),
            (64, 0.05, 0.001, 60),
            (64, 0.1, 0.003, 60),
            (64, 0.05, 0.0001, 60),
            (128, 0.05, 0.001, 60),
            (64, 0.1, 0.001, 60),
        ),
    ),
    "rafm, pairs": (
        rafm_pairs,
        grid(
            "ranks power learning_rate l2 n_epochs",
            ((64,), 0.0, 0.2, 0.005, 40),
            ((64,), 0.5, 0.2, 0.005, 40),
            ((64,), 1.0, 0.2, 0.005, 40),
            ((64,), 0.5, 0.2, 0.02, 40),
            ((64,), 0.5, 0.5, 0.005, 40),
            ((64,), 0.5, 0.2, 0.002, 40),
            ((64,), 0.3, 0.2, 0.005, 40),
        ),
    ),
    "rafm, log loss": (
        rafm_clicks,
        grid("ranks l2 n_epochs", *(((8, 64), l2, 12) for l2 in (0.003, 0.01, 0.03))),
    ),
}


def main(names: list[str]) -> None:
    folder, rng = Path(os.environ["RAFM_DATA"]) / "amazon-book-implicit", np.random.default_rng(0)
    train, test = (read_pairs(folder / f"{part}.txt.gz") for part in ("train", "test"))
    shape = (int(max(train[0].max(), test[0].max())) + 1, int(max(train[1].max(), test[1].max())) + 1)
    chosen = rng.choice(np.unique(test[0]), TEST_USERS, replace=False)
    own = np.isin(test[0], chosen)
    parts, judged = split(train, rng), (test[0][own], test[1][own])
    for name in names or METHODS:
        method, settings = METHODS[name]
        best = settings[0]
        if len(settings) > 1:
            tried = []
            for setting in settings:
                begun, found = time.process_time(), method(setting, SEEDS[0], *parts, shape)
                tried.append(found[f"ndcg@{TOP}"])
                seconds = time.process_time() - begun
                shown = f"recall {found[f'recall@{TOP}']:.4f} ndcg {tried[-1]:.4f}, {seconds:.0f} s"
                print(f"{name:16} validation: {shown} {setting}", flush=True)
            best = settings[int(np.argmax(tried))]
        for seed in SEEDS if len(settings) > 1 else SEEDS[:1]:
            begun, found = time.process_time(), method(best, seed, train, judged, shape)
            seconds = time.process_time() - begun
            shown = f"recall {found[f'recall@{TOP}']:.4f} ndcg {found[f'ndcg@{TOP}']:.4f}, {seconds:.0f} s"
            print(f"{name:16} test: {shown} seed {seed} {best}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
