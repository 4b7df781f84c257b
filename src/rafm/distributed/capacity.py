"""What a cluster needs: memory, traffic and time per epoch, from counts of features and the speed of a machine.

Memory and traffic are arithmetic on records and buffers as they are; times are estimates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..options import Options
from ..plan.layout import RecordLayout
from ..plan.ranks import RankPlan, assign_levels
from ..rows.id_table import LOAD
from .spec import pull_lengths, push_lengths

GROUPS = 400  # of features with about equal counts, when these are given by a law
FEATURE_BYTES = 8 + 8 + 8 + 8 + 4 + 1 + 4 / LOAD * 1.5  # id, count, places in sums, scale, level, hash table
LOOKUP_BYTES = 8 + 4 + 1  # id there; number and level back
PLACE_BYTES = 4  # of a feature in a pull or push
WORKER_BYTES = 600e6  # of a worker: Python, Ray, its units and buffers
SHARD_BYTES = 300e6  # of a shard without features: Python, Ray, and the pushes of a step
STEP_SECONDS = 0.01  # barriers of a step


class Counts(NamedTuple):
    """Features by count: `features` of them occur `counts` times each."""

    rows: float
    counts: np.ndarray
    features: np.ndarray


@dataclass(frozen=True)
class Cluster:
    """Machines, cores of each, their network in Gbit/s, and rows per second and core."""

    machines: int
    cores: int
    network: float
    speed: float


def zipf_counts(rows: float, features: float, nonzeros: float, exponent: float) -> Counts:
    """Return counts of features whose frequencies fall by a power law; the first ones are in every row.

    >>> found = zipf_counts(1e6, 1e5, nonzeros=10, exponent=1.0)
    >>> round(found.features.sum()), round((found.counts * found.features).sum())
    (100000, 10000000)
    """
    edges = np.unique(np.concatenate([np.arange(1, 33), np.geomspace(32, features + 1, GROUPS)]))
    edges = edges[edges <= features + 1]
    sizes = np.diff(edges)
    shares = np.sqrt(edges[:-1] * np.maximum(edges[1:] - 1, edges[:-1])) ** -exponent
    low, high = 0.0, float(features) ** (exponent + 1)
    for _ in range(200):  # find the factor that gives a row its number of nonzeros
        middle = (low + high) / 2
        is_less = (np.minimum(middle * shares, 1.0) * sizes).sum() < nonzeros
        low, high = (middle, high) if is_less else (low, middle)
    return Counts(rows, rows * np.minimum(low * shares, 1.0), sizes)


def counts_of_data(path: str, label: str | None) -> Counts:
    """Count the features of data in this process."""
    from ..encode.spec import TableSpec
    from ..options import resolve
    from ..read.open import ReadOptions
    from .group import LocalGroup
    from .inputs import open_training
    from .planning import count_units

    spec = None if label is None else TableSpec.from_arguments((), label=label)
    source = open_training(path, ReadOptions("binary", spec=spec)).source
    group, options = LocalGroup(), resolve(task="binary", model="lr")
    group.start([source])
    found = count_units(group, range(len(source.units)))
    group.ask_shards("totals", lambda _: (len(source.units), "lr", (), options.rule))
    counts, features = np.unique(group.shards[0].counts, return_counts=True)
    return Counts(found.rows, counts.astype(float), features.astype(float))


def capacity(counts: Counts, options: Options, step_rows: int, slots: int, cluster: Cluster) -> dict[str, Any]:
    """Return memory, traffic and time per epoch for 1, 2, 4, ... machines."""
    plan, levels = _plan(counts, options)
    layout = RecordLayout(plan, True, options.optimizer.n_slots)
    tables = layout.tables()
    slot_rows = max(1, step_rows // slots)
    share = np.minimum(counts.counts / counts.rows, 1.0)
    present = counts.features * -np.expm1(slot_rows * np.log1p(-np.minimum(share, 1 - 1e-12)))
    pulled, pushed = (
        float((present * (4 * lengths(tables.widths)[levels] + PLACE_BYTES)).sum()) / slot_rows
        for lengths in (pull_lengths, push_lengths)
    )
    looked_up = float(present.sum()) * LOOKUP_BYTES / slot_rows
    held = held_bytes(counts, options)
    per_row, lines, machines = pulled + pushed + looked_up, [], 1
    while machines <= cluster.machines:
        lines.append(_line(machines, cluster, counts.rows, step_rows, slots, per_row, held))
        machines *= 2
    return {
        "rows": counts.rows,
        "features": float(counts.features.sum()),
        "parameters": plan.n_parameters,
        "slot_rows": slot_rows,
        "features_per_slot": float(present.sum()),
        "pulled": pulled,
        "pushed": pushed,
        "looked_up": looked_up,
        "machines": lines,
    }


def held_bytes(counts: Counts, options: Options) -> float:
    """Return the memory of all shards together: records, their average over epochs, the best ones, and the index."""
    plan, levels = _plan(counts, options)
    layout = RecordLayout(plan, True, options.optimizer.n_slots)
    records = float((counts.features * 4 * np.array(layout.strides)[levels]).sum())
    best = float((counts.features * 4 * pull_lengths(layout.tables().widths)[levels]).sum())
    return records * (2 if options.averaging else 1) + best + float(counts.features.sum()) * FEATURE_BYTES


def _plan(counts: Counts, options: Options) -> tuple[RankPlan, np.ndarray]:
    """Return the plan, and the level of the features of each count."""
    n_levels = len(options.ranks)
    levels = np.full(counts.counts.size, n_levels)
    if options.family.levels_by_count:
        levels = assign_levels(np.maximum(counts.counts, 1).astype(np.int64), options.ranks, options.rule)
    sizes = (*(round(counts.features[levels >= k].sum()) for k in range(n_levels + 1)), 0)
    return RankPlan(options.model, options.ranks, sizes), levels


def _line(
    machines: int, cluster: Cluster, rows: float, step_rows: int, slots: int, per_row: float, held: float
) -> dict[str, Any]:
    """Return what this many machines need. A slot is computed by one core, so more cores than slots are idle."""
    cores = min(machines * cluster.cores, slots)
    compute = rows / (cores * cluster.speed)
    remote = (machines - 1) / machines  # what is on the same machine does not use the network
    network = rows * per_row * remote / machines / (cluster.network * 1e9 / 8)
    steps = rows / step_rows * STEP_SECONDS
    seconds = max(compute, network) + steps
    bound = "network" if network > compute else "cores" if machines * cluster.cores <= slots else "slots"
    return {
        "machines": machines,
        "gigabytes": (held / machines + min(cluster.cores, slots) * WORKER_BYTES) / 1e9,
        "megabytes_per_second": rows * per_row * remote / machines / seconds / 1e6,
        "hours": seconds / 3600,
        "bound": bound,
    }
