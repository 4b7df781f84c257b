"""How good are field-aware models (FFM), beside FM with and without field weights tuned by the same search?

    RAFM_DATA=folder python -m experiments.ffm [SET ...] [--seeds N] [--models ffm,fm,fm+t]

The folder is that of defaults.py. Each model is tuned by validation loss with seed 0, one setting after the other and
then the first again: L2, learning rate, rank. The chosen one is trained with several seeds and judged on the test rows.
criteo-tiny and avazu-tiny are judged by ten folds, of which each holds out a tenth of its training rows for validation;
the first three choose the settings.
Prints every trial, then one line per set and model: settings, test log loss (mean and deviation over seeds),
parameters, and CPU seconds of a training.
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
from sklearn.model_selection import train_test_split

import rafm
from experiments.calibration import TABLES, WITH_VALID, Part, fields_of, loss_of, split_sets

L2S, RATES = (0.001, 0.003, 0.01, 0.03, 0.1), (0.02, 0.05, 0.1, 0.2)
MODELS: dict[str, dict[str, Any]] = {
    "ffm": {"model": "ffm", "ranks": (2, 4, 8)},
    "fm": {"model": "fm", "ranks": (8, 32, 128), "field_weights": "off"},
    "fm+t": {"model": "fm", "ranks": (8, 32, 128), "field_weights": "on"},
}
TUNING_FOLDS = 3
Split = tuple[Part, Part, Part]  # training, validation and test rows


def splits_of(name: str, folder: Path) -> list[Split]:
    """Return training, validation and test rows, once per fold."""
    found = []
    for (X, y), valid, test in split_sets(name, folder):
        if valid is None:
            X, X_valid, y, y_valid = train_test_split(X, y, test_size=0.1, random_state=0, stratify=y)
            valid = X_valid, y_valid
        found.append(((X, y), valid, test))
    return found


def losses(given: dict[str, Any], splits: list[Split], seed: int) -> tuple[float, float, int, float]:
    """Return validation and test loss, the mean over folds, then parameters and CPU seconds of the last training."""
    found, parameters, seconds = [], 0, 0.0
    for (X, y), valid, test in splits:
        begun = time.process_time()
        model = rafm.RaFMClassifier(random_state=seed, **given).fit(X, y, eval_set=valid)
        seconds, parameters = time.process_time() - begun, model.n_parameters_
        parts = ((model.decision_function(rows).astype(float), labels) for rows, labels in (valid, test))
        found.append([loss_of(scores, labels) for scores, labels in parts])
    valid_loss, test_loss = np.mean(found, axis=0)
    return valid_loss, test_loss, parameters, seconds


def tuned(title: str, splits: list[Split], more: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the lowest validation loss that the search meets."""
    base = MODELS[title]
    values = {"l2": L2S, "learning_rate": RATES, "ranks": base["ranks"]}
    chosen: dict[str, Any] = {"l2": 0.01, "learning_rate": 0.1, "ranks": base["ranks"][1]}
    known: dict[tuple[Any, ...], float] = {}
    for name in ("l2", "learning_rate", "ranks", "l2"):
        for value in values[name]:
            trial = chosen | {name: value}
            key = tuple(trial.values())
            if key not in known:
                known[key], test, *_ = losses(base | trial | more, splits, 0)
                print(f"    {title:5} {trial}  valid {known[key]:.4f}  test {test:.4f}", flush=True)
        chosen = dict(zip(chosen, min(known, key=known.get)))  # type: ignore[arg-type]
    return base | chosen


def main() -> None:
    """Compare the models on the sets asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=[*WITH_VALID, *TABLES])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default=",".join(MODELS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    folder = Path(os.environ["RAFM_DATA"])
    for name in given.sets:
        splits = splits_of(name, folder)
        more = fields_of(name, folder, splits[0][0][0])
        for title in given.models.split(","):
            chosen = tuned(title, splits[:TUNING_FOLDS], more)
            runs = [losses(chosen | more, splits, seed) for seed in range(given.seeds)]
            tests = [run[1] for run in runs]
            settings = f"rank {chosen['ranks']}, L2 {chosen['l2']:g}, rate {chosen['learning_rate']:g}"
            shown = f"{np.mean(tests):.4f} +- {np.std(tests, ddof=1) if len(tests) > 1 else 0:.4f}"
            print(f"| {name} | {title} | {settings} | {shown} | {runs[0][2]:,} | {runs[0][3]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
