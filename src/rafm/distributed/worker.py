"""A worker: reads rows, pulls the parameters of their features, and pushes the sums of their gradients.

It keeps no state that cannot be recomputed: if it is replaced, its successor repeats the call.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..kernels.slots import put_parameters, sum_slot
from ..kernels.tables import GROUPS, FieldWeights, IndexedRows, Rows, Tables, Team, Training
from ..model.scores import score
from ..plan.layout import RecordLayout
from ..plan.scratch import make_field_scratch, make_wide_scratch
from ..plan.steps import index_steps
from ..rows.blocks import join_rows, pick_rows, take_rows
from ..rows.checked import Batch, CheckedRows, check_batch, read_only
from ..rows.id_table import IdTable
from ..rows.numbering import Numbering, number_rows
from ..rows.stats import RowStats, count_rows
from ..train.steps.wide_engine import joined_tables
from .hashing import shard_of
from .lanes import Slot, visit_order
from .shard import CURRENT, Lookup
from .sources import Reader, Source
from .spec import Hook, ModelSpec, WorkerLost, no_hook, push_lengths


class Shards(Protocol):
    """The shards, as a worker sees them."""

    def send(self, shard: int, method: str, *arguments: Any) -> Any:
        """Call a method of a shard; return what `wait` takes."""

    def wait(self, calls: list[Any]) -> list[Any]:
        """Return the results of calls; raise ShardLost if a shard died."""


ALONE = Team(0, 1, 0, GROUPS, np.zeros(1024, np.int64))


@dataclass(frozen=True)
class Located(Numbering):
    """A numbering of given entries, whose numbers are known."""

    numbers: np.ndarray

    def lookup(self, indices: np.ndarray) -> np.ndarray:
        return self.numbers


class Prepared(NamedTuple):
    """Rows whose features are numbered by level and id, and where these are.

    owners, places: shard of each feature, and its number there. fields: the field of each, if shards know them.
    """

    rows: Rows
    ids: np.ndarray
    owners: np.ndarray
    places: np.ndarray
    layout: RecordLayout
    fields: np.ndarray | None = None


class StepResult(NamedTuple):
    """What a worker reports of its slots: totals of chunks of rows, gradients of field weights, sums of row numbers.

    floats: values pulled and pushed; ids: those looked up.
    """

    slots: list[int]
    totals: list[np.ndarray]
    fields: list[np.ndarray]
    n_rows: int
    row_sum: int
    floats: int
    ids: int


def count_features(rows: CheckedRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct ids of rows, how often each occurs, and the sum of its squared values; see rows/stats.py."""
    table = IdTable(rows.indices.size)
    entries, values = table.add(rows.indices), rows.values.astype(float)
    if rows.weights is not None:  # rows of weight 0 do not count
        values *= np.repeat(rows.weights > 0, np.diff(rows.indptr))
    counts = np.bincount(entries, values != 0, table.size).astype(np.int64)
    squares = np.bincount(entries, values * values, table.size)
    seen = np.flatnonzero(counts)
    return table.ids[seen], counts[seen], squares[seen]


class Worker:
    """Computes slots of steps, counts units and scores them.

    Parameters
    ----------
    shards : Shards
        The shards.
    sources : sequence of Source
        Training rows, then those to be scored.
    n_shards : int
        Number of shards.
    """

    def __init__(self, shards: Shards, sources: Sequence[Source], n_shards: int, hook: Hook = no_hook):
        self.shards, self.sources, self.n_shards, self.hook = shards, sources, n_shards, hook
        self.readers = [Reader(source) for source in sources]
        self.lanes: dict[int, tuple[tuple[int, int], CheckedRows, np.ndarray]] = {}
        self.ahead: tuple[Any, Future[Any]] | None = None
        self.pool = ThreadPoolExecutor(1, "rafm-read")
        self.spec: ModelSpec | None = None

    def begin(self, spec: ModelSpec) -> None:
        """Prepare for training."""
        if self.ahead is not None:
            self.ahead[1].exception()  # wait: what is read ahead for another life must not be read at the same time
        self.spec, self.ahead = spec, None
        tables = self._tables(RecordLayout(spec.plan((0,) * (len(spec.options.ranks) + 2), True), False))
        n_fields = len(spec.field_names)
        self.scratch = make_wide_scratch(tables, spec.longest, spec.slot_rows, n_fields)[0]
        shared = np.zeros((2 + GROUPS, n_fields), np.float32) if n_fields else None
        self.fields = make_field_scratch(shared, tables, spec.longest, 1, 1)[0]
        self.settings = spec.settings()

    @staticmethod
    def _tables(layout: RecordLayout) -> Tables:
        return joined_tables(layout.tables())

    def ask(self, method: str, each: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a method of every shard, each with arguments of its own; return the results."""
        return self.shards.wait([self.shards.send(shard, method, *own) for shard, own in enumerate(each)])

    def _spec(self, life: int) -> ModelSpec:
        if self.spec is None or self.spec.life != life:
            raise WorkerLost("the worker has not been set up since the last restart")
        return self.spec

    # ---- Counting

    def count(self, turn: int, number: int) -> RowStats:
        """Count the features of a unit and send the counts to the shards; return the statistics, without features.

        turn: where the unit is among all those counted.
        """
        rows = self.readers[0].rows(number)
        ids, counts, squares = count_features(rows)
        owners = shard_of(ids, self.n_shards)
        parts = [np.flatnonzero(owners == shard) for shard in range(self.n_shards)]
        self.ask("count", [(turn, ids[own], counts[own], squares[own]) for own in parts])
        none, nothing = np.zeros(rows.n_rows + 1, np.int64), np.zeros(0, np.float32)
        labels = check_batch(Batch(none, none[:0], nothing, 0, rows.labels, rows.weights))
        longest = int(np.diff(rows.indptr).max(initial=0))
        nonzeros = int(np.count_nonzero(rows.values))
        return replace(count_rows([labels]), nonzeros=nonzeros, longest=longest, counts=np.array([counts.sum()]))

    # ---- Rows

    def _slot_rows(self, slot: Slot, epoch: int) -> tuple[CheckedRows, int]:
        """Return the rows of a slot, and the sum of their numbers."""
        parts, row_sum, source = [], 0, self.sources[0]
        assert self.spec is not None
        seed = self.spec.options.seed
        for unit, start, stop in slot.pieces:
            if slot.lane not in self.lanes or self.lanes[slot.lane][0] != (epoch, unit):
                found = self.readers[0].rows(unit, slot.lane)
                order = visit_order(seed, epoch, unit, found.n_rows)
                self.lanes[slot.lane] = ((epoch, unit), pick_rows(found, order), order)
            _, rows, order = self.lanes[slot.lane]
            parts.append(take_rows(rows, start, stop))
            row_sum += int(order[start:stop].sum()) + source.units[unit].first_row * (stop - start)
        return join_rows(parts), row_sum

    def _prepare(self, spec: ModelSpec, rows: CheckedRows) -> Prepared:
        """Number the features of rows by level and id; ask the shards where they are."""
        table = IdTable(rows.indices.size)
        entries = table.add(rows.indices)
        ids = table.ids.copy()
        owners = shard_of(ids, self.n_shards)
        parts = [np.flatnonzero(owners == shard) for shard in range(self.n_shards)]
        found: list[Lookup] = self.ask("lookup", [(spec.life, ids[own]) for own in parts])
        places, levels = np.empty(ids.size, np.int32), np.empty(ids.size, np.int8)
        scales, counts, fields = np.ones(ids.size, np.float32), None, None
        for own, one in zip(parts, found):
            places[own], levels[own] = one.numbers, one.levels
            if one.scales is not None:
                scales[own] = one.scales
            if one.counts is not None:
                counts = np.zeros(ids.size, np.int64) if counts is None else counts
                counts[own] = one.counts
            if one.fields is not None:
                fields = np.zeros(ids.size, np.int64) if fields is None else fields
                fields[own] = one.fields
        order = np.lexsort((ids, -levels) if counts is None else (ids, -counts, -levels))
        order = order[: int((levels >= 0).sum())]  # unknown features come last
        numbers = np.full(ids.size, -1, np.int32)
        numbers[order] = np.arange(order.size, dtype=np.int32)
        located = Located(ids, 0, numbers[entries])
        numbered = number_rows(rows, located)
        numbered = numbered._replace(
            labels=numbered.labels / np.float32(spec.label_scale),
            weights=numbered.weights / np.float32(spec.weight_scale),
        )
        if spec.has_scales or spec.common_scale != 1:
            own_scales = scales if spec.has_scales else np.full(ids.size, spec.common_scale, np.float32)
            numbered = numbered._replace(values=numbered.values / own_scales[order][numbered.indices])
        n_levels = len(spec.options.ranks)
        sizes = (*(int((levels >= k).sum()) for k in range(n_levels + 1)), 0)
        layout = RecordLayout(spec.plan(sizes, with_fields=True), False)
        known = None if fields is None else fields[order]
        return Prepared(numbered, ids[order], owners[order], places[order], layout, known)

    def _pull(self, spec: ModelSpec, found: Prepared, which: str) -> tuple[Tables, np.ndarray, int]:
        """Return tables and records of all features, and the number of values pulled."""
        parts = [np.flatnonzero(found.owners == shard) for shard in range(self.n_shards)]
        given = self.ask("pull", [(spec.life, found.places[own], which) for own in parts])
        records, tables = found.layout.pack(np.zeros(found.ids.size, np.float32), []), self._tables(found.layout)
        for own, values in zip(parts, given):
            put_parameters(read_only(own), read_only(values), tables, records)
        if found.fields is not None:
            found.layout.put_fields(records, found.fields)
        elif spec.field_names:
            assert spec.field_numbers is not None
            fields = self.sources[0].fields
            raw = np.full(found.ids.size, -1) if fields is None else fields.of(found.ids)
            found.layout.put_fields(records, spec.field_numbers[raw])
        return tables, records, sum(values.size for values in given)

    # ---- Training

    def step(
        self,
        life: int,
        epoch: int,
        step: int,
        slots: list[tuple[int, Slot]],
        ahead: tuple[int, list[tuple[int, Slot]]] | None,
        bias: np.ndarray,
        field_weights: np.ndarray | None,
    ) -> StepResult:
        """Compute slots (number, rows) of a step, and begin to read those of the next one: `ahead`, epoch and slots."""
        spec = self._spec(life)
        (found, indexed, row_sum) = self._taken(spec, epoch, slots)
        if ahead is not None and ahead[1]:
            key = (life, ahead[0], tuple(ahead[1]))
            self.ahead = (key, self.pool.submit(self._read, spec, ahead[0], ahead[1]))
        self.hook("pulling", step)
        tables, records, n_pulled = self._pull(spec, found, CURRENT)
        pushes, totals, fields = self._sums(spec, found, indexed, tables, records, bias, field_weights)
        calls = []
        for shard, own in enumerate(pushes):
            self.hook(f"pushing to {shard}", step)
            numbered = [(number, *sums) for (number, _), sums in zip(slots, own)]
            calls.append(self.shards.send(shard, "push", life, step, numbered))
        self.shards.wait(calls)
        n_pushed = sum(sums.size for own in pushes for _, sums in own)
        self.hook("pushed", step)
        n_rows = int(indexed.firsts[-1])
        return StepResult(
            [number for number, _ in slots], totals, fields, n_rows, row_sum, n_pulled + n_pushed, found.ids.size
        )

    def _taken(self, spec: ModelSpec, epoch: int, slots: list[tuple[int, Slot]]) -> tuple[Prepared, IndexedRows, int]:
        """Return what was read ahead, if it is what is wanted now."""
        waiting, self.ahead = self.ahead, None
        if waiting is not None:
            key, future = waiting
            try:
                found = future.result()
            except Exception:
                found = None  # it will be read again, and fail again if it must
            if found is not None and key == (spec.life, epoch, tuple(slots)):
                return found
        return self._read(spec, epoch, slots)

    def _read(self, spec: ModelSpec, epoch: int, slots: list[tuple[int, Slot]]) -> tuple[Prepared, IndexedRows, int]:
        parts = [self._slot_rows(slot, epoch) for _, slot in slots]
        found = self._prepare(spec, join_rows([rows for rows, _ in parts]))
        firsts = np.concatenate([[0], np.cumsum([rows.n_rows for rows, _ in parts])]).astype(np.int64)
        return found, index_steps(found.rows, firsts), sum(row_sum for _, row_sum in parts)

    def _sums(
        self,
        spec: ModelSpec,
        found: Prepared,
        rows: IndexedRows,
        tables: Tables,
        records: np.ndarray,
        bias: np.ndarray,
        field_weights: np.ndarray | None,
    ) -> tuple[list[list[Any]], list[np.ndarray], list[np.ndarray]]:
        """Return per shard and slot the features and their sums; totals and gradients of field weights of each slot."""
        lengths = push_lengths(tables.widths)[found.layout.plan.levels()]
        pushes: list[list[Any]] = [[] for _ in range(self.n_shards)]
        totals, fields = [], []
        if isinstance(self.fields, FieldWeights) and field_weights is not None:
            self.fields.shared[:2] = field_weights
        training = Training(tables, records, self.settings, ALONE, self.scratch, self.fields)
        for s in range(rows.firsts.size - 1):
            first, stop = int(rows.shares[s, 0]), int(rows.shares[s, -1])
            numbers = rows.features[first:stop]
            order = np.argsort(found.owners[numbers], kind="stable")
            ends = np.cumsum(lengths[numbers[order]])
            places = np.zeros(rows.features.size, np.int64)
            places[first + order] = ends - lengths[numbers[order]]
            out = np.empty(int(ends[-1]) if ends.size else 0, np.float32)
            chunks = sum_slot(rows, s, places, out, bias.copy(), training)
            totals.append(self.scratch.totals[:chunks].copy())
            fields.append(
                self.fields.total.copy() if isinstance(self.fields, FieldWeights) else np.zeros(0, np.float32)
            )
            bounds = np.searchsorted(found.owners[numbers[order]], np.arange(self.n_shards + 1))
            cuts = np.concatenate([[0], ends])[bounds]
            for shard in range(self.n_shards):
                own = numbers[order[bounds[shard] : bounds[shard + 1]]]
                pushes[shard].append((found.places[own], out[cuts[shard] : cuts[shard + 1]]))
        return pushes, totals, fields

    # ---- Scoring

    def score(
        self,
        life: int,
        source: int,
        number: int,
        which: str,
        bias: float,
        field_weights: np.ndarray | None,
        targets: bool = True,
    ) -> tuple[np.ndarray | None, np.ndarray, np.ndarray]:
        """Return labels, scores and weights of a unit, with labels as trained on, or None if they are not wanted."""
        spec = self._spec(life)
        rows = self.readers[source].rows(number, targets=targets)
        found = self._prepare(spec, rows)
        _, records, _ = self._pull(spec, found, which)
        tables = found.layout.tables()
        weights = None if field_weights is None else field_weights[0]
        scores = score(found.rows, tables, records, np.float32(bias), field_weights=weights)
        own = np.ones(rows.n_rows, np.float32) if rows.weights is None else rows.weights
        return rows.labels, scores, own
