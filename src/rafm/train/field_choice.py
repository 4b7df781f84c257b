"""Decide whether the fields of a run get weights."""

from __future__ import annotations

from ..errors import DataValueError
from ..model.model import Model
from ..options import TrainingOptions
from ..plan.features import PlannedFeatures, weigh_fields

MOST_FIELDS = 4096  # each mini-batch steps the weights of all fields, which must not take longer than its rows


def with_field_weights(
    features: PlannedFeatures, options: TrainingOptions, start: Model | None = None
) -> PlannedFeatures:
    """Return the features with a plan that has a weight per field, or none."""
    return weigh_fields(features, _has_field_weights(features, options, start))


def _has_field_weights(features: PlannedFeatures, options: TrainingOptions, start: Model | None) -> bool:
    """Return whether fields get weights; a model that goes on keeps to what it has."""
    if start is not None and options.field_weights == "auto":
        return start.plan.n_field_weights > 0
    n_fields = 0 if features.fields is None else features.fields.n_fields
    if options.field_weights == "on" and not n_fields:
        raise DataValueError(
            "field weights need fields: those of a table or of libffm rows, --fields FILE for rows of ids, or fields= "
            "for matrices"
        )
    return has_weights(n_fields, options)


def has_weights(n_fields: int, options: TrainingOptions) -> bool:
    """Return whether so many fields get weights."""
    can_have = options.family.uses_fields and not options.optimizer.is_sampler
    usual = can_have and 2 <= n_fields <= MOST_FIELDS
    return usual if options.field_weights == "auto" else options.field_weights == "on"
