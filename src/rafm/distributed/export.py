"""Collect the features of all shards into one model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import DivergenceError
from ..model.model import Model
from ..model.parameters import Parameters
from ..plan.fields import FeatureFields, plan_fields
from ..plan.ranks import RankPlan
from ..rows.fields import Fields
from ..rows.numbering import Numbering
from .group import Group
from .spec import ModelSpec
from .state import State


def gather_model(
    group: Group,
    spec: ModelSpec,
    plan: RankPlan,
    state: State,
    n_rows: int,
    n_inputs: int,
    fields: Fields | None = None,
) -> Model:
    """Return the model of the best epoch or, without validation rows, of the last one; without optimiser state."""
    parts = group.ask_shards("parameters", lambda _: (spec.life, state.best is not None))
    levels = np.concatenate([_levels(part["ids"].size, part, plan.n_levels) for part in parts])
    ids, counts, scales, weights = (
        np.concatenate([part[name] for part in parts]) for name in ("ids", "counts", "scales", "weights")
    )
    order = np.lexsort((ids, -counts, -levels))
    factors = []
    for k in range(1, plan.n_levels + 1):
        block = np.concatenate([part[f"factors.{k}"] for part in parts])
        places = np.cumsum(levels >= k) - 1  # of each feature among those that have the block
        factors.append(block[places[order[: plan.sizes[k]]]])
    common = state.best or state.judged
    found = Parameters(common.bias[:1].copy(), weights[order], factors, fields=_field_weights(common.fields))
    with np.errstate(over="ignore", invalid="ignore"):
        found = found.undo_scaling(spec.label_scale, scales[order])
    found = replace(found, bias=found.bias + np.float32(spec.options.score_shift))
    if not all(np.isfinite(array).all() for array in found.arrays().values()):
        raise DivergenceError("training diverged: some parameters are not finite. Lower learning_rate.")
    options = spec.options.summary() | ({} if spec.weight_scale == 1 else {"weight_scale": spec.weight_scale})
    model = Model(
        plan=plan,
        numbering=Numbering(ids[order], n_inputs),
        counts=counts[order],
        loss=spec.options.loss,
        parameters=found,
        n_rows=n_rows,
        history=state.at.history,
        best_epoch=state.at.best_epoch,
        options=options,
        fields=_fields_of(spec, fields, ids[order]),
    )
    return model.for_scoring()


def _levels(size: int, part: dict[str, np.ndarray], n_levels: int) -> np.ndarray:
    """Return the levels of a shard's features, which are ordered by falling level."""
    levels = np.zeros(size, np.int64)
    for k in range(1, n_levels + 1):
        levels[: len(part[f"factors.{k}"])] = k
    return levels


def _field_weights(fields: np.ndarray | None) -> np.ndarray | None:
    return None if fields is None else fields[0].copy()


def _fields_of(spec: ModelSpec, fields: Fields | None, ids: np.ndarray) -> FeatureFields | None:
    """Return the fields of the features, if they are known."""
    if not spec.field_names or spec.field_numbers is None:
        return plan_fields(fields, ids)
    raw = np.full(ids.size, -1) if fields is None else fields.of(ids)
    return FeatureFields(spec.field_names, spec.field_numbers[raw].astype(np.int32))
