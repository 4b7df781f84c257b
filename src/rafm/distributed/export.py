"""Collect the features of all shards into one model, or let the shards write them to a folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..encode.encoder import TableEncoder
from ..model.file import Saved
from ..model.folder import Manifest, begin_folder, finish_folder
from ..model.model import Model
from ..model.parameters import Parameters
from ..plan.fields import OTHER, FeatureFields, plan_fields
from ..plan.ranks import RankPlan
from ..rows.fields import Fields
from ..rows.numbering import Numbering
from .group import Group
from .parts import Target, check_finite
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
    common = common_model(spec, plan, state, n_rows, n_inputs)
    bias, field_weights = common.parameters.bias, common.parameters.fields
    found = Parameters(bias, weights[order], factors, fields=field_weights)
    with np.errstate(over="ignore", invalid="ignore"):
        found = replace(found.undo_scaling(spec.label_scale, scales[order]), bias=bias)
    check_finite(found)
    model = replace(
        common,
        plan=plan,
        numbering=Numbering(ids[order], n_inputs),
        counts=counts[order],
        parameters=found,
        fields=_fields_of(spec, fields, ids[order]),
    )
    return model.for_scoring()


def common_model(spec: ModelSpec, plan: RankPlan, state: State, n_rows: int, n_inputs: int) -> Model:
    """Return the model without its features: bias, field weights, options and history."""
    common, none = state.best or state.evaluated, np.zeros(0, np.int64)
    blocks = [np.zeros((0, rank), np.float32) for rank in plan.block_ranks]
    found = Parameters(common.bias[:1].copy(), none.astype(np.float32), blocks, fields=_field_weights(common.fields))
    with np.errstate(over="ignore", invalid="ignore"):
        found = found.undo_scaling(spec.label_scale, np.ones(0, np.float32))
    found = replace(found, bias=found.bias + np.float32(spec.options.score_shift))
    options = spec.options.summary() | ({} if spec.weight_scale == 1 else {"weight_scale": spec.weight_scale})
    return Model(
        plan=replace(plan, sizes=(0,) * len(plan.sizes)),
        numbering=Numbering(none, n_inputs),
        counts=none,
        loss=spec.options.loss,
        parameters=found,
        n_rows=n_rows,
        history=state.at.history,
        best_epoch=state.at.best_epoch,
        options=options,
    )


@dataclass
class FolderExport:
    """Lets the shards write the model to a folder; see model/folder.py.

    encoder, classes, index_base: as in a model file. written: the files, once they are.
    """

    folder: str
    encoder: TableEncoder | None = None
    classes: list[Any] | None = None
    index_base: int = 0
    written: Manifest | None = None

    def __call__(
        self,
        group: Group,
        spec: ModelSpec,
        plan: RankPlan,
        state: State,
        n_rows: int,
        n_inputs: int,
        fields: Fields | None = None,
    ) -> Model:
        """Write the folder; return the model without its features. See `gather_model`."""
        common = common_model(spec, plan, state, n_rows, n_inputs)
        check_finite(common.parameters)
        names, numbers = spec.field_names, spec.field_numbers
        if not names and fields is not None:
            used = group.ask_shards("fields_used", lambda _: (spec.life, fields))
            names, numbers = _number_fields(fields, np.concatenate(used))
        if names:
            common = replace(common, fields=FeatureFields(names, np.zeros(0, np.int32)))
        target = Target(self.folder, begin_folder(self.folder), common, spec.label_scale, fields, numbers)
        parts = group.ask_shards("export", lambda _: (spec.life, state.best is not None, target))
        saved = Saved(common, self.encoder, self.index_base, self.classes)
        self.written = finish_folder(self.folder, target.token, saved, [part for own in parts for part in own])
        return common


def _number_fields(fields: Fields, used: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the fields that occur, and the number of each field, that of unknown ones last; as plan_fields does."""
    known = [*fields.names] if OTHER in fields.names else [*fields.names, OTHER]
    places = np.array([*range(len(fields.names)), known.index(OTHER)])  # the last one for ids without a field
    found = np.unique(places[used])
    numbers = np.full(len(known), -1, np.int64)
    numbers[found] = np.arange(found.size)
    return tuple(known[k] for k in found), numbers[places]


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
