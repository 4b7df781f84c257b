"""Nearest neighbours of a feature: by the angle between vectors, or by what the model computes with them."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from ..aliases import did_you_mean
from ..errors import ConfigError
from ..explain.names import FeatureNames
from ..model.model import Model

MEASURES = ("balanced", "behaviour", "cosine")
LEAST_SHARE = 1e-9  # spread along an axis, relative to the largest, that is not taken for rounding
DAMPING = 20.0  # a feature seen this often is trusted half


@dataclass(frozen=True)
class Neighbour:
    """A feature like another one.

    Parameters
    ----------
    number : int
        Number of the feature.
    similarity : float
        Similarity times count / (count + damping), where count is that of the rarer feature.
    count : int
        Number of training rows with the feature.
    """

    number: int
    similarity: float
    count: int


def named_neighbours(
    model: Model, names: FeatureNames, name: str, top: int, level: int | None, measure: str, damping: float
) -> list[tuple[str, Neighbour]]:
    """Return the names of the features most like the named one, with their similarities; of its column or field."""
    ids = model.numbering.ids
    by_name = {names.of_id(id): number for number, id in enumerate(ids.tolist())}
    if name not in by_name:
        close = [one for one in by_name if one.endswith(f"={name}")][:3] or get_close_matches(name, by_name, 3)
        hint = did_you_mean(" or ".join(map(repr, close)))
        raise ConfigError(f"no feature is named {name!r}{hint}", key="name")
    number, candidates = by_name[name], np.arange(ids.size)
    if names.encoder is not None:
        columns = names.columns_of(ids)
        candidates = candidates[columns == columns[number]]
    elif model.fields is not None:
        candidates = candidates[model.fields.numbers == model.fields.numbers[number]]
    found = find_similar(model, number, candidates, top, level, measure, damping)
    return [(names.of_id(int(ids[one.number])), one) for one in found]


def find_similar(
    model: Model,
    number: int,
    candidates: np.ndarray | None = None,
    top: int = 10,
    level: int | None = None,
    measure: str = MEASURES[0],
    damping: float = DAMPING,
) -> list[Neighbour]:
    """Return the features most like one feature, most similar first.

    "cosine" is the angle between their vectors. "balanced" is that angle after the spread of the candidates' vectors
    along each of their principal axes is replaced by its root, so that two or three long axes, on which all popular
    features agree, do not decide alone. "behaviour" compares the pair terms that they would add in all
    contexts: with C = sum of n_k v_k v_k' over all features, it is v_i'C v_j over the roots of v_i'C v_i and v_j'C v_j.

    Parameters
    ----------
    candidates : array of int, optional
        Feature numbers to choose from (default: all).
    level : int, optional
        Level whose vectors are compared (default: the feature's own); candidates of lower levels are left out.
    damping : float
        Count at which a similarity is halved: a feature seen twice is no twin of one seen a thousand times.
    """
    model.plan.traits.check("compare features")
    vectors = vectors_at(model, number, level)
    candidates = np.arange(len(vectors)) if candidates is None else candidates[candidates < len(vectors)]
    if measure not in MEASURES:
        raise ConfigError(f"measure must be {' or '.join(map(repr, MEASURES))}, found {measure!r}", key="measure")
    if measure != "cosine":
        own = candidates if measure == "balanced" else np.arange(len(vectors))
        metric = (vectors[own] * model.counts[own, None]).T @ vectors[own]
        values, axes = np.linalg.eigh(metric)
        values = values.clip(min=LEAST_SHARE * values.max(initial=0))
        with np.errstate(divide="ignore"):
            scales = np.sqrt(values) if measure == "behaviour" else np.where(values > 0, values**-0.25, 0)
        vectors = vectors @ (axes * scales)
    lengths = np.linalg.norm(vectors, axis=1)
    products = vectors[candidates] @ vectors[number]
    with np.errstate(invalid="ignore", divide="ignore"):
        angles = np.nan_to_num(products / (lengths[candidates] * lengths[number]))
    rarer = np.minimum(model.counts[candidates], model.counts[number])
    similarity = np.where(candidates == number, -np.inf, angles * rarer / (rarer + damping))
    order = np.lexsort((candidates, -similarity))[:top]
    found = zip(candidates[order].tolist(), similarity[order].tolist(), model.counts[candidates[order]].tolist())
    return [Neighbour(*one) for one in found if one[0] != number]


def vectors_at(model: Model, number: int, level: int | None) -> np.ndarray:
    """Return the vectors of the features that reach a level, by default the level of the given feature."""
    own = int(model.plan.levels()[number])
    level = own if level is None else level
    if not 1 <= level <= own:
        raise ConfigError(f"the feature has vectors of levels 1 to {own}, found level {level}", key="level")
    size, factors = model.plan.sizes[level], model.parameters.factors
    blocks = factors[:level] if model.plan.traits.is_prefix else factors[level - 1 : level]
    return np.hstack([block[:size] for block in blocks]).astype(float)
