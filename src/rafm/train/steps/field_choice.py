"""Decide what the fields of a run get: a weight each, a vector of every feature for each, or nothing."""

from __future__ import annotations

import os

from ...errors import DataValueError, ResourceLimitError
from ...model.model import Model
from ...options import TrainingOptions
from ...plan.features import PlannedFeatures, per_field, weigh_fields
from ...plan.field_vectors import FieldVectorLayout

MOST_FIELDS = 4096  # each mini-batch steps the weights of all fields, which must not take longer than its rows
MOST_VECTOR_FIELDS = 1024  # of a field-aware model, whose rows have sums for each pair of their fields
FIELDS_FROM = "those of a table or of libffm rows, --fields FILE for rows of ids, or fields= for matrices"


def with_field_parameters(
    features: PlannedFeatures, options: TrainingOptions, start: Model | None = None
) -> PlannedFeatures:
    """Return the features with a plan that has a weight per field, a vector per field, or neither."""
    if options.family.has_field_vectors:
        return _with_field_vectors(features, options)
    return weigh_fields(features, _has_field_weights(features, options, start))


def _with_field_vectors(features: PlannedFeatures, options: TrainingOptions) -> PlannedFeatures:
    """Return the features with a vector per field; refuse data without fields, and models that do not fit."""
    if features.fields is None:
        raise DataValueError(f"model {options.model!r} needs fields: {FIELDS_FROM}")
    n_fields = features.fields.n_fields
    if n_fields > MOST_VECTOR_FIELDS:
        raise ResourceLimitError(
            f"model {options.model!r} takes up to {MOST_VECTOR_FIELDS} fields, found {n_fields}: every feature has a "
            "vector for each field. Merge fields, or use model='rafm'."
        )
    found = per_field(features)
    layout = FieldVectorLayout.of(found.plan, True, options.optimizer.n_slots)
    needed, room = 4 * layout.place_levels(layout.members)[1], _memory_bytes(options)
    if needed > room:
        raise ResourceLimitError(
            f"model {options.model!r} of rank {options.ranks[0]} would have {found.plan.n_features} features x "
            f"{n_fields} fields x {options.ranks[0]} factors = {found.plan.n_parameters} parameters, which take "
            f"{needed / 1e6:,.0f} MB in training, more than {room / 1e6:,.0f} MB. Use a lower rank or fewer fields, "
            "drop infrequent features, or use model='rafm'."
        )
    return found


def _memory_bytes(options: TrainingOptions) -> float:
    """Return the bytes that parameters in training may take: what was given, else all of this machine's."""
    if options.memory is not None:
        return 1e6 * options.memory
    if not hasattr(os, "sysconf"):  # Windows
        return float("inf")
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _has_field_weights(features: PlannedFeatures, options: TrainingOptions, start: Model | None) -> bool:
    """Return whether fields get weights; when training continues, the model keeps what it has."""
    if start is not None and options.field_weights == "auto":
        return start.plan.n_field_weights > 0
    n_fields = 0 if features.fields is None else features.fields.n_fields
    if options.field_weights == "on" and not n_fields:
        raise DataValueError(f"field weights need fields: {FIELDS_FROM}")
    return has_weights(n_fields, options)


def has_weights(n_fields: int, options: TrainingOptions) -> bool:
    """Return whether fields get weights."""
    can_have = options.family.uses_fields and (options.loss.is_classification or not options.optimizer.is_sampler)
    usual = can_have and 2 <= n_fields <= MOST_FIELDS
    return usual if options.field_weights == "auto" else options.field_weights == "on"
