"""Whom do tables of ids, words and numbers suit: rafm, boosted trees, or a linear model?

    python -m benchmarks.bench_tables [--tables NAMES] [--seeds N] [--peers NAMES]

Everyone gets the same split (a fifth for testing, stratified), its own recommended treatment of categories, and its
defaults but for early stopping on a tenth of the training rows, which rafm holds out by itself. The files are those of
RAFM_DATA; the generated tables favour nobody: `thresholds` has smooth numbers, steps and a conjunction of three
columns, `visits` has users, places and a habit of a day at an hour. AUC, log loss and CPU seconds of one thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder

from rafm import RaFMClassifier

FILES = {  # path below RAFM_DATA, label, columns that are names although they are whole numbers
    "amazon-access": ("amazon-access/amazon-access.csv.gz", "ACTION", None),
    "assistments09": ("assistments09/assistments09.csv.gz", "correct", None),
    "avazu-tiny": ("avazu-tiny/train.csv.gz", "click", ["C14", "C17", "C19", "C20", "C21"]),
}
TEST_SHARE, VALID_SHARE, ROUNDS, PATIENCE = 0.2, 0.1, 1000, 50
Scores = Callable[[pd.DataFrame], np.ndarray]


def of_file(name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the columns and labels of a file; ids are categories."""
    path, label, names = FILES[name]
    frame = pd.read_csv(Path(os.environ["RAFM_DATA"]) / path)
    frame = frame.drop(columns=[one for one in ("id", "hour") if one in frame])
    y = frame.pop(label).to_numpy()
    for column in frame.columns if names is None else names:
        frame[column] = frame[column].astype(str)
    return frame, y


def thresholds(n: int = 30_000) -> tuple[pd.DataFrame, np.ndarray]:
    """Return numbers with steps and smooth effects, and a conjunction of three categories."""
    draw = np.random.default_rng(0)
    age, income, hours = draw.uniform(18, 80, n), draw.lognormal(10, 0.8, n), draw.integers(0, 60, n)
    job, city, plan = (
        np.char.add(letter, draw.integers(0, k, n).astype(str)) for letter, k in (("j", 25), ("c", 40), ("p", 4))
    )
    odds = 1.2 * (age > 45) + 0.7 * np.sin(age / 8) + 0.6 * np.log(income / 2e4) - 0.03 * np.abs(hours - 40)
    odds += 2.5 * ((plan == "p1") & (np.char.str_len(job) == 2) & (age > 30)) - 1.5
    y = (draw.logistic(size=n) < odds).astype(int)
    return pd.DataFrame({"age": age, "income": income, "hours": hours, "job": job, "city": city, "plan": plan}), y


def visits(n: int = 60_000) -> tuple[pd.DataFrame, np.ndarray]:
    """Return users and places with tastes in common, and habits of a day at an hour."""
    draw = np.random.default_rng(1)
    user, place = draw.zipf(1.3, n) % 4000, draw.zipf(1.3, n) % 800
    day, hour = draw.integers(0, 7, n), draw.integers(0, 24, n)
    tastes, kinds = draw.normal(0, 0.9, (4000, 6)), draw.normal(0, 0.9, (800, 6))
    habit = draw.normal(0, 0.8, (7, 24))
    odds = (tastes[user] * kinds[place]).sum(axis=1) + habit[day, hour] - 0.5
    columns = {"user": user, "place": place, "day": day, "hour": hour}
    frame = pd.DataFrame({name: np.char.add(name[0], values.astype(str)) for name, values in columns.items()})
    return frame, (draw.logistic(size=n) < odds).astype(int)


TABLES: dict[str, Callable[[], tuple[pd.DataFrame, np.ndarray]]] = {
    **{name: lambda name=name: of_file(name) for name in FILES},  # type: ignore[misc]
    "thresholds": thresholds,
    "visits": visits,
}


def categories(frame: pd.DataFrame) -> list[str]:
    """Return the columns that are no numbers."""
    return [name for name in frame if not pd.api.types.is_numeric_dtype(frame[name])]


def rafm(X: pd.DataFrame, y: np.ndarray, seed: int) -> Scores:
    """Train rafm with no option but the seed."""
    model = RaFMClassifier(random_state=seed, n_jobs=1).fit(X, y)
    return lambda frame: model.predict_proba(frame)[:, 1]


def lightgbm(X: pd.DataFrame, y: np.ndarray, seed: int) -> Scores:
    """Train LightGBM on categorical columns."""
    import lightgbm as lgb

    levels = {name: pd.CategoricalDtype(X[name].unique()) for name in categories(X)}
    a, b, ya, yb = train_test_split(X.astype(levels), y, test_size=VALID_SHARE, random_state=seed, stratify=y)
    model = lgb.LGBMClassifier(n_estimators=ROUNDS, n_jobs=1, random_state=seed, verbose=-1)
    model.fit(a, ya, eval_set=[(b, yb)], callbacks=[lgb.early_stopping(PATIENCE, verbose=False)])
    return lambda frame: model.predict_proba(frame.astype(levels))[:, 1]


def catboost(X: pd.DataFrame, y: np.ndarray, seed: int) -> Scores:
    """Train CatBoost on categorical columns."""
    import catboost as cb

    a, b, ya, yb = train_test_split(X, y, test_size=VALID_SHARE, random_state=seed, stratify=y)
    model = cb.CatBoostClassifier(iterations=ROUNDS, thread_count=1, random_seed=seed, verbose=False)
    model.set_params(cat_features=categories(X), early_stopping_rounds=PATIENCE, allow_writing_files=False)
    model.fit(a, ya, eval_set=(b, yb))
    return lambda frame: model.predict_proba(frame)[:, 1]


def linear(X: pd.DataFrame, y: np.ndarray, seed: int) -> Scores:
    """Train a logistic regression on one-hot categories and binned numbers; its penalty is cross-validated."""
    edges = {name: np.unique(X[name].quantile(np.linspace(0, 1, 21)[1:-1])) for name in X if name not in categories(X)}

    def binned(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{name: np.searchsorted(own, frame[name]) for name, own in edges.items()})

    encoder = OneHotEncoder(handle_unknown="ignore").fit(binned(X))
    model = LogisticRegressionCV(Cs=6, cv=3, scoring="neg_log_loss", max_iter=200, use_legacy_attributes=False)
    model.fit(encoder.transform(binned(X)), y)
    return lambda frame: model.predict_proba(encoder.transform(binned(frame)))[:, 1]


PEERS = {"rafm": rafm, "catboost": catboost, "lightgbm": lightgbm, "linear": linear}


def races(tables: list[str], peers: list[str], seeds: int) -> Iterator[tuple[str, str, int, float, float, float]]:
    """Yield table, peer, seed, AUC, log loss and CPU seconds."""
    for table in tables:
        X, y = TABLES[table]()
        for seed in range(seeds):
            a, b, ya, yb = train_test_split(X, y, test_size=TEST_SHARE, random_state=seed, stratify=y)
            for peer in peers:
                begin = time.process_time()
                predict = PEERS[peer](a, ya, seed)
                seconds = time.process_time() - begin
                p = predict(b)
                yield table, peer, seed, roc_auc_score(yb, p), log_loss(yb, p), seconds


def main() -> None:
    """Print a line per race, then means and standard deviations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = [name for name in TABLES if name not in FILES or "RAFM_DATA" in os.environ]
    parser.add_argument("--tables", default=",".join(known))
    parser.add_argument("--peers", default=",".join(PEERS))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    found = []
    for line in races(given.tables.split(","), given.peers.split(","), given.seeds):
        print("{:14} {:9} {} AUC {:.4f} log loss {:.4f} {:6.1f} s".format(*line), flush=True)
        found.append(line)
    frame = pd.DataFrame(found, columns=["table", "peer", "seed", "auc", "log_loss", "seconds"])
    print(frame.groupby(["table", "peer"])[["auc", "log_loss", "seconds"]].agg(["mean", "std"]).round(4).to_string())


if __name__ == "__main__":
    main()
