"""Decide what the fields of a run get: a weight each, a vector of every feature for each, or nothing."""

from __future__ import annotations

import os

from ...errors import DataValueError, ResourceLimitError
from ...model.model import Model
from ...options import Options
from ...plan.features import PlannedFeatures, per_field, weigh_fields

MOST_FIELDS = 4096  # each mini-batch steps the weights of all fields, which must not take longer than its rows
MOST_VECTOR_FIELDS = 1024  # of a field-aware model, whose rows have sums for each pair of their fields
FIELDS_FROM = "those of a table or of libffm rows, --fields FILE for rows of ids, or fields= for matrices"


def with_field_parameters(features: PlannedFeatures, recipe: Options, start: Model | None = None) -> PlannedFeatures:
    """Return the features with a plan that has a weight per field, a vector per field, or neither."""
    if recipe.family.has_field_vectors:
        return _with_field_vectors(features, recipe)
    if not (recipe.optimizer.has_steps or recipe.optimizer.is_sampler):  # of 1 and -1, so that pairs cross the sides
        return weigh_fields(features, True)
    return weigh_fields(features, _has_field_weights(features, recipe, start))


def _with_field_vectors(features: PlannedFeatures, recipe: Options) -> PlannedFeatures:
    """Return the features with a vector per field; refuse data without fields, and models that do not fit."""
    if features.fields is None:
        raise DataValueError(f"model {recipe.model!r} needs fields: {FIELDS_FROM}")
    n_fields = features.fields.n_fields
    if n_fields > MOST_VECTOR_FIELDS:
        raise ResourceLimitError(
            f"model {recipe.model!r} takes up to {MOST_VECTOR_FIELDS} fields, found {n_fields}: every feature has a "
            "vector for each field. Merge fields, or use model='rafm'."
        )
    found = per_field(features)
    layout = recipe.family.layout(found.plan, True, recipe.optimizer.n_slots)
    needed, room = 4 * layout.place_levels(layout.members)[1], _memory_bytes()
    if needed > room:
        raise ResourceLimitError(
            f"model {recipe.model!r} of rank {recipe.ranks[0]} would have {found.plan.n_features} features x "
            f"{n_fields} fields x {recipe.ranks[0]} factors = {found.plan.n_parameters} parameters, which take "
            f"{needed / 1e6:,.0f} MB in training, more than {room / 1e6:,.0f} MB. Use a lower rank or fewer fields, "
            "drop infrequent features, or use model='rafm'."
        )
    return found


def _memory_bytes() -> float:
    """Return the bytes of this machine."""
    if not hasattr(os, "sysconf"):  # Windows
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _has_field_weights(features: PlannedFeatures, recipe: Options, start: Model | None) -> bool:
    """Return whether fields get weights; when training continues, the model keeps what it has."""
    if start is not None and recipe.field_weights == "auto":
        return start.plan.n_field_weights > 0
    n_fields = 0 if features.fields is None else features.fields.n_fields
    if recipe.field_weights == "on" and not n_fields:
        raise DataValueError(f"field weights need fields: {FIELDS_FROM}")
    return has_weights(n_fields, recipe)


def has_weights(n_fields: int, recipe: Options) -> bool:
    """Return whether fields get weights."""
    can_have = "field_weights" in recipe.family.options and (
        recipe.loss.is_classification or not recipe.optimizer.is_sampler
    )
    usual = can_have and 2 <= n_fields <= MOST_FIELDS
    return usual if recipe.field_weights == "auto" else recipe.field_weights == "on"
