"""Is a model that was trained with no option at all ever worse than LR, or than the best FM of three ranks?

    RAFM_DATA=folder python -m experiments.no_option [SET ...] [--seeds N]

The folder is that of defaults.py. Every model gets the training rows and their fields, nothing else: no validation
rows, no learning rate, no L2; all hold out a tenth of the rows to choose their epochs. Prints one line per set, the
test loss of each model (mean over the seeds) and its CPU seconds.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import log_loss, root_mean_squared_error

import rafm
from experiments.defaults import Parts, avazu, criteo, demo_log, folds, prepared
from rafm.read.fields import read_fields

MODELS: dict[str, dict[str, Any]] = {
    "LR": {"model": "lr"},
    "FM 8": {"model": "fm", "ranks": 8},
    "FM 32": {"model": "fm", "ranks": 32},
    "FM 128": {"model": "fm", "ranks": 128},
    "by counts": {"ranks": (8, 32, 128)},
    "measured": {"ranks": "auto"},
    "8 32": {"ranks": (8, 32), "averaging": True},
    "searched": {"ranks": (8, 32, 128), "learning_rate": "auto", "l2": "auto"},
    "l2 .05": {"ranks": (8, 32, 128), "l2": 0.05},
    "l2 .2": {"ranks": (8, 32, 128), "l2": 0.2},
    "averaged": {"ranks": (8, 32, 128), "averaging": True},
    "sampled 16": {"model": "fm", "ranks": 16, "optimizer": "gibbs"},
    "sampled": {"model": "fm", "ranks": 8, "optimizer": "gibbs"},
    "steps": {"optimizer": "adagrad"},
    "default": {},
}
RATINGS = ("ml-100k", "ml-1m", "ciao")
PREPARED = ("ipinyou-sample", "frappe", "ml10m-tag-popularity", "lastfm-tag-popularity", *RATINGS)
TABLES = {"criteo-tiny": criteo, "avazu-tiny": avazu}
DEMO = "demo"


def parts_of(name: str, folder: Path) -> Parts:
    """Return training and test rows of a set, once per fold."""
    if name in TABLES:
        return folds(10, TABLES[name], folder)
    return demo_log(100_000, folder) if name == DEMO else prepared(name, folder, None)


def fields_of(name: str, folder: Path, X: Any) -> dict[str, Any]:
    """Return the field of every feature of a prepared set as an argument; nothing if the rows tell it, or nobody."""
    path = folder / name / "features.tsv.gz"
    if name not in PREPARED or not path.exists():
        return {}
    return {"fields": read_fields(path).of(np.arange(X.shape[1])).tolist()}


def test_losses(name: str, folder: Path, given: dict[str, Any], seed: int) -> list[float]:
    """Return the test loss of one model on each part of a set."""
    losses = []
    for X, y, X_test, y_test in parts_of(name, folder):
        kind = rafm.RaFMRegressor if name in RATINGS else rafm.RaFMClassifier
        model = kind(random_state=seed, **given, **fields_of(name, folder, X)).fit(X, y)
        if name in RATINGS:
            losses.append(root_mean_squared_error(y_test, model.predict(X_test)))
        else:
            losses.append(log_loss(y_test, model.predict_proba(X_test)[:, 1]))
    return losses


def compare(name: str, folder: Path, seeds: int, titles: list[str]) -> None:
    """Print the losses of all models on one set."""
    found = []
    for title in titles:
        if "sampled" in title and name not in RATINGS:
            continue
        begun = time.process_time()
        losses = [np.mean(test_losses(name, folder, MODELS[title], seed)) for seed in range(seeds)]
        found.append(f"{title} {np.mean(losses):.4f} ({(time.process_time() - begun) / seeds:.0f} s)")
        print(f"{name:22} {found[-1]}", flush=True)
    print(f"| {name} | " + " | ".join(found) + " |", flush=True)


def main() -> None:
    """Compare the models on the sets asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=[*TABLES, DEMO, *PREPARED])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--models", default=",".join(MODELS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    for name in given.sets:
        compare(name, Path(os.environ["RAFM_DATA"]), given.seeds, given.models.split(","))


if __name__ == "__main__":
    main()
