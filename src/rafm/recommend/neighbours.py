"""Neighbours of a feature by name."""

from __future__ import annotations

from difflib import get_close_matches

import numpy as np

from ..errors import ConfigError
from ..explain.names import FeatureNames
from ..model.model import Model
from .similar import Neighbour, find_similar


def named_neighbours(
    model: Model, names: FeatureNames, name: str, top: int, level: int | None, measure: str, damping: float
) -> list[tuple[str, Neighbour]]:
    """Return the names of the features most like the named one, with their similarities; of its column or field."""
    ids = model.numbering.ids
    by_name = {names.of_id(id): number for number, id in enumerate(ids.tolist())}
    if name not in by_name:
        close = [one for one in by_name if one.endswith(f"={name}")][:3] or get_close_matches(name, by_name, 3)
        hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise ConfigError(f"no feature is named {name!r}{hint}", key="name")
    number, candidates = by_name[name], np.arange(ids.size)
    if names.encoder is not None:
        columns = names.columns_of(ids)
        candidates = candidates[columns == columns[number]]
    elif model.fields is not None:
        candidates = candidates[model.fields.numbers == model.fields.numbers[number]]
    found = find_similar(model, number, candidates, top, level, measure, damping)
    return [(names.of_id(int(ids[one.number])), one) for one in found]
