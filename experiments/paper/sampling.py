"""Models sampled and distilled into one: ratings at several ranks and at a share of their size, and clicks."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rafm.options import resolve
from rafm.rows.blocks import pick_rows
from rafm.rows.source import InMemory
from rafm.train.dispatch import run_recipe, train_model
from rafm.train.events import Finished
from rafm.train.recipe import Recipe

from .artefact import Artefact, table
from .budget import Budget, SampledStudy
from .competition import training_counts
from .lab import Lab, NotStored, Task
from .tasks import Result, evaluate_model, fields_of, rows_of
from .verdicts import mean_and_deviation

VERSION = 1  # of the sampler; to be raised when its models change, because fingerprints of the engine do not cover them
CUT_VERSION = 2  # likewise, of models of measured length
MYFM = {"ml-100k": "0.9142", "ciao": "0.9550"}  # test RMSE, experiments/beside_myfm.md
WARM_ROWS = 100
TITLE = "Sampled models, distilled into one"


def sampled_run(config: dict[str, Any], folder: Path) -> Result:
    """Sample an FM of a rank, or one of measured lengths within a number of parameters, and evaluate what is left."""
    found = rows_of(folder, config["data"], None)
    training, valid, test = found.parts
    source = InMemory(training, fields_of(folder, config["data"]))
    shape: dict[str, Any] = {name: config[name] for name in ("ranks", "max_parameters") if name in config}
    shape |= {} if "max_parameters" in config else {"model": "fm"}
    recipe = Recipe.of(
        resolve(task=found.task, optimizer="gibbs", n_epochs=config["sweeps"], seed=config["seed"], **shape)
    )
    few = pick_rows(training, np.arange(min(WARM_ROWS, training.n_rows)))
    train_model(InMemory(few, source.fields), replace(recipe, n_epochs=1), valid)  # times are without compiling
    begun = time.process_time()
    *_, last = run_recipe(source, recipe, valid)
    seconds = time.process_time() - begun
    assert isinstance(last, Finished)
    name = last.model.loss.metrics[0]
    return {
        "parameters": last.model.n_parameters,
        "sweeps": len(last.model.history),
        "samples_valid": last.model.history[-1][f"valid_{name}"],
        "valid": evaluate_model(last.model, valid)[name],
        "test": evaluate_model(last.model, test),
        "train_seconds": seconds,
    }


def tasks_of(lab: Lab, study: SampledStudy) -> dict[str, list[Task]]:
    """Return the tasks of a study by the name of the model, one for each seed."""
    shared = {"kind": "sampled", "data": study.data, "sweeps": study.sweeps, "version": VERSION}
    shapes: dict[str, dict[str, Any]] = {f"rank {rank}": {"ranks": rank} for rank in study.ranks}
    if study.share is not None:
        n_features = training_counts(lab, study).size
        limit = int(study.share * (1 + n_features * (1 + max(study.ranks))))
        shape = {"ranks": "auto", "max_parameters": limit, "cut": CUT_VERSION}
        shapes[f"{study.share:.0%} of rank {max(study.ranks)}"] = shape
    return {
        name: [{**shared, **shape, "seed": seed} for seed in range(study.n_seeds)] for name, shape in shapes.items()
    }


def sampling(lab: Lab, budget: Budget) -> Artefact:
    """Show how good sampled models are, and what they cost."""
    found: dict[str, dict[str, list[Result]]] = {}
    missing = []
    for study in budget.sampled_studies:
        tasks = tasks_of(lab, study)
        try:
            own = {name: lab.results(each) for name, each in tasks.items()}
        except NotStored:
            lab.tell(f"{study.data}: left out of the sampled models, because results are missing")
            missing.append(study.data)
            continue
        found[study.data] = found.get(study.data, {}) | own
    text = [
        "`--optimizer gibbs` with validation rows: Gibbs sampling, distilled into one FM of the same size; clicks with "
        "field weights, from a model trained by steps, whose time counts. Nothing is tuned. RMSE of ratings, log loss "
        "of clicks, mean and deviation of the seeds: of the mean of all samples and of the one model on validation "
        "rows, and of the one model on test rows. *of rank N*: vectors of measured length (`--ranks auto "
        "--max-parameters`), cut from rank 32. *myFM*: test RMSE of myFM 0.4.0, rank 10, 200 iterations, which "
        "predicts by the mean of its samples (`experiments/beside_myfm.py`). Time is CPU seconds of training.",
        sampled_table(found),
    ]
    if missing:
        text.append(f"Not complete, and left out: {', '.join(dict.fromkeys(missing))}.")
    config = {"studies": [vars(study) for study in budget.sampled_studies], "version": VERSION}
    return Artefact("sampling", TITLE, config, found, text)


def sampled_table(found: dict[str, dict[str, list[Result]]]) -> str:
    """Return a line for each model; times stand last."""
    header = ["data", "model", "parameters", "seeds", "samples, validation", "one model, validation", "test", "myFM"]
    lines = []
    for data, models in found.items():
        for name, results in models.items():
            losses = [
                [own["samples_valid"] for own in results],
                [own["valid"] for own in results],
                [next(iter(own["test"].values())) for own in results],
            ]
            size, seconds = max(own["parameters"] for own in results), [own["train_seconds"] for own in results]
            shown = [mean_and_deviation(each) for each in losses]
            peer = MYFM.get(data, "")
            lines.append([data, name, f"{size:,}", str(len(results)), *shown, peer, f"{np.mean(seconds):.2f}"])
    return table([*header, "CPU s"], lines, n_words=2)
