"""What a shard writes to the folder of a model, and what it reads from there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..errors import DivergenceError
from ..model.folder import Part, load_part, save_part
from ..model.model import Model
from ..model.parameters import Parameters
from ..plan.fields import FeatureFields
from ..rows.fields import Fields
from ..rows.numbering import Numbering
from .hashing import BUCKETS, shard_of

PART_BYTES = 1 << 27  # of a part's parameters, at most: what is needed twice while a part is written or read
DIVERGED = "training diverged: some parameters are not finite. Lower learning_rate."
Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Target:
    """A folder, and the model in it without its features.

    numbers: the number of each of `fields` in the model, that of unknown ones last; None if it has none.
    """

    folder: str
    token: str
    common: Model
    label_scale: float
    fields: Fields | None = None
    numbers: np.ndarray | None = None


def buckets_of(shard: int, n_shards: int) -> tuple[int, int]:
    """Return the first bucket of a shard, and that of the next one.

    >>> buckets_of(0, 3), buckets_of(1, 3), buckets_of(2, 3)
    ((0, 342), (342, 683), (683, 1024))
    """
    first, stop = (-(-number * BUCKETS // n_shards) for number in (shard, shard + 1))
    return first, stop


def write_parts(target: Target, shard: int, n_shards: int, found: Arrays, sizes: tuple[int, ...]) -> list[Part]:
    """Write the features of a shard, whose numbers fall by level; return the parts."""
    buckets, models = buckets_of(shard, n_shards), part_models(target, found, sizes)
    named = (target.folder, target.token, shard)
    return [save_part(*named, number, model, buckets) for number, model in enumerate(models)]


def part_models(target: Target, found: Arrays, sizes: tuple[int, ...]) -> Iterator[Model]:
    """Yield models of a bounded number of features each."""
    plan, n = target.common.plan, found["ids"].size
    step = max(1, PART_BYTES // (4 * (1 + sum(plan.block_ranks))))
    for first in range(0, n, step):
        own = [slice(min(first, size), min(first + step, size)) for size in sizes]
        blocks = [found[f"factors.{k}"][own[k]] for k in range(1, plan.n_levels + 1)]
        ids, bias = found["ids"][own[0]], target.common.parameters.bias
        parameters = Parameters(bias, found["weights"][own[0]], blocks, fields=target.common.parameters.fields)
        with np.errstate(over="ignore", invalid="ignore"):
            parameters = replace(parameters.undo_scaling(target.label_scale, found["scales"][own[0]]), bias=bias)
        check_finite(parameters)
        part = replace(
            target.common,
            plan=replace(plan, sizes=tuple(one.stop - one.start for one in own)),
            numbering=Numbering(ids, target.common.numbering.n_inputs),
            counts=found["counts"][own[0]],
            parameters=parameters,
            fields=_fields_of(target, ids),
        )
        yield part.for_scoring()


def check_finite(parameters: Parameters) -> None:
    """Refuse parameters of a training that diverged."""
    if not all(np.isfinite(array).all() for array in parameters.arrays().values()):
        raise DivergenceError(DIVERGED)


def _fields_of(target: Target, ids: np.ndarray) -> FeatureFields | None:
    if target.common.fields is None or target.numbers is None:
        return None
    raw = np.full(ids.size, -1) if target.fields is None else target.fields.of(ids)
    return FeatureFields(target.common.fields.names, target.numbers[raw].astype(np.int32))


def read_parts(folder: str, parts: tuple[Part, ...], shard: int, n_shards: int) -> list[Arrays]:
    """Return the features of a shard; parts that hold none of them are not read."""
    first, stop = buckets_of(shard, n_shards)
    wanted = (part for part in parts if part.buckets[0] < stop and part.buckets[1] > first)
    return [_own(load_part(folder, part).model, shard, n_shards) for part in wanted]


def _own(model: Model, shard: int, n_shards: int) -> Arrays:
    ids, levels = model.numbering.ids, model.plan.levels().astype(np.int8)
    own = shard_of(ids, n_shards) == shard
    arrays = {"ids": ids, "counts": model.counts, "levels": levels, "weights": model.parameters.weights}
    if model.fields is not None:
        arrays["fields"] = model.fields.numbers
    kept = {name: array[own] for name, array in arrays.items()}
    for k, block in enumerate(model.parameters.factors, start=1):
        kept[f"factors.{k}"] = block[own[: len(block)]]
    return kept
