"""Fit a scale and an offset of scores to validation rows, and put them into the parameters of the model.

A score scale * score + offset needs no change of the model file: bias and weights are multiplied by the scale, and
every vector by its root, because a pair has two of them. See decision 0027.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import ConfigError
from ..model.model import Model
from ..rows.source import RowSource
from .events import Calibrated, Event, Finished
from .recipe import Recipe
from .steps.loader import labelled_blocks

LEAST_GAIN = 14.0  # of twice the log likelihood: two numbers without effect gain more once in a thousand times
MOST_ROWS = 1 << 22  # validation rows to fit to
LEAST_SCALE, MOST_SCALE = 0.25, 4.0  # a scale beyond is no correction of a good model
STEPS, HALVINGS, ENOUGH = 50, 30, 1e-9
KEY = "calibration"  # of the model's options: scale and offset


@dataclass(frozen=True)
class Fit:
    """Scale and offset of the lowest log loss, and the mean log loss before and after."""

    scale: float
    offset: float
    before: float
    after: float


def with_calibration(events: Iterable[Event], valid: RowSource | None, recipe: Recipe) -> Iterator[Event]:
    """Pass events through; calibrate the model of the last one to the validation rows, if requested and if it helps."""
    for event in events:
        if isinstance(event, Finished) and valid is not None and is_wanted(recipe):
            scores, labels, weights = _scored(event.model, valid, recipe)
            found = fit(scores, labels, weights, 0.0 if recipe.calibrate == "on" else LEAST_GAIN)
            if found is not None:
                yield Calibrated(found.scale, found.offset, labels.size, found.before, found.after)
                event = replace(event, model=calibrated(event.model, found.scale, found.offset))
        yield event


def is_wanted(recipe: Recipe) -> bool:
    """Return whether models are calibrated; `on` where that is impossible is an error."""
    is_tied = recipe.keep_state and recipe.optimizer.has_l1  # its state gives the parameters
    if recipe.calibrate == "on" and is_tied:
        raise ConfigError("calibrate='on' cannot keep the optimiser state of 'ftrl', which would undo it", "calibrate")
    can_be = recipe.loss.is_classification and not recipe.optimizer.is_sampler and recipe.negative_rate == 1
    can_be &= recipe.family.is_homogeneous
    return recipe.calibrate != "off" and can_be and not is_tied


def calibrated(model: Model, scale: float, offset: float) -> Model:
    """Return the model with scores scale * score + offset; its options store the two numbers."""
    recipe = {**model.options, KEY: [scale, offset]}
    return replace(model, parameters=model.parameters.rescaled(scale, offset), options=recipe)


def _scored(model: Model, valid: RowSource, recipe: Recipe) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return scores, labels and weights of validation rows, at most MOST_ROWS and some."""
    parts: list[tuple[Any, ...]] = []
    rows = 0
    for block in labelled_blocks(valid, recipe.family):
        weights = np.ones(block.n_rows, np.float32) if block.weights is None else block.weights
        parts.append((model.scores(block, threads=recipe.threads), block.labels, weights))
        rows += block.n_rows
        if rows >= MOST_ROWS:
            break
    scores, labels, weights = (np.concatenate(part).astype(float) for part in zip(*parts))
    return scores, labels, weights


def fit(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray, least_gain: float = 0.0) -> Fit | None:
    """Return scale and offset of the lowest log loss; None if it gains no more than that, or nothing sensible does.

    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(0, 2, 20_000)
    >>> labels = (rng.logistic(size=20_000) < 0.5 * scores + 1).astype(float)
    >>> found = fit(scores, labels, np.ones(20_000))
    >>> round(found.scale, 1), round(found.offset, 1)
    (0.5, 1.0)
    """
    known = weights > 0
    scores, labels, weights = scores[known], labels[known], weights[known]
    if not labels.size or np.ptp(scores) == 0 or np.ptp(labels) == 0:
        return None
    weights = weights / weights.mean()  # so that the gain counts rows
    found = _newton(np.stack([scores, np.ones_like(scores)]), labels, weights)
    before, after = (_loss(scale * scores + offset, labels, weights) for scale, offset in ((1.0, 0.0), found))
    is_good = np.isfinite(found).all() and LEAST_SCALE <= found[0] <= MOST_SCALE
    if not is_good or not 2 * (before - after) > least_gain:
        return None
    return Fit(float(found[0]), float(found[1]), before / labels.size, after / labels.size)


def _loss(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    return float(weights @ (np.logaddexp(0, scores) - labels * scores))


def _newton(inputs: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return scale and offset by Newton's method, whose steps are halved until the loss falls."""
    found, lowest = np.array([1.0, 0.0]), _loss(inputs[0], labels, weights)
    for _ in range(STEPS):
        chances = 0.5 * (1 + np.tanh(0.5 * (found @ inputs)))  # the sigmoid, without overflow
        slope = inputs @ (weights * (chances - labels))
        curvature = (inputs * (weights * chances * (1 - chances))) @ inputs.T
        step = np.linalg.lstsq(curvature, slope, rcond=None)[0]
        for _ in range(HALVINGS):
            loss = _loss((found - step) @ inputs, labels, weights)
            if loss <= lowest:
                break
            step = step / 2
        gained, found, lowest = lowest - loss, found - step, loss
        if not gained > ENOUGH * max(lowest, 1.0):
            break
    return found
