"""Count rows and features on many workers, and plan the model from the totals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import ConfigError, DataValueError
from ..options import Options
from ..plan.features import common_scale
from ..plan.fields import OTHER
from ..plan.ranks import RankPlan
from ..plan.steps import LEAST_DAMPING, STEPS_PER_EPOCH
from ..rows.fields import Fields
from ..rows.stats import RowStats
from ..train.policy import adapted
from ..train.recipe import Recipe
from ..train.steps.field_choice import FIELDS_FROM, has_weights
from ..train.steps.run import choose_label_scale
from .group import Group
from .lanes import SlotPlan
from .shard import Totals
from .spec import ModelSpec

SLOTS, SLOT_ROWS = 8, 1 << 12  # of a step of the largest size; see decision 0030
NO_IDS = np.zeros(0, np.int64)


def plan_slots(options: Options, n_rows: int, slots: int) -> SlotPlan:
    """Return the slots of a step: step_rows in all, by default at most a fiftieth of the rows.

    >>> from rafm.options import resolve
    >>> plan_slots(resolve(task="binary"), 100_000, slots=8)
    SlotPlan(slot_rows=128, slots=8, seed=0)
    """
    most = max(n_rows // STEPS_PER_EPOCH, slots)
    usual = min(SLOTS * SLOT_ROWS, 1 << (most.bit_length() - 1))
    rows = usual if options.step_rows == "auto" else int(options.step_rows)
    if rows * STEPS_PER_EPOCH > max(n_rows, usual * STEPS_PER_EPOCH):
        raise ConfigError(
            f"step_rows={rows} leaves fewer than {STEPS_PER_EPOCH} steps per epoch for {n_rows} rows; use at most "
            f"{n_rows // STEPS_PER_EPOCH}",
            key="step_rows",
        )
    return SlotPlan(max(1, rows // slots), slots, options.seed)


def count_units(group: Group, chosen: Sequence[int]) -> RowStats:
    """Let the workers count the chosen units of the training rows; return the totals, without the features."""
    parts: list[RowStats] = []
    for first in range(0, len(chosen), group.n_workers):
        some = chosen[first : first + group.n_workers]
        parts += group.ask_workers([(k, "count", (first + k, unit)) for k, unit in enumerate(some)])
    return merge(parts)


def merge(parts: Sequence[RowStats]) -> RowStats:
    """Return the statistics of all rows, from those of parts in their order; as rows/stats.py does."""
    weight, mean, deviation, low, high = 0.0, 0.0, 0.0, np.inf, -np.inf
    for one in parts:
        if one.weight > 0:
            shift, weight = one.label_mean - mean, weight + one.weight
            deviation += one.label_spread**2 * one.weight + shift**2 * one.weight * (weight - one.weight) / weight
            mean += shift * one.weight / weight
            low, high = min(low, one.label_range[0]), max(high, one.label_range[1])
    return RowStats(
        rows=sum(one.rows for one in parts),
        nonzeros=sum(one.nonzeros for one in parts),
        longest=max(one.longest for one in parts),
        ids=NO_IDS,
        counts=np.array([sum(int(one.counts.sum()) for one in parts)]),
        squares=NO_IDS,
        weight=weight,
        label_mean=mean,
        label_spread=float(np.sqrt(deviation / weight)) if weight else 0.0,
        label_range=(low, high) if weight else (0.0, 0.0),
        n_weighted=sum(one.n_weighted for one in parts),
    )


def plan_model(
    group: Group, found: RowStats, options: Options, n_units: int, fields: Fields | None, slot_rows: int
) -> tuple[ModelSpec, RankPlan, int]:
    """Let the shards assign levels; return the model in training, its plan, and the largest id."""
    wanted = fields if has_weights(2, options) else None
    totals: list[Totals] = group.ask_shards(
        "totals", lambda _: (n_units, options.model, options.ranks, options.rule, wanted)
    )
    # Bucket by bucket: the sums must not depend on how many shards there are.
    squares = float(np.sum([one.squares for one in totals], axis=0).sum())
    values = int(np.sum([one.values for one in totals], axis=0).sum())
    names, numbers = _used_fields(wanted, totals)
    if options.field_weights == "on" and not names:
        raise DataValueError(f"field weights need fields: {FIELDS_FROM}")
    if not has_weights(len(names), options):
        names, numbers = (), None
    sizes = tuple(sum(one.sizes[k] for one in totals) for k in range(len(totals[0].sizes)))
    spec = ModelSpec(
        options=adapted(Recipe.of(options), found, sizes[0]),
        life=1,
        common_scale=common_scale(squares, values),
        label_scale=choose_label_scale(found.label_spread, options.loss),
        weight_scale=found.weight_scale,
        damping=max(LEAST_DAMPING, float(found.counts.sum() / max(found.rows, 1))),
        longest=max(found.longest, 1),
        slot_rows=slot_rows,
        has_scales=any(one.has_large for one in totals),
        field_names=names,
        field_numbers=numbers,
    )
    return spec, spec.plan(sizes, with_fields=True), max(one.largest_id for one in totals)


def _used_fields(fields: Fields | None, totals: Sequence[Totals]) -> tuple[tuple[str, ...], np.ndarray | None]:
    """Return the names of the fields that occur, and the number of each field; that of unknown ones is the last."""
    if fields is None:
        return (), None
    names = [*fields.names, OTHER]
    used = np.unique(np.concatenate([one.fields for one in totals]) % len(names))  # -1 becomes the last
    numbers = np.full(len(names), -1, np.int64)
    numbers[used] = np.arange(used.size)
    return tuple(names[k] for k in used), numbers
