"""Compare models of one size: FM, RaFM by counts, and measured ranks, with and without each part of the recipe.

    RAFM_DATA=folder python -m experiments.measured_ranks [SET ...] [--seeds N] [--parts] [--only MODEL]

A set is a folder with SET.train.libfm.gz, SET.validation.libfm.gz, SET.test.libfm.gz and features.tsv.gz, the fields of
its ids. All models get the training rows, their fields, the validation rows and a number of parameters, and nothing
else; learning rate and L2 are found by short runs for all. --parts adds measured ranks without one part of the recipe
each. Prints a line as each model is trained, then a table of test losses: the mean over the seeds.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rafm.metrics.evaluation import Evaluation
from rafm.model.model import Model
from rafm.options import Options, resolve
from rafm.read.fields import read_fields
from rafm.read.open import ReadOptions, labelled_rows, training_rows
from rafm.rows.source import RowSource
from rafm.rows.stats import count_rows
from rafm.train.dispatch import train_model
from rafm.train.recipe import Recipe
from rafm.train.steps.ranks_by_count import ranks_within

SIZES = {  # task and number of parameters
    "frappe": ("binary", 350_000),
    "ml10m-tag-popularity": ("binary", 880_000),
    "lastfm-tag-popularity": ("binary", 780_000),
    "ml-1m": ("regression", 220_000),
    "ml-100k": ("regression", 60_000),
    "ciao": ("regression", 400_000),
}
PARTS = {
    "no averaging": {"averaging": False},
    "spread 0.01 / 0.03": {},  # the other one, see `candidates`
    "default rate and L2": {"learning_rate": 0.2, "l2": 0.005},
    "30 epochs": {"n_epochs": 30},
    "no rate drop": {"rate_drops": 0},
}


def candidates(task: str, size: int, rows: RowSource, with_parts: bool) -> dict[str, Options]:
    """Return the options of every model, all within the size."""
    found = count_rows(rows.block(number) for number in range(rows.n_blocks))
    spread, other = (0.03, 0.01) if task == "binary" else (0.01, 0.03)
    recipe: dict[str, Any] = {"averaging": True, "init_scale": spread, "rate_drops": 1, "n_epochs": 100}
    searched = {**recipe, "learning_rate": "auto", "l2": "auto"}
    measured = resolve(task=task, ranks="auto", max_parameters=size)
    by_count = ranks_within(found, replace(Recipe.of(measured), searched=()))
    rank = (size - 1 - found.ids.size) // found.ids.size
    models = {
        "FM": resolve(task=task, model="fm", ranks=rank, **searched),
        "RaFM": resolve(task=task, ranks=by_count.ranks, rank_scale=by_count.rank_scale, **searched),
        "measured": measured,
    }
    for name, part in PARTS.items() if with_parts else ():
        given = part or {"init_scale": other}
        if "l2" in part and task != "binary":
            given = {"learning_rate": 0.1, "l2": 0.1}
        models[name] = resolve(task=task, ranks="auto", max_parameters=size, **given)
    return models


def compare(name: str, seeds: int, with_parts: bool, only: str | None) -> dict[str, list[float]]:
    """Return the test losses of each model on one set, by seed."""
    task, size = SIZES[name]
    folder = Path(os.environ.get("RAFM_DATA", "data")) / name
    files = ReadOptions(task, fields=read_fields(folder / "features.tsv.gz"))
    rows, _ = training_rows(folder / f"{name}.train.libfm.gz", files)
    valid, test = (labelled_rows(folder / f"{name}.{part}.libfm.gz", files, None) for part in ("validation", "test"))
    found: dict[str, list[float]] = {}
    for title, options in candidates(task, size, rows, with_parts).items():
        if only not in (None, title):
            continue
        for seed in range(seeds):
            begun = time.process_time()
            model = train_model(rows, replace(Recipe.of(options), seed=seed), valid)
            found.setdefault(title, []).append(loss_of(model, test))
            chosen = f"rate {model.options['learning_rate']:.3g}, l2 {model.options['l2']:.3g}"
            losses = f"validation {loss_of(model, valid):.4f}, test {found[title][-1]:.4f}"
            took = f"epoch {model.best_epoch} of {len(model.history)}, {time.process_time() - begun:.0f} s"
            print(f"{name:22} {title:20} {model.n_parameters:8d} {chosen}, {losses}, {took}", flush=True)
    return found


def loss_of(model: Model, rows: RowSource) -> float:
    """Return the metric of the model's loss."""
    evaluation = Evaluation(model.loss)
    for number in range(rows.n_blocks):
        batch = rows.block(number)
        evaluation.add(batch.labels, model.scores(batch), np.ones(batch.n_rows))
    return evaluation.report()[model.loss.metrics[0]]


def print_table(results: dict[str, dict[str, list[float]]]) -> None:
    """Print the mean test losses as Markdown."""
    titles = list(next(iter(results.values())))
    print("\n| set, parameters | " + " | ".join(titles) + " |\n|---|" + "--:|" * len(titles))
    for name, found in results.items():
        size = f"{SIZES[name][1] / 1e6:.2f} M"
        print(
            f"| {name}, {size} | "
            + " | ".join(f"{np.mean(found[title]):.4f} ± {np.std(found[title]):.4f}" for title in titles)
            + " |"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=[*SIZES])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--only")
    given = parser.parse_args()
    print_table({name: compare(name, given.seeds, given.parts, given.only) for name in given.sets})
