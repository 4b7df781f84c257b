"""A shard: the features of some buckets, with their counts, records and optimiser state."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..files.container import read_container, write_container
from ..kernels.slots import draw_vectors, get_parameters, join_sums, step_features
from ..model.folder import Part
from ..optimizers.optimizer import Optimizer
from ..plan.features import LARGE_VALUE, root_mean_squares, scales_of
from ..plan.layout import RecordLayout
from ..plan.ranks import plan_ranks
from ..rows.checked import read_only
from ..rows.fields import Fields
from ..rows.id_table import IdTable
from ..train.steps.average import move_half_way
from .hashing import BUCKETS, bucket_of, shard_of
from .parts import Target, read_parts, write_parts
from .spec import Hook, ModelSpec, ShardLost, no_hook, pull_lengths, push_lengths

KIND = "shard"
CURRENT, AVERAGE = "current", "average"
Arrays = dict[str, np.ndarray]


class Totals(NamedTuple):
    """What the driver needs to know of a shard's features.

    sizes: features of level k or higher. squares, values: per bucket, sum of squared values and number of values of
    features without large ones. has_large: whether some have. largest_id: of its features, or -1. fields: the fields
    that occur.
    """

    sizes: tuple[int, ...]
    squares: np.ndarray
    values: np.ndarray
    has_large: bool
    largest_id: int
    fields: np.ndarray


class Lookup(NamedTuple):
    """Where features are: number within the shard (-1: unknown), level, and scale of values (None: the common one).

    counts, fields: of a saved model, whose features a row sums in the order of level, count and id.
    """

    numbers: np.ndarray
    levels: np.ndarray
    scales: np.ndarray | None
    counts: np.ndarray | None = None
    fields: np.ndarray | None = None


class Shard:
    """The features whose buckets are those of shard `number` out of `n_shards`.

    It counts, then is built (or loaded), then answers pulls and takes pushes. Pushes are kept by step and slot, so a
    push that is repeated changes nothing, and joined in the order of the slots when the step is complete.
    """

    def __init__(self, number: int = 0, n_shards: int = 1, hook: Hook = no_hook):
        self.number, self.n_shards, self.hook = number, n_shards, hook
        self.seen, self.counts, self.squares = IdTable(), np.zeros(0, np.int64), np.zeros(0)
        self.early: dict[int, tuple[np.ndarray, ...]] = {}  # counts of units whose turn has not come
        self.next_unit, self.spec = 0, None  # type: int, ModelSpec | None
        self.pushes: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
        self.step, self.average, self.best = 0, None, {}  # type: int, np.ndarray | None, Arrays

    # ---- Counting

    def count(self, unit: int, ids: np.ndarray, counts: np.ndarray, squares: np.ndarray) -> None:
        """Add the counts of a unit; a repeated call changes nothing.

        Units are added in their order: sums of squares depend on it.
        """
        if unit >= self.next_unit:
            self.early[unit] = (ids, counts, squares)
        while self.next_unit in self.early:
            self._add(*self.early.pop(self.next_unit))
            self.next_unit += 1

    def _add(self, ids: np.ndarray, counts: np.ndarray, squares: np.ndarray) -> None:
        places = self.seen.add(ids)
        if self.seen.size > self.counts.size:
            more = max(self.seen.size, 2 * self.counts.size) - self.counts.size
            self.counts = np.concatenate([self.counts, np.zeros(more, np.int64)])
            self.squares = np.concatenate([self.squares, np.zeros(more)])
        self.counts[places] += counts  # ids of a unit are distinct
        self.squares[places] += squares

    def totals(
        self, n_units: int, family: str, ranks: tuple[int, ...], rule: Any, fields: Fields | None = None
    ) -> Totals:
        """Number the features by level, count and id, and return their totals."""
        if self.next_unit != n_units:
            raise ShardLost(f"shard {self.number} knows the counts of {self.next_unit} of {n_units} units")
        by_id = np.argsort(self.seen.ids, kind="stable")
        ids, counts, squares = (array[: self.seen.size][by_id] for array in (self.seen.ids, self.counts, self.squares))
        plan, order = plan_ranks(family, ranks, counts, rule)
        self.seen, self.ids, self.counts, self.squares = IdTable(), ids[order], counts[order], squares[order]
        small = root_mean_squares(self.counts, self.squares) <= LARGE_VALUE
        # By id, so that the sum of a bucket does not depend on the levels or on who owns it
        order = np.argsort(self.ids[small], kind="stable")
        buckets = bucket_of(self.ids[small][order])
        squares, values = (np.bincount(buckets, array[small][order], BUCKETS) for array in (self.squares, self.counts))
        self.sizes = plan.sizes
        used = np.unique(fields.of(self.ids)) if fields is not None else np.zeros(0, np.int64)
        return Totals(plan.sizes, squares, values, not small.all(), int(self.ids.max(initial=-1)), used)

    # ---- Training

    def build(self, spec: ModelSpec) -> None:
        """Make the initial records."""
        self._begin(spec, scales_of(root_mean_squares(self.counts, self.squares), spec.common_scale))
        self.squares, options = np.zeros(0), spec.options
        ids = read_only(self.ids)

        def draw(number: int, features: slice, rank: int) -> np.ndarray:
            out = np.empty((features.stop - features.start, rank), np.float32)
            draw_vectors(ids[features], number, options.seed, float(options.init_scale), out)
            return out

        self.records = self.layout.drawn(draw, options.optimizer.first_state, spec.first_slot())

    def _begin(self, spec: ModelSpec, scales: np.ndarray, with_states: bool = True) -> None:
        """Prepare for training of the features in self.ids, self.counts and self.sizes, or for scoring."""
        self.spec, self.scales, self.pushes = spec, scales, {}
        self.is_saved, self.fields = not with_states, None  # type: bool, np.ndarray | None
        n_slots = spec.options.optimizer.n_slots if with_states else 0
        self.layout = RecordLayout(spec.plan(self.sizes), with_states, n_slots)
        self.tables, self.settings = self.layout.tables(), spec.settings()
        self.levels = self.layout.plan.levels().astype(np.int8)
        self.index = IdTable.of(self.ids)
        self.where, self.touched = np.full(self.ids.size, -1, np.int64), np.empty(self.ids.size, np.int64)
        self.gradient = np.empty(int(self.tables.widths.max(initial=0)), np.float32)
        self.pulled, self.pushed = pull_lengths(self.tables.widths), push_lengths(self.tables.widths)
        self.step, self.average, self.best = 0, None, {}

    def _check(self, life: int) -> ModelSpec:
        if self.spec is None or self.spec.life != life:
            raise ShardLost(f"shard {self.number} has no state since the last restart")
        return self.spec

    def lookup(self, life: int, ids: np.ndarray) -> Lookup:
        """Return where features are."""
        spec = self._check(life)
        numbers = self.index.find(ids)
        levels = np.where(numbers < 0, np.int8(-1), self.levels[numbers]) if self.ids.size else numbers.astype(np.int8)
        scales = self.scales[numbers] if spec.has_scales and self.ids.size else None
        if not self.is_saved:
            return Lookup(numbers, levels, scales)
        known = [None if each is None else _of(each, numbers) for each in (self.counts, self.fields)]
        return Lookup(numbers, levels, scales, *known)

    def pull(self, life: int, numbers: np.ndarray, which: str = CURRENT) -> np.ndarray:
        """Return the parameters of features, one after another."""
        self._check(life)
        out = np.empty(int(self.pulled[self.levels[numbers]].sum()), np.float32)
        get_parameters(read_only(numbers), self.tables, self._records(which), out)
        return out

    def _records(self, which: str) -> np.ndarray:
        return self.records if which == CURRENT or self.average is None else self.average

    def push(self, life: int, step: int, pushes: list[tuple[int, np.ndarray, np.ndarray]]) -> bool:
        """Take the sums of slots (slot, features, sums); return whether the step is yet to come."""
        self._check(life)
        if step <= self.step:
            return False
        for slot, numbers, sums in pushes:
            self.pushes[step, slot] = (numbers, sums)
        return True

    def apply(self, life: int, step: int, n_slots: int) -> int:
        """Join the sums of all slots of a step and step the features; return how many. A repeated call does nothing."""
        self._check(life)
        if step <= self.step:
            return 0
        if step != self.step + 1:
            raise ShardLost(f"shard {self.number} is at step {self.step}, not before step {step}")
        taken = [self.pushes[step, slot] for slot in range(n_slots)]
        joined, ends = np.empty(sum(sums.size for _, sums in taken), np.float32), np.zeros(2, np.int64)
        for numbers, sums in taken:
            given = (read_only(numbers), read_only(sums))
            join_sums(*given, self.tables, self.where, self.touched, joined, ends)
        self.hook("joined", step)
        touched, age = self.touched[: ends[0]], np.float32(step)
        step_features(touched, self.where, joined, age, self.gradient, self.tables, self.records, self.settings)
        self.step, self.pushes = step, {}
        return int(ends[0])

    def finish_epoch(self, life: int, averages: bool) -> None:
        """Move the average half way to the current parameters."""
        self._check(life)
        if averages and self.average is None:
            self.average = self.records.copy()
        elif self.average is not None:
            move_half_way(self.average, self.records)

    def keep(self, life: int) -> None:
        """Keep a copy of the evaluated parameters as the best."""
        self._check(life)
        self.best = {}  # free the old copy before making the new one
        self.best = _named(*self.layout.unpack(self._records(AVERAGE)))

    def parameters(self, life: int, best: bool) -> Arrays:
        """Return ids, counts, scales, weights and factors of all features, by level, count and id."""
        self._check(life)
        found = self.best if best and self.best else _named(*self.layout.unpack(self._records(AVERAGE)))
        return {"ids": self.ids, "counts": self.counts, "scales": self.scales, **found}

    def fields_used(self, life: int, fields: Fields) -> np.ndarray:
        """Return the fields of the features, each once."""
        self._check(life)
        return np.unique(fields.of(self.ids))

    def export(self, life: int, best: bool, target: Target) -> list[Part]:
        """Write the features to the folder of a model; return the parts."""
        found = write_parts(target, self.number, self.n_shards, self.parameters(life, best), self.sizes)
        self.hook("exported", 0)
        return found

    def open_parts(self, spec: ModelSpec, folder: str, parts: tuple[Part, ...]) -> None:
        """Take the features of this shard from the folder of a model, to be scored."""
        n_levels = len(spec.options.ranks)
        found = _merged([_none(spec), *read_parts(folder, parts, self.number, self.n_shards)])
        self.ids, self.counts, levels = found["ids"], found["counts"], found["levels"]
        self.sizes = (*(int((levels >= k).sum()) for k in range(n_levels + 1)), 0)
        self._begin(spec, np.ones(0, np.float32), with_states=False)
        blocks = [found[f"factors.{k}"] for k in range(1, n_levels + 1)]
        self.records, self.fields = self.layout.pack(found["weights"], blocks), found.get("fields")

    def occurrences(self, life: int) -> list[int]:
        """Return how often features of level k or higher occur, from level 0 up."""
        self._check(life)
        return [int(self.counts[:size].sum()) for size in self.sizes[:-1]]

    def memory(self) -> dict[str, int]:
        """Return the bytes of the tables, and of everything that grows with pushes."""
        tables = sum(array.nbytes for array in (self.ids, self.counts, self.records, self.where, self.touched))
        return {"tables": tables, "pushes": sum(a.nbytes + b.nbytes for a, b in self.pushes.values())}

    # ---- Checkpoints

    def save(self, life: int, path: str) -> dict[str, Any]:
        """Write everything to a file; return its name, size and digest."""
        self._check(life)
        self.hook("saving", self.step)
        arrays = self._state("", self.records) | {f"best.{name}": array for name, array in self.best.items()}
        if self.average is not None:
            arrays |= self._state("average.", self.average)
        arrays |= {"ids": self.ids, "counts": self.counts, "scales": self.scales, "levels": self.levels.view(np.uint8)}
        n_bytes = write_container(path, arrays, {"kind": KIND, "step": self.step, "sizes": list(self.sizes)})
        self.hook("saved", self.step)
        return {"file": Path(path).name, "bytes": n_bytes, "sha256": digest_of(path)}

    def _state(self, prefix: str, records: np.ndarray) -> Arrays:
        weights, factors = self.layout.states(records)
        states = {"states.weights": weights} | {f"states.{name}": one for name, one in _blocks(factors).items()}
        return {f"{prefix}{name}": array for name, array in {**_named(*self.layout.unpack(records)), **states}.items()}

    def load(self, spec: ModelSpec, paths: list[str], step: int) -> None:
        """Take the features of this shard from the files of a checkpoint, written by any number of shards."""
        found = _merged([self._own(path) for path in paths])
        self.ids, self.counts, levels = found["ids"], found["counts"], found["levels"]
        self.sizes = (*(int((levels >= k).sum()) for k in range(len(spec.options.ranks) + 1)), 0)
        self._begin(spec, found["scales"])
        self.records, self.step = self._packed("", found, spec.options.optimizer), step
        if "average.weights" in found:
            self.average = self._packed("average.", found, spec.options.optimizer)
        self.best = {name.removeprefix("best."): one for name, one in found.items() if name.startswith("best.")}

    def _own(self, path: str) -> Arrays:
        """Read the features of this shard from a file."""
        _, arrays = read_container(path)
        own = shard_of(arrays["ids"], self.n_shards) == self.number
        levels = arrays["levels"]
        kept = {"levels": levels[own]}
        for name, array in arrays.items():
            if name != "levels":
                kept[name] = array[own[levels >= block_of_name(name)]]
        return kept

    def _packed(self, prefix: str, found: Arrays, optimizer: Optimizer) -> np.ndarray:
        blocks = range(1, len(self.layout.widths) + 1)
        factors = [found[f"{prefix}factors.{k}"] for k in blocks]
        records = self.layout.pack(found[f"{prefix}weights"], factors, optimizer.first_state)
        states = [found[f"{prefix}states.factors.{k}"] for k in blocks]
        self.layout.put_states(records, found[f"{prefix}states.weights"], states)
        return records


def digest_of(path: str) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _of(values: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Return the values of features; 0 for unknown ones."""
    return np.where(numbers < 0, 0, values[numbers]) if values.size else np.zeros(numbers.size, values.dtype)


def _none(spec: ModelSpec) -> Arrays:
    """Return the arrays of no features."""
    wholes = ("ids", "counts", "levels", *(("fields",) if spec.field_names else ()))
    ranks = enumerate(spec.plan((0,) * (len(spec.options.ranks) + 2)).block_ranks, start=1)
    blocks = {f"factors.{k}": np.zeros((0, rank), np.float32) for k, rank in ranks}
    return {**{name: np.zeros(0, np.int64) for name in wholes}, "weights": np.zeros(0, np.float32), **blocks}


def _named(weights: np.ndarray, factors: list[np.ndarray]) -> Arrays:
    return {"weights": weights, **_blocks(factors)}


def _blocks(factors: list[np.ndarray]) -> Arrays:
    return {f"factors.{level}": block for level, block in enumerate(factors, start=1)}


def block_of_name(name: str) -> int:
    """Return the lowest level of the features in an array: that of its block, or 0.

    >>> block_of_name("average.states.factors.2"), block_of_name("weights")
    (2, 0)
    """
    last = name.rsplit(".", 1)[-1]
    return int(last) if last.isdigit() else 0


def _merged(parts: list[Arrays]) -> Arrays:
    """Join features of several files, ordered by level, count and id."""
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    levels, ids, counts = joined["levels"].astype(np.int64), joined["ids"], joined["counts"]
    order = np.lexsort((ids, -counts, -levels))
    found = {}
    for name, array in joined.items():
        lowest = block_of_name(name)
        places = np.cumsum(levels >= lowest) - 1  # of each feature among those that have the block
        chosen = order[levels[order] >= lowest]
        found[name] = np.ascontiguousarray(array[places[chosen]])
    return found
