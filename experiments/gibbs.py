"""How good is Gibbs sampling, distilled into one model, on public ratings and clicks?

    RAFM_DATA=folder python -m experiments.gibbs [NAME ...] [--ranks 8] [--sweeps 200] [--share 0.25] [--seeds 5]
        [--field-weights off]

The folder holds <name>/<name>.{train,validation,test}.libfm.gz and <name>/features.tsv.gz with the fields. Test RMSE or
log loss of the distilled model for each seed. Nothing is tuned; validation rows set the noise and end the run.
With a share, then also the model of measured lengths that has so many of the parameters of full length (rank 32).
Chains of clicks begin at an FM with field weights, trained by steps, unless these are switched off.
`benchmarks/bench_gibbs.py` measures the speed.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from rafm.model.model import Model
from rafm.options import resolve
from rafm.read.fields import read_fields
from rafm.read.open import ReadOptions, labelled_rows, training_rows
from rafm.rows.blocks import join_rows
from rafm.rows.checked import CheckedRows
from rafm.rows.source import InMemory
from rafm.train.dispatch import run_recipe
from rafm.train.events import Distilled, Finished
from rafm.train.policy import RANK_TO_CUT

NAMES = ("ml-100k", "ciao", "ml-1m")
CLICKS = ("frappe", "ml10m-tag-popularity", "lastfm-tag-popularity")
PARTS = ("train", "validation", "test")


def task_of(name: str) -> str:
    return "binary" if name in CLICKS else "regression"


def load(name: str) -> tuple[InMemory, CheckedRows, CheckedRows]:
    """Return training rows with their fields, validation and test rows."""
    folder, task = Path(os.environ["RAFM_DATA"]) / name, task_of(name)
    files = ReadOptions(task, fields=read_fields(folder / "features.tsv.gz"))
    train, valid, test = (folder / f"{name}.{part}.libfm.gz" for part in PARTS)
    source, _ = training_rows(train, files)
    whole = join_rows([source.block(number) for number in range(source.n_blocks)])
    others = (labelled_rows(path, files, None) for path in (valid, test))
    return InMemory(whole, source.fields), *(other.block(0) for other in others)


def loss_of(model: Model, rows: CheckedRows) -> float:
    """Return the RMSE of ratings, the log loss of clicks."""
    if not model.loss.is_classification:
        return float(np.sqrt(np.mean((model.predict(rows) - rows.labels) ** 2)))
    scores = model.scores(rows).astype(float)
    return float(np.mean(np.logaddexp(0, scores) - scores * rows.labels))


def sampled(data: InMemory, valid: CheckedRows, **chosen: Any) -> tuple[Model, Distilled, float]:
    """Return the model, what was said of its distillation, and CPU seconds."""
    begun = time.process_time()
    for event in run_recipe(data, resolve(optimizer="gibbs", **chosen), valid):
        if isinstance(event, Distilled):
            gap = event  # the last one, if there are two
        if isinstance(event, Finished):
            model = event.model
    return model, gap, time.process_time() - begun


def show(name: str, rank: int, n_sweeps: int, n_seeds: int, field_weights: str) -> None:
    """Train with every seed and print what the models reach."""
    (data, valid, test), tests, task = load(name), [], task_of(name)
    for seed in range(n_seeds):
        chosen = {"task": task, "model": "fm", "ranks": rank, "n_epochs": n_sweeps, "seed": seed}
        model, gap, seconds = sampled(data, valid, **chosen, field_weights=field_weights)
        tests.append(loss_of(model, test))
        metric, mean = next(iter(gap.metrics)), model.history[-1]
        found = f"mean of samples {mean[f'valid_{metric}']:.4f}, one model {gap.metrics[metric]:.4f}"
        spent = f"{len(model.history)} sweeps, {seconds:5.1f} CPU s"
        print(f"{name:8} rank {rank} seed {seed}: {spent}, valid {found}, test {tests[-1]:.4f}", flush=True)
    spread = f"deviation {np.std(tests, ddof=1):.4f}" if n_seeds > 1 else "no deviation"
    print(
        f"{name:8} rank {rank}, {model.n_parameters} parameters: test {np.mean(tests):.4f}, {spread} of {n_seeds} seeds"
    )


def show_cut(name: str, share: float, n_seeds: int) -> None:
    """Train models of full and of measured length, and print what they reach."""
    data, valid, test = load(name)
    for seed in range(n_seeds):
        full, _, _ = sampled(data, valid, task="regression", model="fm", ranks=RANK_TO_CUT, seed=seed)
        limit = int(share * full.n_parameters)
        small, _, seconds = sampled(data, valid, task="regression", ranks="auto", max_parameters=limit, seed=seed)
        sizes = (
            f"{full.n_parameters} parameters {loss_of(full, test):.4f}, {small.n_parameters} {loss_of(small, test):.4f}"
        )
        loss = 100 * (loss_of(small, test) / loss_of(full, test) - 1)
        print(f"{name:8} seed {seed}: test of {sizes}: {loss:+.2f} %, {seconds:5.1f} CPU s", flush=True)


def main() -> None:
    """Print a line per data set, rank and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--ranks", default="8")
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument("--share", type=float)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--field-weights", default="auto", choices=("auto", "off"))
    chosen = parser.parse_args()
    for name in chosen.names:
        for rank in map(int, filter(None, chosen.ranks.split(","))):
            show(name, rank, chosen.sweeps, chosen.seeds, chosen.field_weights)
        if chosen.share:
            show_cut(name, chosen.share, chosen.seeds)


if __name__ == "__main__":
    main()
