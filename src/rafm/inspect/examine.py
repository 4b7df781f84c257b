"""Examine data of any format in one pass and in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from heapq import heappush, heappushpop

import numpy as np
import pyarrow as pa

from ..encode.casts import naming_column, without_views
from ..encode.encoder import TableEncoder
from ..encode.infer import choose_kinds
from ..encode.spec import TableSpec, check_known
from ..encode.table_blocks import take_sample
from ..encode.targets import with_targets
from ..errors import DataError, DataValueError, RafmError
from ..files.atomic import PathLike
from ..losses import loss_for
from ..read.converted.reader import ArrowRows
from ..read.formats import CONVERTED, ROWS
from ..read.open import ReadOptions, naming_file, raw_table
from ..rows.checked import Batch
from ..rows.hashes import entry_hashes, mixed, row_sums
from .columns import CellProfile, ColumnProfile, FieldProfile, join_frequencies
from .keys import folded, hash_numbers, unhash_numbers
from .labels import Labels
from .leaks import assign_halves, presence_power
from .sketch import Frequencies, RowTargets, Sketch

MANY_KEYS = 1 << 20  # distinct rows and features that are counted exactly
FIRST_BAD, MAX_BAD = 20, 100_000  # bad lines to list, and to stop at
MAX_FIELDS = 1000  # with a profile of their own
TEXT_BYTES = 1 << 18  # text that is parsed at once; small, since errors are kept until their chunk is done


class TooManyBadLines(Exception):
    """Reading stops after MAX_BAD bad lines."""


@dataclass
class BadLines:
    """Counts bad lines and keeps the first FIRST_BAD."""

    count: int = 0
    kept: list[tuple[int, int, RafmError]] = field(default_factory=list)  # a heap with the last line on top

    def __call__(self, error: RafmError) -> None:
        """Add a bad line; they may come out of order."""
        self.count += 1
        entry = (-(error.line or 0), -self.count, error)
        (heappush if self.count <= FIRST_BAD else heappushpop)(self.kept, entry)
        if self.count >= MAX_BAD:
            raise TooManyBadLines

    def first(self) -> list[RafmError]:
        """Return the first bad lines, in order."""
        return [error for *_, error in sorted(self.kept, key=lambda entry: entry[:2], reverse=True)]


@dataclass
class Examination:
    """Results of an examination; `features` are counted by id, `distinct` rows by 64-bit hashes."""

    format: str
    reason: str
    labels: Labels = field(default_factory=Labels)
    columns: list[ColumnProfile] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)  # columns whose type is not supported
    bad: BadLines = field(default_factory=BadLines)
    features: Sketch = field(default_factory=lambda: Sketch(MANY_KEYS))
    distinct: Sketch = field(default_factory=lambda: Sketch(MANY_KEYS))
    predictive: list[tuple[int, float]] = field(default_factory=list)  # ids and their AUC or squared correlation
    rows: int = 0
    nonzeros: int = 0
    largest_id: int | None = None
    gave_up: bool = False
    is_labelled: bool = True

    @property
    def repeated(self) -> int:
        """Number of rows that are equal to an earlier one, or an estimate."""
        counts, keys = self.distinct.frequencies()
        return int(((counts - 1) * keys).sum())

    def frequencies(self) -> Frequencies:
        """Return the frequencies of features: of ids, or of those that the columns of a table would get."""
        if self.features.n_keys:
            return self.features.frequencies()
        return join_frequencies([column.frequencies() for column in self.columns if column.kind != "ignore"])

    def all_faults(self) -> list[str]:
        """Return why columns cannot be encoded: types that are not supported, and bad cells."""
        return [*self.faults, *(column.fault for column in self.columns if column.fault)]


def examine(path: PathLike, read_options: ReadOptions) -> Examination:
    """Examine all rows of a file, skipping bad lines."""
    found = Examination(*read_options.find(path))
    found.labels.are_numbers = not loss_for(read_options.task).is_classification
    gives = read_options.format_of(path).gives
    try:
        if gives == CONVERTED:
            _examine_arrow(ArrowRows(path), found)
        elif gives == ROWS:
            _examine_text(path, read_options, found)
        else:
            with naming_file(path, found.format):
                _examine_table(*raw_table(path, read_options, found.format, found.bad), found)
    except TooManyBadLines:
        found.gave_up = True
    except DataError as error:  # one that the reader cannot skip, such as truncated gzip
        if not found.rows:
            raise
        found.bad(error)
    if not found.rows:
        raise next(iter(found.bad.first()), DataValueError("no rows", path=str(path)))
    return found


def _take_targets(found: Examination, labels: np.ndarray | None, weights: np.ndarray | None, n_rows: int) -> RowTargets:
    """Count the labels of a block; return them with the half that each row is assigned to."""
    found.is_labelled &= labels is not None
    labels = np.zeros(n_rows) if labels is None else found.labels.numbered(labels)
    weights = np.ones(n_rows) if weights is None else weights.astype(np.float64)
    targets = RowTargets(assign_halves(found.rows, n_rows), weights, labels)
    if found.is_labelled:
        found.labels.add(labels, weights, targets.halves == 1)
    found.rows += n_rows
    return targets


def _examine_text(path: PathLike, read_options: ReadOptions, found: Examination) -> None:
    entry, options = read_options.format_of(path), read_options.row_options()
    profiles = _RowProfiler(
        found, lambda number: (f"field {number}", "ids"), lambda id: str(id + read_options.index_base)
    )
    for rows in entry.read(path, chunk_bytes=TEXT_BYTES, on_bad=found.bad, **options):
        profiles.update(Batch(rows.indptr, rows.indices, rows.values, 0, rows.labels), rows.fields)
    profiles.finish(read_options.index_base)


def _examine_arrow(source: ArrowRows, found: Examination) -> None:
    """Examine converted rows, whose columns are those of the encoder."""
    encoder, base = source.encoder, source.conversion.index_base
    found.labels.are_numbers = not loss_for(source.conversion.task).is_classification
    found.labels.stored = source.conversion.classes
    profiles = _RowProfiler(found, *_names_of(encoder, base))
    firsts = None if encoder is None else np.array(encoder.first_ids[:-1])
    for number in range(source.n_blocks):
        block = source.block(number)
        profiles.update(block, None if firsts is None else np.searchsorted(firsts, block.indices, side="right") - 1)
    profiles.finish(base)


def _names_of(encoder: TableEncoder | None, base: int) -> tuple[Callable[[int], tuple[str, str]], Callable[[int], str]]:
    if encoder is None:
        return lambda number: (f"field {number}", "ids"), lambda id: str(id + base)
    columns, feature_name = encoder.columns, encoder.feature_name
    return (
        lambda number: (columns[number].name, columns[number].kind),
        lambda id: feature_name(id).partition("=")[2][:24],
    )


class _RowProfiler:
    """Profiles rows with feature ids, as a whole and by field."""

    def __init__(self, found: Examination, name_field: Callable[[int], tuple[str, str]], name_id: Callable[[int], str]):
        self._found, self._name_field, self._name_id = found, name_field, name_id
        self._fields: dict[int, FieldProfile] = {}
        self._predictive, self._totals = Sketch(labelled=True), np.zeros(4)

    def update(self, rows: Batch, fields: np.ndarray | None) -> None:
        """Add a block of rows."""
        found, n_rows = self._found, rows.n_rows
        targets = _take_targets(found, rows.labels, rows.weights, n_rows)
        rows_of = np.repeat(np.arange(n_rows), np.diff(rows.indptr))
        self._hash(rows, targets, fields)
        there = rows.values != 0  # stored zeros do not count as occurrences, as in training
        ids, values, rows_of = rows.indices[there].astype(np.int64), rows.values[there], rows_of[there]
        keys = hash_numbers(ids)
        found.nonzeros += ids.size
        found.largest_id = max(-1 if found.largest_id is None else found.largest_id, int(ids.max(initial=-1)))
        found.features.add(keys)
        self._totals += targets.sums()
        if fields is None:
            self._predictive.add(keys, targets.take(rows_of))
        else:
            self._update_fields(fields[there], ids, values, rows_of, targets)

    def _hash(self, rows: Batch, targets: RowTargets, fields: np.ndarray | None) -> None:
        entries = entry_hashes(rows.indices, np.ascontiguousarray(rows.values, np.float32))
        if fields is not None:
            entries = mixed(entries + fields.astype(np.uint64))
        self._found.distinct.add(folded(hash_numbers(targets.labels), row_sums(entries, rows.indptr)))

    def _update_fields(
        self, fields: np.ndarray, ids: np.ndarray, values: np.ndarray, rows: np.ndarray, targets: RowTargets
    ) -> None:
        order = np.argsort(fields, kind="stable")
        numbers, starts = np.unique(fields[order], return_index=True)
        for number, part in zip(numbers.tolist(), np.split(order, starts[1:])):
            if number not in self._fields and len(self._fields) < MAX_FIELDS:
                profile = self._fields[number] = FieldProfile(*self._name_field(number))
                # all earlier rows lacked this field
                profile.skip(self._totals - targets.sums(), self._found.rows - targets.labels.size)
            if number in self._fields:
                self._fields[number].update(ids[part], values[part], rows[part], targets, self._name_id)
        for number in self._fields.keys() - set(numbers.tolist()):
            self._fields[number].skip(targets.sums(), targets.labels.size)

    def finish(self, base: int) -> None:
        """Store the profiles in the examination."""
        found = self._found
        found.columns = [self._fields[number] for number in sorted(self._fields)]
        if self._fields or not found.labels.weight:
            return
        powers = presence_power(self._predictive.label_sums(), self._totals, found.labels)
        best = np.argsort(-powers, kind="stable")[:FIRST_BAD]
        ids = unhash_numbers(self._predictive.keys()[best])
        found.predictive = [(id + base, float(power)) for id, power in zip(ids, powers[best])]


def _examine_table(spec: TableSpec, batches: Iterator[pa.RecordBatch], found: Examination) -> None:
    """Examine the cells of a table; columns of unsupported types are reported and skipped."""
    sample, blocks = take_sample(batches)
    if sample is None:
        return
    profiles, found.faults = _profiles_of(spec, sample)
    found.columns, found.ignored = list(profiles), [column.name for column in spec.columns if column.kind == "ignore"]
    for block in blocks:
        _examine_block(block, spec, profiles, found)
    found.nonzeros = int(np.dot(*found.frequencies()))


def _examine_block(block: pa.RecordBatch, spec: TableSpec, profiles: list[CellProfile], found: Examination) -> None:
    row = found.rows
    targets = _take_targets(found, *_labels_and_weights(block, spec, row), block.num_rows)
    keys = hash_numbers(targets.labels)
    for profile in profiles:
        cells = without_views(block.column(profile.name))
        with naming_column(profile.name, cells.type):
            own = profile.update(cells, row, targets)
        keys = folded(keys, own)
    found.distinct.add(keys)


def _labels_and_weights(
    batch: pa.RecordBatch, spec: TableSpec, row: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return labels and weights; for clicks and impressions, the click rate weighted by impressions."""
    n_rows, clicks = batch.num_rows, spec.clicks is not None
    nothing = Batch(np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32), 0)
    as_columns = replace(spec, label=spec.clicks, weight=spec.impressions, clicks=None, impressions=None)
    found = with_targets(nothing, batch, as_columns if clicks else spec, row)
    if not clicks or found.labels is None or found.weights is None:
        return found.labels, found.weights
    return found.labels / np.maximum(found.weights, 1), found.weights


def _profiles_of(spec: TableSpec, sample: pa.Table | pa.RecordBatch) -> tuple[list[CellProfile], list[str]]:
    """Return a profile per column, of the given kind or the one that training would choose, and unsupported columns."""
    names, target_names = sample.schema.names, spec.targets()
    given, there = {column.name: column for column in spec.columns}, set(names)
    for name in [*(column.name for column in spec.columns if column.kind != "ignore"), *target_names]:
        if name not in there:
            check_known(name, names, "column")
    profiles, faults = [], []
    for place, name in enumerate(names):
        if name in target_names or (name not in given and spec.others == "ignore"):
            continue
        own = sample.select([place])
        try:
            choice = None if name in given else choose_kinds(own.schema, own)[0]
            column, reason = (choice.column, choice.reason) if choice else (given[name], "as given")
            profiles.append(CellProfile(column, spec, reason))
        except DataValueError as error:
            faults.append(str(error))
    return profiles, faults
