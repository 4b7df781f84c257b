"""Memory that Ray reserves for each process, so that it does not put too many on one machine.

Shards need what capacity.py computes from the counts of features. These are known only after shards have counted them,
so they are estimated from some of the rows: a feature is as frequent in all rows as in these. How many features these
rows lack cannot be known: it is at most what it would be if their number went on growing with the rows as it did from
half of these to all, and about as many as Chao's estimator says, from how many occur once and twice, or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import ClusterError
from ..options import Options
from ..rows.id_table import IdTable
from .capacity import SHARD_BYTES, WORKER_BYTES, Counts, held_bytes
from .config import ScalingConfig
from .sources import Reader, Source

SAMPLE_UNITS = 16
MARGIN = 1.2  # hash tables grow by doubling, and buckets are not quite even
RARE = 1.2  # features for each that Chao's estimator expects, which is a lower bound


def with_reservations(
    scaling: ScalingConfig, source: Source, units: Sequence[int], options: Options, n_inputs: int | None
) -> ScalingConfig:
    """Return the scaling with the memory that shards and workers will need, where none was given."""
    if not scaling.num_workers or None not in (scaling.memory_per_worker, scaling.memory_per_shard):
        return scaling
    worker, shard = scaling.memory_per_worker, scaling.memory_per_shard
    if shard is None:
        held = held_bytes(sampled_counts(source, units, n_inputs), options)
        shard = int(SHARD_BYTES + MARGIN * held / scaling.n_shards)
    return replace(scaling, memory_per_worker=int(WORKER_BYTES) if worker is None else worker, memory_per_shard=shard)


def sampled_counts(source: Source, units: Sequence[int], n_inputs: int | None = None) -> Counts:
    """Return estimated counts of the features of some units, from a few of them."""
    places = np.unique(np.linspace(0, len(units) - 1, min(SAMPLE_UNITS, len(units))).astype(int))
    reader, total = Reader(source), sum(source.units[unit].rows for unit in units)
    table, own, n_rows, n_half = IdTable(), np.zeros(0, np.int64), 0, 1
    for turn, place in enumerate(places):
        n_half = max(table.size, 1) if turn == places.size // 2 else n_half
        rows = reader.rows(units[place], targets=False)
        numbers, n_rows = table.add(rows.indices), n_rows + rows.n_rows
        own = np.bincount(numbers, minlength=table.size) + np.pad(own, (0, table.size - own.size))
    times = total / n_rows
    growth = float(np.clip(np.log2(max(table.size, 1) / n_half), 0.0, 1.0))
    expected = min(table.size * times**growth, RARE * expected_features(own, times), n_inputs or np.inf)
    counts, features = np.unique(own, return_counts=True)
    unseen = max(expected - table.size, 0.0)  # they are rarer than one occurrence in the sample
    return Counts(total, np.append(counts * times, times), np.append(features, unseen).astype(float))


def expected_features(counts: np.ndarray, times: float) -> float:
    """Return how many features `times` the occurrences would have, by Chao's estimator.

    See Chao et al., Ecological Monographs 84 (2014) 45-67, on extrapolating richness.

    >>> draw = np.random.default_rng(0)
    >>> counts = np.unique(draw.integers(0, 100_000, 20_000), return_counts=True)[1]
    >>> round(expected_features(counts, 1.0) - counts.size), round(expected_features(counts, 20.0) / 98_000, 1)
    (0, 1.0)
    """
    n, once, twice = int(counts.sum()), int((counts == 1).sum()), int((counts == 2).sum())
    if not once:
        return float(counts.size)
    lacking = once**2 / (2 * twice) if twice else once * (once - 1) / 2
    share = once / (n * lacking + once)
    return float(counts.size - lacking * np.expm1(n * (times - 1) * np.log1p(-min(share, 1 - 1e-12))))


def check_room(scaling: ScalingConfig, free: float, where: str) -> None:
    """Refuse what Ray could never place on the machine, with a line instead of a wait."""
    worker, shard = scaling.memory_per_worker or 0, scaling.memory_per_shard or 0
    needed = scaling.num_workers * worker + scaling.n_shards * shard
    if needed > free:
        many = [
            f"{n} {name}{'s' * (n > 1)}" for n, name in ((scaling.n_shards, "shard"), (scaling.num_workers, "worker"))
        ]
        raise ClusterError(
            f"{many[0]} of {shard / 1e9:.1f} GB and {many[1]} of {worker / 1e9:.1f} GB need {needed / 1e9:.1f} GB, but "
            f"Ray has {free / 1e9:.1f} GB on {where}. Use lower ranks or a cluster, or state how much to reserve: "
            "--shard-memory MB, --worker-memory MB."
        )
