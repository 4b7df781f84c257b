"""Compare FM and RaFM with and without field weights; L2 and learning rate are chosen on the validation rows.

python -m experiments.field_weights [SET ...]      with RAFM_DATA set to a folder of prepared data sets

A set is a folder with SET.train.libfm.gz, SET.validation.libfm.gz, SET.test.libfm.gz and features.tsv.gz, the fields of
its ids. Prints one line per set and model as it finishes, then a table. RaFM has half and twice the rank of the FM.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import numpy as np

from rafm.metrics.evaluation import Evaluation
from rafm.model.model import Model
from rafm.options import resolve
from rafm.read.fields import read_fields
from rafm.read.open import ReadOptions, labelled_rows, training_rows
from rafm.train.dispatch import train_model

SETS = {  # task, rank of the FM, L2 penalties and learning rates to choose from
    "frappe": ("binary", 64, (3e-3, 1e-2), (0.1, 0.2)),
    "ml10m-tag-popularity": ("binary", 32, (3e-3, 1e-2), (0.05, 0.2)),
    "lastfm-tag-popularity": ("binary", 32, (3e-3, 1e-2), (0.05, 0.2)),
    "ml-1m": ("regression", 16, (0.05, 0.1), (0.05, 0.1)),
}
MODELS = {
    "FM": ("fm", "off"),
    "FM+t": ("fm", "on"),
    "RaFM": ("rafm", "off"),
    "RaFM+t": ("rafm", "on"),
}


def compare(name: str) -> dict[str, float]:
    """Return the test loss of each model on one set."""
    task, rank, penalties, rates = SETS[name]
    folder = Path(os.environ.get("RAFM_DATA", "data")) / name
    files = ReadOptions(task, fields=read_fields(folder / "features.tsv.gz"))
    train, _ = training_rows(folder / f"{name}.train.libfm.gz", files)
    valid, test = (labelled_rows(folder / f"{name}.{part}.libfm.gz", files, None) for part in ("validation", "test"))
    found = {}
    for title, (family, field_weights) in MODELS.items():
        ranks = (rank,) if family == "fm" else (rank // 2, 2 * rank)
        tried = []
        for l2, rate in itertools.product(penalties, rates):
            given = {"model": family, "ranks": ranks, "field_weights": field_weights, "l2": l2, "learning_rate": rate}
            options = resolve(task=task, n_epochs=60, **given)
            model = train_model(train, options, valid)
            tried.append((loss_of(model, valid), l2, rate, model))
        best, l2, rate, model = min(tried, key=lambda one: one[0])
        found[title] = loss_of(model, test)
        weights = "" if model.parameters.fields is None else f"  t {model.parameters.fields.round(2).tolist()}"
        size = f"{model.n_parameters / 1e6:.2f} M parameters"
        chosen = f"l2 {l2:g}, rate {rate:g}, validation {best:.4f}, test {found[title]:.4f}"
        print(f"{name:22} {title:7} {size}, {chosen}{weights}", flush=True)
    return found


def loss_of(model: Model, rows: object) -> float:
    """Return the metric of the model's loss."""
    evaluation = Evaluation(model.loss)
    for number in range(rows.n_blocks):
        batch = rows.block(number)
        evaluation.add(batch.labels, model.scores(batch), np.ones(batch.n_rows))
    return evaluation.report()[model.loss.metrics[0]]


if __name__ == "__main__":
    results = {name: compare(name) for name in sys.argv[1:] or SETS}
    print(f"\n{'set':22} " + " ".join(f"{title:>8}" for title in MODELS))
    for name, found in results.items():
        print(f"{name:22} " + " ".join(f"{found[title]:8.4f}" for title in MODELS))
