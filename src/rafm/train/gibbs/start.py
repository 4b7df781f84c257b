"""Begin to sample from a trained model: its parameters are the first state of the chain.

Field weights are not sampled: they are those of such a model, which is trained by steps first if none is given.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...checks import USUAL_OPTIMIZER
from ...errors import ConfigError, DataValueError, DivergenceError
from ...model.model import Model
from ...plan.features import PlannedFeatures
from ..checkpoint import NoCheckpoint
from ..events import Finished
from ..policy import adapted
from ..recipe import Recipe
from ..steps.engine import FIRST_FIELD_WEIGHT
from ..steps.field_choice import FIELDS_FROM
from ..steps.job import Job, train_plain
from .engine import GibbsEngine

BLIND_EPOCHS = 5  # of the steps before sampling, without validation rows to stop by


def stepped_start(job: Job, recipe: Recipe) -> Model | None:
    """Return a model trained by steps, with field weights; None if nothing could be learnt."""
    names = ("model", "ranks", "metric", "seed", "threads")
    usual = Recipe.like(recipe, names, optimizer=USUAL_OPTIMIZER, field_weights="on", calibrate="off")
    usual = replace(usual, rank_scale=recipe.rank_scale, levels=recipe.levels, keep_state=False)
    chosen = adapted(usual, job.found)
    if job.valid is None:
        chosen = replace(chosen, n_epochs=BLIND_EPOCHS)
    try:
        resources = replace(job.resources, checkpoint=NoCheckpoint())
        *_, last = train_plain(job._replace(resources=resources, schedule=None), chosen)
    except DivergenceError:
        return None
    assert isinstance(last, Finished)
    return last.model if last.model.best_epoch else None


def check_start(model: Model, recipe: Recipe) -> None:
    """Reject models that are not of the form that is sampled, or of another task."""
    name, families, has_weights = recipe.optimizer.name, recipe.optimizer.families or (), model.plan.n_field_weights
    can_have = recipe.loss.is_classification and recipe.field_weights != "off"
    if model.plan.family not in families or (has_weights and not can_have):
        what = "field weights" if model.plan.family in families else f"the form of {model.plan.family!r}"
        raise ConfigError(
            f"optimizer={name!r} cannot begin from a model that has {what}. Begin from a model trained with model='fm' "
            "and field_weights='off', or from none.",
            key="optimizer",
        )
    if recipe.field_weights == "on" and not has_weights:
        raise ConfigError("field_weights 'on' cannot begin from a model that has none; drop it", key="field_weights")
    if model.loss.task != recipe.loss.task:
        raise ConfigError(
            f"task was {model.loss.task} when the model was trained, now it is {recipe.loss.task}", "task"
        )


def begin_from(engine: GibbsEngine, model: Model, features: PlannedFeatures, label_scale: float) -> int:
    """Set parameters of the features that a model knows, as far as its vectors go; return how many features are new."""
    by_id = np.argsort(model.numbering.ids)
    ids = model.numbering.ids[by_id]
    at = np.minimum(np.searchsorted(ids, features.numbering.ids), max(ids.size - 1, 0))
    is_known = ids[at] == features.numbering.ids if ids.size else np.zeros(at.size, bool)
    own, numbers = by_id[at[is_known]], np.flatnonzero(is_known)  # in the model, and in the plan
    # Training divides labels and values by scales of its own, so parameters are multiplied by them.
    scales = np.ones(model.plan.n_features, np.float32)
    scales[own] = features.value_scales[numbers]
    found = model.parameters.undo_scaling(1 / label_scale, 1 / scales)
    lengths = np.concatenate([[0], np.cumsum(features.plan.block_ranks)]).astype(np.int64)[features.plan.levels()]
    if model.fields is not None and found.fields is not None:
        if features.fields is None:
            raise DataValueError(f"the model to begin from has field weights, which need fields: {FIELDS_FROM}")
        by_name = dict(zip(model.fields.names, found.fields))
        engine.weigh_fields(np.array([by_name.get(name, FIRST_FIELD_WEIGHT) for name in features.fields.names]))
    chain, places, first = engine.chain, engine.arrangement.places, 1
    chain.bias[0] = found.bias[0]
    chain.numbers[0, places[numbers]] = found.weights[own]
    for block in found.factors:
        for coordinate in block.T[: max(engine.n_factors + 1 - first, 0)]:
            # both the model and the plan may have vectors of different lengths
            has = (own < len(block)) & (lengths[numbers] >= first)
            chain.numbers[first, places[numbers[has]]] = coordinate[own[has]]
            first += 1
    engine.renew()
    return int(is_known.size - numbers.size)
