"""Does multiplying all scores by a constant that was fitted on validation rows lower the loss of other rows?

    RAFM_DATA=folder python -m experiments.calibration [SET ...] [--seeds N] [--models default,fm]

The folder is that of defaults.py. Nested: models are trained without options, validation rows choose the epoch; the
scale (and a scale with an offset) is fitted on one half of the validation rows and judged on the other half, then
fitted on all of them and judged on the test rows. Sets without validation rows hold out a tenth of the training rows.
`refit` is the model that users get without validation rows: trained on all rows, scaled by what the held-out rows said.
Prints one line per set, model and seed (mean over folds): log losses as they are, scaled, scaled and shifted, and the
same only where that gains more than by luck.
"""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.model_selection import train_test_split

import rafm
from experiments.defaults import avazu, criteo, demo_log, folds, matrix_of, prepared
from rafm.read.fields import read_fields
from rafm.read.open import read_rows

MODELS: dict[str, dict[str, Any]] = {"default": {}, "fm": {"model": "fm"}, "lr": {"model": "lr"}}
WITH_VALID = ("frappe", "ml10m-tag-popularity", "lastfm-tag-popularity")
TABLES = {"criteo-tiny": criteo, "avazu-tiny": avazu}
LEAST_GAIN = 14.0  # of twice the log likelihood: less happens by luck once in a thousand times with two numbers
KINDS = ((False, 0.0), (True, 0.0), (True, LEAST_GAIN))  # offset, and least gain
Part = tuple[Any, np.ndarray]  # rows and labels


def loss_of(scores: np.ndarray, y: np.ndarray) -> float:
    """Return the mean log loss of scores."""
    return float(np.mean(np.logaddexp(0, scores) - y * scores))


def fitted(scores: np.ndarray, y: np.ndarray, shift: bool, least_gain: float = 0.0) -> tuple[float, float]:
    """Return the scale, and the offset if it is wanted, of the lowest loss; 1 and 0 if they gain too little."""
    found = minimize(lambda p: loss_of(p[0] * scores + (p[1] if shift else 0.0), y), [1.0, 0.0], method="Nelder-Mead")
    scale, offset = float(found.x[0]), float(found.x[1]) if shift else 0.0
    gain = 2 * y.size * (loss_of(scores, y) - loss_of(scale * scores + offset, y))
    return (scale, offset) if gain > least_gain and scale > 0 else (1.0, 0.0)


def split_sets(name: str, folder: Path) -> Iterator[tuple[Part, Part | None, Part]]:
    """Yield training, validation and test rows, once per fold; no validation rows if the set has none."""
    if name in TABLES:
        for X, y, X_test, y_test in folds(10, TABLES[name], folder):
            yield (X, y), None, (X_test, y_test)
    elif name in WITH_VALID:
        paths = [folder / name / f"{name}.{part}.libfm.gz" for part in ("train", "validation", "test")]
        n_features = 1 + max(int(read_rows(path, task="regression").indices.max()) for path in paths)
        train, valid, test = (matrix_of(path, n_features) for path in paths)
        yield train, valid, test
    else:
        parts = demo_log(100_000, folder) if name == "demo" else prepared(name, folder, None)
        for X, y, X_test, y_test in parts:
            yield (X, y), None, (X_test, y_test)


def fields_of(name: str, folder: Path, X: Any) -> dict[str, Any]:
    """Return the field of every feature as an argument; nothing if the rows tell it, or nobody."""
    path = folder / name / "features.tsv.gz"
    return {"fields": read_fields(path).of(np.arange(X.shape[1])).tolist()} if path.exists() else {}


def judged(given: dict[str, Any], parts: tuple[Part, Part | None, Part], seed: int) -> dict[str, list[float]]:
    """Return log losses, each as it is and after each kind of calibration."""
    (X, y), valid, (X_test, y_test) = parts
    refit = None
    if valid is None:
        refit = rafm.RaFMClassifier(random_state=seed, **given).fit(X, y)
        X, X_valid, y, y_valid = train_test_split(X, y, test_size=0.1, random_state=seed, stratify=y)
        valid = X_valid, y_valid
    model = rafm.RaFMClassifier(random_state=seed, **given).fit(X, y, eval_set=valid)
    scores, labels = model.decision_function(valid[0]).astype(float), np.asarray(valid[1], float)
    half = np.random.default_rng(seed).permutation(labels.size) < labels.size // 2
    first = [fitted(scores[half], labels[half], *kind) for kind in KINDS]
    whole = [fitted(scores, labels, *kind) for kind in KINDS]

    def losses(found: np.ndarray, y: np.ndarray, settings: list[tuple[float, float]]) -> list[float]:
        return [loss_of(found, y), *(loss_of(s * found + b, y) for s, b in settings)]

    results = {"half": losses(scores[~half], labels[~half], first), "scales": [scale for scale, _ in whole]}
    results["test"] = losses(model.decision_function(X_test).astype(float), np.asarray(y_test, float), whole)
    if refit is not None:
        found = refit.decision_function(X_test).astype(float)
        results["refit"] = losses(found, np.asarray(y_test, float), whole)
    return results


def main() -> None:
    """Study the sets asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=[*TABLES, "demo", "ipinyou-sample", *WITH_VALID])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--models", default="default,fm")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable()
    folder = Path(os.environ["RAFM_DATA"])
    for name in given.sets:
        for title in given.models.split(","):
            for seed in range(given.first_seed, given.first_seed + given.seeds):
                found = [
                    judged(MODELS[title] | fields_of(name, folder, parts[0][0]), parts, seed)
                    for parts in split_sets(name, folder)
                ]
                shown = {key: np.mean([one[key] for one in found], axis=0) for key in found[0]}
                told = "  ".join(f"{key} " + " ".join(f"{v:.4f}" for v in values) for key, values in shown.items())
                print(f"{name:22} {title:8} {seed}  {told}", flush=True)


if __name__ == "__main__":
    main()
