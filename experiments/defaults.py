"""Is a model that was trained with no option at all, and without validation rows, ever worse than a constant?

    RAFM_DATA=folder python -m experiments.defaults [WORD ...]      only the cases whose names contain a word

The folder is that of quality.py, plus criteo-tiny and avazu-tiny in their original formats; data sets that are missing
are left out. One line per case: test loss of the best constant of the training labels, of `RaFMClassifier()` or
`RaFMRegressor()` fitted on training rows alone, and their difference in standard errors, computed row by row over all
test rows. That error leaves out the luck of the training rows, which decides with few of them: the cases named "draws"
train on 20 sets of rows drawn anew, and their error is that of the mean over sets. There, above +2 the model is worse
than a constant by more than luck.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.model_selection import StratifiedKFold

import rafm
from rafm.demo.click_log import make_click_log
from rafm.read.open import read_rows

LIMIT, DRAWS = 100_000, 20  # rows of the larger sets, and sets of rows drawn anew
HEADER = f"{'data':28} {'rows':>7} {'constant':>9} {'rafm':>9} {'in SE':>7} {'worst':>7}  {'epochs':12} {'seconds':>7}"
Parts = Iterator[tuple[Any, np.ndarray, Any, np.ndarray]]  # training rows and labels, test rows and labels


@dataclass(frozen=True)
class Case:
    """A data set; `parts` yields its training and test rows, once per fold."""

    name: str
    task: str
    parts: Callable[[], Parts]


# ---- Data


def raw_table(path: Path, label: str, **options: Any) -> pd.DataFrame:
    """Read all labelled parts of a raw table, in one order."""
    names = [found for part in ("train", "dev", "test") for found in path.glob(f"{part}.*sv.gz")]
    tables = [pd.read_csv(name, **options) for name in names]
    return pd.concat([table for table in tables if label in table], ignore_index=True)


def criteo(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the columns as pandas reads them, and the labels."""
    names = ["label", *(f"I{number}" for number in range(1, 14)), *(f"C{number}" for number in range(1, 27))]
    table = raw_table(folder / "criteo-tiny", "label", sep="\t", names=names)
    return table.drop(columns="label"), table["label"].to_numpy()


def avazu(folder: Path) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the columns as pandas reads them, ids as text, and the labels."""
    table = raw_table(folder / "avazu-tiny", "click", dtype={"id": str})
    return table.drop(columns=["id", "click"]), table["click"].to_numpy()


def folds(n_folds: int, read: Callable[[Path], tuple[pd.DataFrame, np.ndarray]], folder: Path) -> Parts:
    """Yield the parts of a cross-validation."""
    X, y = read(folder)
    for kept, tested in StratifiedKFold(n_folds, shuffle=True, random_state=0).split(X, y):
        yield X.iloc[kept], y[kept], X.iloc[tested], y[tested]


def matrix_of(path: Path, n_features: int, limit: int | None = None) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Read a file of rows as a matrix and labels; with a limit, a random choice of its rows."""
    rows = read_rows(path, task="regression")
    labels = np.maximum(rows.labels, 0)  # clicks may be 1 and -1
    X = sparse.csr_matrix((rows.values, rows.indices, rows.indptr), shape=(labels.size, n_features))
    chosen = np.sort(np.random.default_rng(0).permutation(labels.size)[:limit])
    return X[chosen], labels[chosen]


def prepared(name: str, folder: Path, limit: int | None = LIMIT) -> Parts:
    """Yield the published training and test rows; validation rows are not used."""
    paths = [folder / name / f"{name}.{part}.libfm.gz" for part in ("train", "test")]
    n_features = 1 + max(int(read_rows(path, task="regression").indices.max()) for path in paths)
    (X, y), (X_test, y_test) = matrix_of(paths[0], n_features, limit), matrix_of(paths[1], n_features)
    yield X, y, X_test, y_test


def demo_log(n_rows: int, _: Path) -> Parts:
    """Yield a part of the demo's click log, and 20,000 rows to test on."""
    log = make_click_log(120_000, 0)
    X = sparse.csr_matrix((log.values, log.indices, log.indptr), shape=(len(log), log.n_features))
    yield X[:n_rows], log.labels[:n_rows], X[-20_000:], log.labels[-20_000:]


def generated(n_rows: int, kind: str, seed: int, _: Path) -> Parts:
    """Yield rows of a known truth: two weak columns out of ten, categories with pairs, or nothing but noise."""
    rng, total = np.random.default_rng(seed), n_rows + 20_000
    if kind == "numbers":
        X: Any = rng.normal(size=(total, 10))
        truth = 0.7 * X[:, 0] - 0.5 * X[:, 1]
    else:
        codes = np.minimum(rng.zipf(1.6, (total, 6)), 60)
        effects = rng.normal(size=(6, 61))
        truth = 0.5 * effects[np.arange(6), codes].sum(axis=1) + effects[0, codes[:, 0]] * effects[1, codes[:, 1]]
        X = pd.DataFrame({f"c{column}": codes[:, column].astype(str) for column in range(6)})
    if kind == "noise":
        truth = np.zeros(total)
    noisy = truth + rng.logistic(size=total)
    y = noisy.astype(np.float32) if kind == "ratings" else (noisy > 0).astype(int)
    take = X.iloc if isinstance(X, pd.DataFrame) else X
    yield take[:n_rows], y[:n_rows], take[n_rows:], y[n_rows:]


def drawn(n_rows: int, kind: str, folder: Path) -> Parts:
    """Yield sets of rows of one truth's kind, each drawn anew."""
    for seed in range(2_000, 2_000 + DRAWS):
        yield from generated(n_rows, kind, seed, folder)


def cases(folder: Path) -> Iterator[Case]:
    """Yield all cases whose data are there."""

    def case(name: str, task: str, parts: Callable[..., Parts], *arguments: Any) -> Case:
        return Case(name, task, lambda: parts(*arguments, folder))

    for n_folds in (5, 10):
        for name, read in (("criteo-tiny", criteo), ("avazu-tiny", avazu)):
            if (folder / name).exists():
                yield case(f"{name} {n_folds}-fold", "binary", folds, n_folds, read)
    named = {
        "ipinyou-sample": "binary",
        "frappe": "binary",
        "ml-100k": "ratings",
        "ml-1m": "ratings",
        "ciao": "ratings",
    }
    for name, task in named.items():
        if (folder / name).exists():
            yield case(name, task, prepared, name)
    for n_rows in (2_000, 20_000, 100_000):
        yield case(f"demo log {n_rows}", "binary", demo_log, n_rows)
    for n_rows in (100, 1_000, 10_000):
        yield case(f"noise {n_rows}", "binary", generated, n_rows, "noise", n_rows)
    for number, n_rows in enumerate(np.geomspace(50, 5_000, 20).astype(int)):
        kind = ("categories", "numbers", "ratings", "noise")[number % 4]
        yield case(f"{kind} {n_rows}", "ratings" if kind == "ratings" else "binary", generated, n_rows, kind, number)
    for kind in ("noise", "numbers", "categories", "ratings"):
        for n_rows in (60, 100, 170, 300):
            task = "ratings" if kind == "ratings" else "binary"
            yield case(f"draws of {kind} {n_rows}", task, drawn, n_rows, kind)


# ---- Figures


def losses_of(task: str, y: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the loss of each row: log loss, or the squared error."""
    if task == "ratings":
        return (predicted - y) ** 2
    kept = np.clip(predicted, 1e-15, 1 - 1e-15)
    return -np.where(y > 0, np.log(kept), np.log(1 - kept))


def predictions(model: Any, X: Any) -> np.ndarray:
    """Return probabilities or ratings."""
    return model.predict_proba(X)[:, 1] if hasattr(model, "predict_proba") else model.predict(X)


def judge(case: Case, options: dict[str, Any]) -> str:
    """Train and test on every fold; return one line of the table."""
    kind = rafm.RaFMRegressor if case.task == "ratings" else rafm.RaFMClassifier
    ours, constants, worst, epochs, seconds = [], [], -np.inf, [], 0.0
    for X, y, X_test, y_test in case.parts():
        begun = time.process_time()
        model = kind(**options).fit(X, y)
        seconds += time.process_time() - begun
        ours.append(losses_of(case.task, y_test, predictions(model, X_test)))
        constants.append(losses_of(case.task, y_test, np.full(y_test.size, y.mean())))
        worst = max(worst, ours[-1].mean() - constants[-1].mean())
        epochs.append(model.best_epoch_)
    gap = np.concatenate(ours) - np.concatenate(constants)
    if len(ours) == DRAWS:  # the luck of the training rows counts too
        gap = gap.reshape(DRAWS, -1).mean(axis=1)
    errors = gap.mean() / max(gap.std() / np.sqrt(gap.size), 1e-12)
    end = np.sqrt if case.task == "ratings" else float
    shown = [end(np.concatenate(part).mean()) for part in (constants, ours)]
    counted = ",".join(map(str, epochs)) if len(epochs) <= 10 else f"{epochs.count(0)} of {len(epochs)} 0"
    return (
        f"{case.name:28} {y.size:7d} {shown[0]:9.4f} {shown[1]:9.4f} {errors:+7.1f} {worst:+7.4f}  "
        f"{counted:12} {seconds:7.1f}"
    )


def main() -> None:
    """Print one line per case; arguments NAME=VALUE are options of the estimators, others choose cases."""
    warnings.simplefilter("ignore")
    logging.disable()
    options = dict(word.split("=") for word in sys.argv[1:] if "=" in word)
    words = [word for word in sys.argv[1:] if "=" not in word]
    print(HEADER)
    for case in cases(Path(os.environ["RAFM_DATA"])):
        if not words or any(word in case.name for word in words):
            print(judge(case, {name: float(value) for name, value in options.items()}), flush=True)


if __name__ == "__main__":
    main()
