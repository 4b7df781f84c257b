"""Continue training from a model: merge its features with new ones, and initialise their parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...errors import ConfigError, DataValueError
from ...model.model import Model
from ...model.parameters import Parameters, States
from ...optimizers import SAMPLERS
from ...plan.features import PlannedFeatures, per_field, rule_for, value_scales
from ...plan.fields import continue_fields
from ...plan.ranks import assign_levels, plan_ranks
from ...rows.numbering import Numbering
from ...rows.source import RowSource
from ...rows.stats import RowStats
from ..recipe import Recipe
from .engine import FIRST_FIELD_WEIGHT, first_bias
from .promotion import count_pairs, pair_error, promote, promoted_features


class WarmStart(NamedTuple):
    """Features and initial parameters; places[i] is the new number of feature i of the old model."""

    features: PlannedFeatures
    parameters: Parameters
    places: np.ndarray
    label_scale: float
    promoted: int = 0
    pair_error: float | None = None


def check_start(model: Model, recipe: Recipe) -> None:
    """Reject another task, loss, family or ranks and, if the model has optimiser state, another optimiser."""
    if recipe.optimizer.is_sampler and recipe.shuffle:
        from ..gibbs.start import check_start as check_first_state

        check_first_state(model, recipe)
        return
    if recipe.optimizer.is_sampler:
        raise ConfigError(
            f"optimizer={recipe.optimizer.name!r} cannot continue from a model: it needs all rows at once. "
            "Train a new model on all rows, or continue with optimizer='adagrad'.",
            key="optimizer",
        )
    now: dict[str, object] = {"task": recipe.loss.task, "model": recipe.model, "ranks": recipe.ranks}
    before: dict[str, object] = {"task": model.loss.task, "model": model.plan.family, "ranks": model.plan.ranks}
    before["loss"], now["loss"] = str(model.loss), str(recipe.loss)
    if model.parameters.states is not None:
        before["optimizer"] = model.options.get("optimizer")
        now["optimizer"] = recipe.summary()["optimizer"]
    if recipe.field_weights != "auto":  # they cannot be added: a model without them has learnt other vectors
        before["field_weights"], now["field_weights"] = _on_or_off(model), recipe.field_weights
    for key, value in before.items():
        if value != now[key]:
            raise ConfigError(
                f"{key} was {_shown(value)} when the model was trained, now it is {_shown(now[key])}. "
                "Use the same value, or train a new model.",
                key=key,
            )


def _on_or_off(model: Model) -> str:
    return "on" if model.plan.n_field_weights else "off"


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def warm_start(model: Model, found: RowStats, source: RowSource, label_scale: float, recipe: Recipe) -> WarmStart:
    """Return features and initial parameters for continued training on rows with these statistics.

    label_scale: the scale of the new rows; that of the model takes precedence if it has optimiser state.
    """
    model = model.as_floats()
    states = model.parameters.states
    features, places = _continued_features(model, found, source, recipe)
    if recipe.family.has_field_vectors:
        features = _same_fields(model, features)
    scale = label_scale if states is None else float(states.label_scale[0])
    old = model.parameters.undo_scaling(1 / scale, 1 / features.value_scales[places])
    shifted = (model.parameters.bias - np.float32(recipe.score_shift)) / np.float32(scale)
    may_revive = states is None or not recipe.optimizer.has_l1  # whose state gives the vectors
    seed, spread = [recipe.seed, model.n_rows], recipe.init_scale
    begin = _renumbered(replace(old, bias=shifted), places, features, seed, spread, may_revive)
    before = features.plan.levels()
    before[places] = model.plan.levels()
    begin, promoted, error = _promoted(begin, before, features, source)
    n_vectors = max(features.plan.n_field_vectors, 1)
    fresh = _fresh_states(begin, recipe, scale, features.value_scales, n_vectors)
    if states is None and model.options.get("optimizer") in SAMPLERS:
        _age(fresh, model, places)
    kept = fresh if states is None else _with_old_states(fresh, states, places)
    if model.options.get("negative_rate", 1.0) != recipe.negative_rate:
        kept = replace(kept, bias=fresh.bias)  # the old state belongs to rows with another share of negatives
    return WarmStart(features, replace(begin, states=kept), places, scale, promoted, error)


def _promoted(
    begin: Parameters, before: np.ndarray, features: PlannedFeatures, source: RowSource
) -> tuple[Parameters, int, float | None]:
    """Return parameters with new vectors for promoted features, their number, and the change of their pairs."""
    plan, rising = features.plan, promoted_features(features.plan, before)
    if not rising.size:
        return begin, 0, None
    pair_counts = count_pairs(source.block(0), features, rising)  # a sample: one block is enough
    factors = promote(plan, before, features.counts, begin.factors, pair_counts)
    error = pair_error(plan, before, begin.factors, factors, pair_counts)
    return replace(begin, factors=factors), rising.size, error


def _continued_features(
    model: Model, found: RowStats, source: RowSource, recipe: Recipe
) -> tuple[PlannedFeatures, np.ndarray]:
    """Number the features of model and rows; old features keep their level, or may rise with `replan`."""
    n_inputs, known = max(source.n_features, model.numbering.n_inputs), model.numbering.ids
    ids = np.union1d(known, found.ids)
    old, new = np.searchsorted(ids, known), np.searchsorted(ids, found.ids)
    counts, scales = np.zeros(ids.size, np.int64), np.ones(ids.size, np.float32)
    counts[old] = np.maximum(model.counts, 1)  # plan_ranks drops features with a count of 0
    counts[new] += found.counts
    if recipe.family.is_homogeneous:
        scales[new] = value_scales(found.counts, found.squares)
    if model.parameters.states is not None:
        scales[old] = model.parameters.states.value_scales
    levels = np.full(ids.size, len(recipe.ranks))
    if recipe.family.levels_by_count:
        levels = assign_levels(counts, recipe.ranks, rule_for(ids, n_inputs, recipe.rule)).copy()
        least = model.plan.levels()
        levels[old] = np.maximum(levels[old], least) if recipe.replan else least
    plan, order = plan_ranks(recipe.model, recipe.ranks, counts, levels)
    numbers = np.empty(ids.size, np.int64)
    numbers[order] = np.arange(ids.size)
    fields = continue_fields(model.fields, numbers[old], source.fields, ids[order])
    return PlannedFeatures(plan, Numbering(ids[order], n_inputs), counts[order], scales[order], fields), numbers[old]


def _same_fields(model: Model, features: PlannedFeatures) -> PlannedFeatures:
    """Return the features of a field-aware model with its plan; refuse fields that its vectors do not know."""
    assert model.fields is not None
    assert features.fields is not None
    new = features.fields.names[model.fields.n_fields :]
    if new:
        raise DataValueError(
            f"field {new[0]!r} is not among the {model.fields.n_fields} fields of the model, for which its features "
            "have vectors. Train a new model on all rows, or leave that field out."
        )
    return per_field(features)


def _renumbered(
    old: Parameters, places: np.ndarray, features: PlannedFeatures, seed: list[int], spread: float, may_revive: bool
) -> Parameters:
    """Return the old parameters under their new feature numbers, and initial ones for new features."""
    plan, draw = features.plan, np.random.default_rng(seed)
    # Where all vectors are 0, as those of a constant, no pair would ever learn.
    is_blank = may_revive and not any(np.asarray(block).any() for block in old.factors)
    weights, factors = np.zeros(plan.n_features, np.float32), []
    weights[places] = old.weights
    for size, rank, block in zip(plan.sizes[1:], plan.block_ranks, old.factors):
        own = places[: 0 if is_blank else len(block)]
        fresh = np.ones(size, bool)
        fresh[own] = False
        grown = np.empty((size, rank), np.float32)
        grown[own] = block[: own.size]
        grown[fresh] = draw.standard_normal((size - own.size, rank), np.float32) * np.float32(spread)
        factors.append(grown)
    mixture = None
    if old.mixture is not None:
        mixture = np.ones((plan.n_features, plan.n_levels), np.float32)
        mixture[places] = old.mixture
    fields = None if old.fields is None else _grown(old.fields, features, FIRST_FIELD_WEIGHT)
    return Parameters(old.bias, weights, factors, mixture, fields=fields)


def _grown(old: np.ndarray, features: PlannedFeatures, first: float) -> np.ndarray:
    """Return numbers of the old fields, followed by the initial one of new fields."""
    assert features.fields is not None
    return np.concatenate([old, np.full(features.fields.n_fields - old.size, first, np.float32)])


def _fresh_states(begin: Parameters, recipe: Recipe, scale: float, scales: np.ndarray, n_vectors: int) -> States:
    """Return the initial optimiser state for these parameters; n_vectors: per line of a block."""
    optimizer, rate = recipe.optimizer, recipe.learning_rate

    def states_of(vectors: np.ndarray, l1: float, n_slots: int) -> np.ndarray:
        first = [np.full((len(vectors), 1), optimizer.first_state), optimizer.first_slot(vectors, rate, l1)]
        parts = [*first, *(np.zeros_like(vectors) for _ in range(n_slots - 1))]
        return np.concatenate(parts[: 1 + n_slots], axis=1).astype(np.float32)

    def block_states(block: np.ndarray) -> np.ndarray:
        vectors = np.split(block, n_vectors, axis=1)
        return np.concatenate([states_of(part, recipe.l1, optimizer.n_slots) for part in vectors], axis=1)

    return States(
        bias=first_bias(float(begin.bias[0]), recipe),
        weights=states_of(begin.weights[:, None], recipe.l1_weights, min(optimizer.n_slots, 1)),
        factors=[block_states(block) for block in begin.factors],
        label_scale=np.array([scale], np.float32),
        value_scales=scales,
        mixture=None if begin.mixture is None else np.ones_like(begin.mixture),
        fields=None if begin.fields is None else np.stack([np.ones_like(begin.fields), np.zeros_like(begin.fields)]),
    )


def _age(fresh: States, model: Model, places: np.ndarray) -> None:
    """Let sums of squares begin as if the rows of a sampled model had been steps, each with a gradient of 1 at most.

    Sampled parameters are exact: first steps as large as those from random ones would undo what they know.
    """
    for block in (fresh.weights, *fresh.factors):
        own = places[places < len(block)]
        block[own, 0] += model.counts[places < len(block)]
    fresh.bias[1] += model.n_rows


def _with_old_states(fresh: States, old: States, places: np.ndarray) -> States:
    """Return the fresh states, overwritten by the old ones under their new feature numbers."""
    pairs = [(fresh.weights, old.weights), *zip(fresh.factors, old.factors)]
    if fresh.mixture is not None and old.mixture is not None:
        pairs.append((fresh.mixture, old.mixture))
    for target, given in pairs:
        target[places[: len(given)]] = given
    if fresh.fields is not None and old.fields is not None:
        fresh.fields[:, : old.fields.shape[1]] = old.fields  # new fields follow the old ones
    return replace(fresh, bias=old.bias)
