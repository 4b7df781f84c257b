"""How good is Gibbs sampling, distilled into one model, on public ratings?

    RAFM_DATA=folder python experiments/gibbs.py [NAME ...] [--ranks 8] [--seeds 5]      prints a table

The folder holds <name>/<name>.{train,validation,test}.libfm.gz and <name>/features.tsv.gz with the fields. Test RMSE of
the distilled model, default settings, for each seed. Nothing is tuned; validation rows set the noise and end the run.
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
from rafm.train.trainer import Distilled, Finished, train

NAMES = ("ml-100k", "ciao", "ml-1m")
PARTS = ("train", "validation", "test")


def load(name: str, task: str = "regression") -> tuple[InMemory, CheckedRows, CheckedRows]:
    """Return training rows with their fields, validation and test rows."""
    folder = Path(os.environ["RAFM_DATA"]) / name
    files = ReadOptions(task, fields=read_fields(folder / "features.tsv.gz"))
    train, valid, test = (folder / f"{name}.{part}.libfm.gz" for part in PARTS)
    source, _ = training_rows(train, files)
    whole = join_rows([source.block(number) for number in range(source.n_blocks)])
    others = (labelled_rows(path, files, None) for path in (valid, test))
    return InMemory(whole, source.fields), *(other.block(0) for other in others)


def rmse(model: Model, rows: CheckedRows) -> float:
    return float(np.sqrt(np.mean((model.predict(rows) - rows.labels) ** 2)))


def sampled(data: InMemory, valid: CheckedRows, **chosen: Any) -> tuple[Model, Distilled, float]:
    """Return the model, what was said of its distillation, and CPU seconds."""
    begun = time.process_time()
    for event in train(data, resolve(optimizer="gibbs", **chosen), valid):
        if isinstance(event, Distilled):
            gap = event
        if isinstance(event, Finished):
            model = event.model
    return model, gap, time.process_time() - begun


def show(name: str, rank: int, n_seeds: int) -> None:
    """Train with every seed and print what the models reach."""
    (data, valid, test), tests = load(name), []
    for seed in range(n_seeds):
        model, gap, seconds = sampled(data, valid, task="regression", model="fm", ranks=rank, seed=seed)
        tests.append(rmse(model, test))
        found = f"mean of samples {model.history[-1]['valid_rmse']:.4f}, one model {gap.metrics['rmse']:.4f}"
        spent = f"{len(model.history)} sweeps, {seconds:5.1f} CPU s"
        print(f"{name:8} rank {rank} seed {seed}: {spent}, valid {found}, test {tests[-1]:.4f}", flush=True)
    print(f"{name:8} rank {rank}, {model.n_parameters} parameters: test {np.mean(tests):.4f} of {n_seeds} seeds")


def main() -> None:
    """Print a line per data set, rank and seed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=NAMES)
    parser.add_argument("--ranks", default="8")
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    for name in chosen.names:
        for rank in map(int, chosen.ranks.split(",")):
            show(name, rank, chosen.seeds)


if __name__ == "__main__":
    main()
