"""One pass over data of any format -> what is in them, in memory that the rows do not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappush, heappushpop
from itertools import chain

import numpy as np
import pyarrow as pa

from ..encode.casts import naming_column, without_views
from ..encode.encoder import SAMPLE_ROWS, TableEncoder
from ..encode.infer import choose_kinds
from ..encode.spec import TableSpec, check_known
from ..encode.targets import with_targets
from ..errors import DataError, DataValueError, RafmError
from ..files.atomic import PathLike
from ..read.converted.reader import ArrowRows
from ..read.formats import CONVERTED, ROWS
from ..read.open import Opening, raw_table
from ..rows.checked import Batch
from .columns import CellLook, FieldLook, Look, join_frequencies
from .keys import fold_entries, fold_rows, mixed, unmixed
from .labels import Labels
from .leaks import deal, presence_power
from .sketch import Frequencies, Sides, Sketch

MANY_KEYS = 1 << 20  # rows and features that are counted exactly
FIRST_BAD, MAX_BAD = 20, 100_000  # bad lines that are listed, and at which reading ends
MAX_FIELDS = 1000
BLOCK_ROWS = 1 << 16  # rows of a table that are looked at together
TEXT_BYTES = 1 << 18  # text that is parsed at once: each bad line in it is remembered so long


class GivenUp(Exception):
    """There are MAX_BAD bad lines."""


@dataclass
class BadLines:
    """Counts bad lines and keeps the first."""

    count: int = 0
    kept: list[tuple[int, int, RafmError]] = field(default_factory=list)  # a heap: the last of them on top

    def __call__(self, error: RafmError) -> None:
        """Take one in."""
        self.count += 1
        entry = (-(error.line or 0), -self.count, error)
        (heappush if self.count <= FIRST_BAD else heappushpop)(self.kept, entry)
        if self.count >= MAX_BAD:
            raise GivenUp

    def first(self) -> list[RafmError]:
        """Return the first ones, in their order."""
        return [error for *_, error in sorted(self.kept, key=lambda entry: entry[:2], reverse=True)]


@dataclass
class Examination:
    """What was found in some data; `features` are counted by name or id, `repeated` by 64-bit hashes of whole rows."""

    format: str
    reason: str
    labels: Labels = field(default_factory=Labels)
    columns: list[Look] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # columns whose type cannot be read
    bad: BadLines = field(default_factory=BadLines)
    features: Sketch = field(default_factory=lambda: Sketch(MANY_KEYS))
    distinct: Sketch = field(default_factory=lambda: Sketch(MANY_KEYS))
    telling: list[tuple[int, float]] = field(default_factory=list)  # ids and their AUC or squared correlation
    rows: int = 0
    nonzeros: int = 0
    largest_id: int | None = None
    gave_up: bool = False
    is_labelled: bool = True

    @property
    def repeated(self) -> int:
        """How many rows are the same as an earlier one, or an estimate."""
        counts, keys = self.distinct.frequencies()
        return int(((counts - 1) * keys).sum())

    def frequencies(self) -> Frequencies:
        """Return how often features occur: those with an id, or those that the columns of a table would get."""
        if self.features.n_keys:
            return self.features.frequencies()
        return join_frequencies([column.frequencies() for column in self.columns if column.kind != "ignore"])


def examine(path: PathLike, opening: Opening) -> Examination:
    """Look at all rows of a file, going on behind bad lines."""
    found = Examination(*opening.find(path))
    gives = opening.format_of(path).gives
    try:
        if gives == CONVERTED:
            _examine_arrow(ArrowRows(path), found)
        elif gives == ROWS:
            _examine_text(path, opening, found)
        else:
            _examine_table(*raw_table(path, opening, found.format, found.bad), found)
    except GivenUp:
        found.gave_up = True
    except DataError as error:
        if not found.rows:
            raise
        found.bad(error)
    if not found.rows:
        raise next(iter(found.bad.first()), DataValueError("no rows", path=str(path)))
    return found


def _sides(found: Examination, labels: np.ndarray | None, weights: np.ndarray | None, n_rows: int) -> Sides:
    """Take the labels of a block in; return them with the halves that its rows are dealt to."""
    found.is_labelled &= labels is not None
    labels = np.zeros(n_rows) if labels is None else labels.astype(np.float64)
    weights = np.ones(n_rows) if weights is None else weights.astype(np.float64)
    sides = Sides(deal(found.rows, n_rows), weights, labels)
    if found.is_labelled:
        found.labels.add(labels, weights, sides.halves == 1)
    found.rows += n_rows
    return sides


def _examine_text(path: PathLike, opening: Opening, found: Examination) -> None:
    entry, options = opening.format_of(path), opening.row_options()
    looks = _RowLooks(found, lambda number: (f"field {number}", "ids"), lambda id: str(id + opening.index_base))
    for rows in entry.read(path, chunk_bytes=TEXT_BYTES, on_bad=found.bad, **options):
        looks.update(Batch(rows.indptr, rows.indices, rows.values, 0, rows.labels), rows.fields)
    looks.finish(opening.index_base)


def _examine_arrow(source: ArrowRows, found: Examination) -> None:
    """Look at converted rows; their columns are those of the encoder."""
    encoder, base = source.encoder, source.conversion.index_base
    looks = _RowLooks(found, *_names_of(encoder, base))
    firsts = None if encoder is None else np.array(encoder.first_ids[:-1])
    for number in range(source.n_blocks):
        block = source.block(number)
        looks.update(block, None if firsts is None else np.searchsorted(firsts, block.indices, side="right") - 1)
    looks.finish(base)


def _names_of(encoder: TableEncoder | None, base: int) -> tuple[Callable[[int], tuple[str, str]], Callable[[int], str]]:
    if encoder is None:
        return lambda number: (f"field {number}", "ids"), lambda id: str(id + base)
    columns, feature_name = encoder.columns, encoder.feature_name
    return (
        lambda number: (columns[number].name, columns[number].kind),
        lambda id: feature_name(id).partition("=")[2][:24],
    )


class _RowLooks:
    """Looks at rows with feature ids: at all of them together and at each field."""

    def __init__(self, found: Examination, name_field: Callable[[int], tuple[str, str]], name_id: Callable[[int], str]):
        self._found, self._name_field, self._name_id = found, name_field, name_id
        self._fields: dict[int, FieldLook] = {}
        self._telling, self._totals = Sketch(labelled=True), np.zeros(4)

    def update(self, rows: Batch, fields: np.ndarray | None) -> None:
        """Look at a block of rows."""
        found, n_rows = self._found, rows.n_rows
        sides = _sides(found, rows.labels, rows.weights, n_rows)
        rows_of = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
        self._hash(rows, sides, fields)
        there = rows.values != 0
        ids, values, rows_of = rows.indices[there].astype(np.int64), rows.values[there], rows_of[there]
        keys = mixed(ids)
        found.nonzeros += ids.size
        found.largest_id = max(-1 if found.largest_id is None else found.largest_id, int(ids.max(initial=-1)))
        found.features.add(keys)
        self._totals += sides.sums()
        if fields is None:
            self._telling.add(keys, sides.take(rows_of))
        else:
            self._update_fields(fields[there], ids, values, rows_of, sides)

    def _hash(self, rows: Batch, sides: Sides, fields: np.ndarray | None) -> None:
        keys = mixed(sides.labels)
        bits = np.ascontiguousarray(rows.values, np.float32).view(np.uint32)
        own = np.zeros(0, np.int64) if fields is None else fields.astype(np.int64)
        with np.errstate(over="ignore"):
            fold_entries(rows.indptr, rows.indices.astype(np.int64), bits, own, keys)
        self._found.distinct.add(keys)

    def _update_fields(
        self, fields: np.ndarray, ids: np.ndarray, values: np.ndarray, rows: np.ndarray, sides: Sides
    ) -> None:
        order = np.argsort(fields, kind="stable")
        numbers, starts = np.unique(fields[order], return_index=True)
        for number, part in zip(numbers.tolist(), np.split(order, starts[1:])):
            if number not in self._fields and len(self._fields) < MAX_FIELDS:
                look = self._fields[number] = FieldLook(*self._name_field(number))
                look.skip(self._totals - sides.sums(), self._found.rows - sides.labels.size)
            if number in self._fields:
                self._fields[number].update(ids[part], values[part], rows[part], sides, self._name_id)
        for number in self._fields.keys() - set(numbers.tolist()):
            self._fields[number].skip(sides.sums(), sides.labels.size)

    def finish(self, base: int) -> None:
        """Hand over what was seen."""
        found = self._found
        found.columns = [self._fields[number] for number in sorted(self._fields)]
        if self._fields or not found.labels.weight:
            return
        powers = presence_power(self._telling.groups(), self._totals, found.labels)
        best = np.argsort(-powers, kind="stable")[:FIRST_BAD]
        ids = unmixed(self._telling.keys()[best])
        found.telling = [(id + base, float(power)) for id, power in zip(ids, powers[best])]


def _examine_table(spec: TableSpec, batches: Iterator[pa.RecordBatch], found: Examination) -> None:
    """Look at the cells of a table; a column whose type cannot be read is named and left alone."""
    first = next(batches, None)
    if first is None:
        return
    looks, found.faults = _looks_of(spec, first)
    found.columns, found.ignored = list(looks), [column.name for column in spec.columns if column.kind == "ignore"]
    for batch in chain([first], batches):
        for at in range(0, batch.num_rows, BLOCK_ROWS):
            _examine_block(batch.slice(at, BLOCK_ROWS), spec, looks, found)
    found.nonzeros = int(np.dot(*found.frequencies()))


def _examine_block(block: pa.RecordBatch, spec: TableSpec, looks: list[CellLook], found: Examination) -> None:
    row = found.rows
    sides = _sides(found, *_targets(block, spec), block.num_rows)
    keys = mixed(sides.labels)
    for look in looks:
        cells = without_views(block.column(look.name))
        with naming_column(look.name, cells.type):
            own = look.update(cells, row, sides)
        with np.errstate(over="ignore"):
            fold_rows(keys, own)
    found.distinct.add(keys)


def _targets(batch: pa.RecordBatch, spec: TableSpec) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return labels and weights; clicks out of impressions are the share of clicks, weighted by impressions."""
    n_rows, clicks = batch.num_rows, spec.clicks is not None
    nothing = Batch(np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32), 0)
    as_columns = replace(spec, label=spec.clicks, weight=spec.impressions, clicks=None, impressions=None)
    found = with_targets(nothing, batch, as_columns if clicks else spec)
    if not clicks or found.labels is None or found.weights is None:
        return found.labels, found.weights
    return found.labels / np.maximum(found.weights, 1), found.weights


def _looks_of(spec: TableSpec, first: pa.RecordBatch) -> tuple[list[CellLook], list[str]]:
    """Return what looks at each column, of the kind that is given or that training would choose, and what cannot."""
    names, targets, rows = first.schema.names, spec.targets(), first.slice(0, SAMPLE_ROWS)
    given, there = {column.name: column for column in spec.columns}, set(names)
    for name in [*(column.name for column in spec.columns if column.kind != "ignore"), *targets]:
        if name not in there:
            check_known(name, names, "column")
    looks, faults = [], []
    for place, name in enumerate(names):
        if name in targets or (name not in given and spec.others == "ignore"):
            continue
        sample = rows.select([place])
        try:
            column, reason = (given[name], "as given") if name in given else choose_kinds(sample.schema, sample)[0][::2]
            looks.append(CellLook(column, spec, reason))
        except DataValueError as error:
            faults.append(str(error))
    return looks, faults
