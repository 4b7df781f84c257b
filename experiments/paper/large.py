"""Train a large model once and make it small in several ways: measured ranks, and coordinates pruned by magnitude."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rafm.model.model import Model
from rafm.options import resolve
from rafm.rows.source import InMemory
from rafm.rows.stats import RowStats, count_rows
from rafm.train.decision import Facts, decide
from rafm.train.dispatch import train_model
from rafm.train.events import Finished, Searched
from rafm.train.policy import adapted
from rafm.train.recipe import Recipe
from rafm.train.resources import Resources
from rafm.train.steps.job import Job
from rafm.train.steps.measured import train_sizes
from rafm.train.steps.run import choose_label_scale

from .tasks import Result, Run, evaluate_model, fields_of, options_of, rows_of


def measured_sizes(config: dict[str, Any], folder: Path) -> Result:
    """Train with measured ranks and no other option; return a model for each number of parameters in `sizes`.

    Ratings are sampled, as they are for everybody who gives no other option.
    """
    found = rows_of(folder, config["data"], None)
    training, valid, test = found.parts
    source = InMemory(training, fields_of(folder, config["data"]))
    options = resolve(task=found.task, ranks="auto", max_parameters=max(config["sizes"]), seed=config["seed"])
    counts, n_fields = count_rows([source.rows]), None if source.fields is None else len(source.fields.names)
    recipe, train = decide(Facts(counts, n_fields), options, Resources()).recipes[0], train_sizes
    if recipe.optimizer.is_sampler:  # imported here: its kernels are compiled only if they are used
        from rafm.train.gibbs.measured import train_sampled_sizes as train
    job, recipe = job_of(source, valid, recipe, counts)
    begun, models, settings = time.process_time(), [], {}
    for event in train(job, recipe, config["sizes"]):
        if isinstance(event, Searched):
            settings = {"rate": event.learning_rate, "l2": event.l2}
        if isinstance(event, Finished):
            models.append(_figures(event.model, valid, test) | {"parameters": event.model.n_parameters})
    return {"models": models, **settings, "train_seconds": time.process_time() - begun}


def job_of(source: InMemory, valid: Any, recipe: Recipe, counts: RowStats) -> tuple[Job, Recipe]:
    """Return what trains on these rows, and the recipe that suits them."""
    scale = choose_label_scale(counts.label_spread, recipe.loss)
    job = Job(source, InMemory(valid), counts, scale, Resources(), None)
    return job._replace(weight_scale=counts.weight_scale), adapted(recipe, counts)


def pruned_sizes(config: dict[str, Any], folder: Path) -> Result:
    """Train a large FM; return what is left of it for each number of nonzero parameters in `sizes`."""
    sizes = config["sizes"]
    run = Run(**{name: value for name, value in config.items() if name != "sizes"} | {"ranks": tuple(config["ranks"])})
    found = rows_of(folder, run.data, None)
    training, valid, test = found.parts
    source = InMemory(training, fields_of(folder, run.data)) if run.field_weights else training
    begun = time.process_time()
    model = train_model(source, options_of(run, found), valid)
    models = []
    for size in sizes:
        small = pruned(model, size)
        models.append(None if small is None else _figures(small, valid, test) | {"parameters": nonzeros(small)})
    whole = _figures(model, valid, test) | {"parameters": model.n_parameters}
    return {"models": models, "whole": whole, "train_seconds": time.process_time() - begun}


def pruned(model: Model, size: int) -> Model | None:
    """Return the model with all but its largest coordinates set to 0, of at most `size` nonzero parameters."""
    factors = model.parameters.factors
    room = size - (model.n_parameters - sum(block.size for block in factors))
    if room < 0:
        return None
    magnitudes = np.abs(np.concatenate([block.ravel() for block in factors]))
    if room >= magnitudes.size:
        return model
    least = np.partition(magnitudes, -room - 1)[-room - 1]  # the largest one that goes
    kept = [np.where(np.abs(block) > least, block, np.float32(0)) for block in factors]
    return replace(model, parameters=replace(model.parameters, factors=kept))


def nonzeros(model: Model) -> int:
    """Return the number of parameters that are not pruned: all but the coordinates that are 0."""
    factors = model.parameters.factors
    return int(model.n_parameters - sum(block.size - np.count_nonzero(block) for block in factors))


def _figures(model: Model, valid: Any, test: Any) -> Result:
    name = model.loss.metrics[0]
    return {"valid": evaluate_model(model, valid)[name], "test": evaluate_model(model, test)}
