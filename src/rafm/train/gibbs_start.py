"""Begin to sample from a trained model: its parameters are the first state of the chain."""

from __future__ import annotations

import numpy as np

from ..errors import ConfigError
from ..model.model import Model
from ..options import TrainingOptions
from ..plan.features import PlannedFeatures
from .gibbs_engine import GibbsEngine


def check_start(model: Model, options: TrainingOptions) -> None:
    """Reject models that are not of the form that is sampled, or of another task."""
    name, families = options.optimizer.name, options.optimizer.families or ()
    if model.plan.family not in families or model.plan.n_field_weights:
        what = "field weights" if model.plan.family in families else f"the form of {model.plan.family!r}"
        raise ConfigError(
            f"optimizer={name!r} cannot begin from a model that has {what}. Begin from a model trained with model='fm' "
            "and field_weights='off', or from none.",
            key="optimizer",
        )
    if model.loss.task != options.loss.task:
        raise ConfigError(
            f"task was {model.loss.task} when the model was trained, now it is {options.loss.task}", "task"
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
