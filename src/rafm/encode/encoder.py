"""Encode tables as rows of features, as specified by a TableSpec. See docs/encoding.md.

The features of a column have consecutive ids; columns are sorted by name and values have a fixed order. So the encoding
depends neither on the order of columns nor on that of rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import DataValueError, RafmError, caller_level
from ..files.terminal import printable
from ..rows.arrow import arrays_of_batch, batch_of_arrays, bytes_of_batch
from ..rows.blocks import join_rows
from ..rows.checked import Batch
from ..rows.fields import Fields
from ..rows.prefetch import THREADS, map_ahead, share_out
from ..rows.spill import Spill, SpillOptions
from .assemble import Slot, assemble
from .column import Column, ColumnLearner, cells_of, refuse_missing
from .coverage import Coverage
from .doubts import warn_of_keys, warn_of_kinds
from .infer import Choice, choose_kinds, describe_choices
from .interning import NULL
from .spec import TableSpec, check_known, first_repeated
from .targets import with_targets

BLOCK_ROWS = 1 << 16  # rows encoded at once, so that a column fits the cache
FEW_ROWS = 1 << 13  # smaller chunks of a table are joined
SAMPLE_ROWS, SAMPLE_BYTES = BLOCK_ROWS, 1 << 26  # of a file, used to choose the kinds of columns
_Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # indptr, indices, values
ALL_ROOM = SpillOptions(megabytes=float("inf"))


@dataclass(frozen=True)
class TableEncoder:
    """Encodes tables with the columns it was fitted to.

    >>> table = pa.table({"city": ["Rome", "Oslo", None], "age": [30.5, 40.0, 50.5]})
    >>> encoder = TableEncoder.learn(table)
    >>> encoder.feature_names()
    ['age=[-inf,40.0)', 'age=[40.0,50.5)', 'age=[50.5,inf)', 'city=Oslo', 'city=Rome', 'city=<missing>']
    >>> encoder.encode(table).indices
    array([0, 4, 1, 3, 2, 5], dtype=int32)
    """

    spec: TableSpec
    columns: tuple[Column, ...]
    _warned: set[str] = field(default_factory=set, repr=False, compare=False)  # columns already warned about

    @classmethod
    def learn(
        cls,
        batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        spec: TableSpec | None = None,
        report: Callable[[str], Any] | None = None,
    ) -> TableEncoder:
        """Fit an encoder to a table or to batches, which are read once and not kept.

        report: function, such as `print`, that is called with a text about the chosen kinds and the reasons.
        """
        return cls._learn(batches, spec, report, None)[0]

    @classmethod
    def learn_encode(
        cls,
        batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        spec: TableSpec | None = None,
        report: Callable[[str], Any] | None = None,
        targets: bool = True,
    ) -> tuple[TableEncoder, Batch]:
        """Fit an encoder and return it with the encoded rows, reading the batches once."""
        encoder, rows = cls.learn_then_encode(batches, spec, report, targets)
        batch = join_rows(list(rows))
        return encoder, replace(batch, values=np.require(batch.values, requirements="W"))  # not the shared ones

    @classmethod
    def learn_then_encode(
        cls,
        batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        spec: TableSpec | None = None,
        report: Callable[[str], Any] | None = None,
        targets: bool = True,
        room: SpillOptions = ALL_ROOM,
    ) -> tuple[TableEncoder, Iterator[Batch]]:
        """Fit an encoder and return it with an iterator of the encoded rows; the batches are read once.

        Until then the codes, but no texts, are kept in `room`.
        """
        kept = Spill(room, arrays_of_batch, batch_of_arrays, bytes_of_batch)
        encoder, learners = cls._learn(batches, spec, report, kept)
        return encoder, encoder._replayed(learners, kept, targets)

    def grow_then_encode(
        self,
        batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        targets: bool = True,
        room: SpillOptions = ALL_ROOM,
    ) -> tuple[TableEncoder, Iterator[Batch]]:
        """Return this encoder extended by the new values of these batches, and the encoded rows, as above.

        A new value gets a feature if it occurs min_count times in these batches; numbers are scaled and binned as
        before.
        """
        # others="ignore": columns that are new in these batches have no feature in the model
        kept, spec = Spill(room, arrays_of_batch, batch_of_arrays, bytes_of_batch), replace(self.spec, others="ignore")
        if not targets:
            spec = replace(spec, label=None, weight=None, clicks=None, impressions=None)
        _, learners = self._learn(self._checked(batches), spec, None, kept)
        columns = tuple(one.grow(column) for one, column in zip(learners, self.columns))
        return replace(self, columns=columns), TableEncoder(spec, columns)._replayed(learners, kept, targets)

    def _checked(self, batches: Any) -> Iterator[pa.RecordBatch]:
        for row, block in _with_first_rows(_blocks(batches)):
            self.check_columns(block.schema.names)
            for column in self.columns:
                place, cells = block.schema.get_field_index(column.name), cells_of(block, column.name)
                if (learned := column.as_learned(cells, row)) is not cells:
                    block = block.set_column(place, column.name, learned)
            yield block

    def ids_in(self, grown: TableEncoder) -> np.ndarray:
        """Return the id of each feature in an encoder grown from this one.

        >>> old = TableEncoder.learn(pa.table({"city": ["Rome", None], "day": ["Mon", "Tue"]}))
        >>> new, _ = old.grow_then_encode(pa.table({"city": ["Oslo", "Rome"], "day": ["Tue", "Wed"]}))
        >>> new.feature_names()
        ['city=Rome', 'city=Oslo', 'city=<missing>', 'day=Mon', 'day=Tue', 'day=Wed']
        >>> old.ids_in(new)
        array([0, 2, 3, 4])
        """
        pairs = zip(grown.first_ids, self.columns, grown.columns)
        return np.concatenate([np.zeros(0, np.int64), *(first + old.codes_in(new) for first, old, new in pairs)])

    def _replayed(self, learners: list[ColumnLearner], kept: Spill, targets: bool) -> Iterator[Batch]:
        """Yield the encoded rows that the encoder was fitted to."""
        names = self.spec.targets()
        replays = [one.replay(column) for one, column in zip(learners, self.columns)]

        def rows_of(placed: tuple[int, pa.RecordBatch]) -> Batch:
            row, block = placed
            own = zip(self.first_ids, replays, block.columns[len(names) :])
            slots = [(first, slot) for first, replay, cells in own for slot in replay(cells, row)]
            rows = Batch(*assemble(slots, block.num_rows, self.n_features), self.n_features)
            named = pa.RecordBatch.from_arrays(block.columns[: len(names)], names)
            return with_targets(rows, named, self.spec, row) if targets else rows

        return map_ahead(rows_of, _with_first_rows(kept.taken()))

    @classmethod
    def _learn(
        cls, batches: Any, spec: TableSpec | None, report: Callable[[str], Any] | None, kept: Spill | None
    ) -> tuple[TableEncoder, list[ColumnLearner]]:
        """Return the encoder and the learners of its columns; append what replays the rows to `kept`, if given."""
        sample, blocks = take_sample(batches)
        if sample is None:
            raise DataValueError("there are no rows to learn the columns from")
        named = {column.name for column in spec.columns} if spec else set()
        spec, whole = _complete(spec or TableSpec(), sample, report)
        learners = [
            ColumnLearner(column, spec, column.name in whole) for column in spec.columns if column.kind != "ignore"
        ]
        n_rows = 0
        with ThreadPoolExecutor(THREADS) as pool:

            def learn(placed: tuple[int, pa.RecordBatch]) -> tuple[pa.RecordBatch, list[pa.Array]]:
                row, block = placed
                return block, share_out(pool, lambda one: one.update(block, row), learners)

            # One thread ahead: blocks must be learned in order, while their columns are shared out to the pool.
            for block, cells in map_ahead(learn, _with_first_rows(blocks), threads=1):
                n_rows += block.num_rows
                if kept is not None:
                    columns = [*block.select(spec.targets()).columns, *cells]
                    kept.append(pa.RecordBatch.from_arrays(columns, list(map(str, range(len(columns))))))
            longest_first = sorted(learners, key=lambda one: -one.n_words)  # or the longest might run alone at the end
            warn_of_keys([one for one in longest_first if one.spec.name not in named], n_rows)
            finished = dict(zip(longest_first, pool.map(ColumnLearner.finish, longest_first)))
            return cls(spec, tuple(finished[one] for one in learners)), learners

    @cached_property
    def first_ids(self) -> list[int]:
        """Id of the first feature of each column, followed by the number of features."""
        return [0, *accumulate(column.n_features for column in self.columns)]

    @property
    def n_features(self) -> int:
        return self.first_ids[-1]

    def fields(self) -> Fields:
        """Return the fields of the features: the columns.

        >>> encoder = TableEncoder.learn(pa.table({"city": ["Rome", "Oslo"], "sky": ["grey", "grey"]}))
        >>> [encoder.fields().names[number] for number in encoder.fields().of(np.arange(3))]
        ['city', 'city', 'sky']
        """
        return Fields.of_ranges([column.name for column in self.columns], self.first_ids)

    def feature_names(self) -> list[str]:
        """Return the names of all features, ordered by id."""
        return [column.feature_name(code) for column in self.columns for code in range(column.n_features)]

    def feature_name(self, id: int) -> str:
        """Return the name of one feature."""
        if not 0 <= id < self.n_features:
            raise IndexError(f"feature {id} of {self.n_features}")
        place = int(np.searchsorted(self.first_ids, id, side="right")) - 1
        return self.columns[place].feature_name(id - self.first_ids[place])

    def reader_columns(self) -> dict[str, str]:
        """Return how a text reader must read each column, so that types are the same as in training.

        >>> TableEncoder.learn(pa.table({"city": ["Rome"], "user": [7]})).reader_columns()
        {'city': 'text', 'user': 'text'}
        """
        ignored = {column.name: "ignore" for column in self.spec.columns if column.kind == "ignore"}
        read_as = {"text": "text", "number": "number", "time": "text"}  # in text a time looks like any other text
        types = {column.name: read_as.get(column.cell_type, column.kind) for column in self.columns}
        names = {
            column.name: "text" for column in self.columns if column.kind == "category"
        }  # so that long ids stay exact
        return {**types, **names, **ignored, **dict.fromkeys(self.spec.targets(), "number")}

    def encode(
        self,
        table: pa.Table | pa.RecordBatch,
        *,
        targets: bool = True,
        coverage: Coverage | None = None,
        first_row: int = 0,
    ) -> Batch:
        """Encode a table with these columns, in any order; unseen values are dropped or encoded as <rare>.

        targets: add labels and weights, if the table has their columns. A row of clicks and impressions then becomes up
        to two rows. coverage: if given, counts known and unseen values. first_row: number of the first row in messages.
        """
        self.check_columns(table.schema.names)
        coverage = Coverage() if coverage is None else coverage
        parts, row = [], first_row
        for block in _blocks(table):
            slots = [column.slots(cells_of(block, column.name), row) for column in self.columns]
            if self.spec.missing == "error":
                self._check_missing(slots, row)
            parts.append(self._assemble(slots, block.num_rows, coverage))
            row += block.num_rows
        indptr, indices, values = _join(parts)
        rows = Batch(indptr, indices, np.require(values, requirements="W"), self.n_features)
        return with_targets(rows, table, self.spec, first_row) if targets else rows

    def _assemble(self, slots: list[list[Slot]], n_rows: int, coverage: Coverage) -> _Rows:
        """Return the rows made of the slots of all columns, and count their values."""
        placed: list[tuple[int, Slot]] = []
        for first, column, own in zip(self.first_ids, self.columns, slots):
            counts = np.zeros(4, np.int64)
            placed += [(first, slot) for slot in column.finalize(own, counts)]
            coverage.add(column.name, counts)
        return assemble(placed, n_rows, self.n_features)

    def _check_missing(self, slots: list[list[Slot]], row: int) -> None:
        for column, own in zip(self.columns, slots):
            missing = np.flatnonzero(own[0].codes == NULL)
            if missing.size:
                offsets = own[0].offsets
                # the position in a list column counts elements, not rows
                at = int(np.searchsorted(offsets, missing[0], "right")) - 1 if offsets.size else int(missing[0])
                refuse_missing(column.name, row + at)

    def check_columns(self, names: Sequence[str]) -> None:
        """Reject a table without a column that the encoder uses; warn, once, of columns that it does not know."""
        _check_names(names)
        given = set(names)
        wanted = [column.name for column in self.columns]
        missing = next((name for name in wanted if name not in given), None)
        if missing is not None:
            raise DataValueError(f"column {missing!r} is missing; the model was trained with {_listed(wanted)}")
        ignored = (column.name for column in self.spec.columns if column.kind == "ignore")
        known = {*wanted, *ignored, *self.spec.targets(), *self._warned}
        extra = [name for name in names if name not in known]
        if extra and self.spec.others == "auto":
            self._warned.update(extra)
            message = f"ignoring columns that the model was not trained with: {_listed(extra)}"
            warnings.warn(message, stacklevel=caller_level())


def _blocks(batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield non-empty blocks of at most BLOCK_ROWS rows."""
    if isinstance(batches, pa.Table):
        batches = _joined(batches)
    for batch in [batches] if isinstance(batches, pa.RecordBatch) else batches:
        for at in range(0, batch.num_rows, BLOCK_ROWS):
            yield batch.slice(at, BLOCK_ROWS)


def _with_first_rows(blocks: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield every block with the number of its first row."""
    row = 0
    for block in blocks:
        yield row, block
        row += block.num_rows


def _joined(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a table; join small ones, since each batch costs some calls per column."""
    n_chunks = max((column.num_chunks for column in table.columns), default=1)
    if n_chunks * FEW_ROWS <= table.num_rows:
        yield from table.to_batches()
        return
    for at in range(0, table.num_rows, BLOCK_ROWS):
        yield from table.slice(at, BLOCK_ROWS).combine_chunks().to_batches()


def take_sample(
    batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
) -> tuple[pa.Table | pa.RecordBatch | None, Iterator[pa.RecordBatch]]:
    """Return the rows that kinds are chosen by, None without any, and an iterator of all rows in blocks.

    The sample of a table in memory has all its rows, that of a file the first ones.
    """
    blocks = _blocks(batches)
    if isinstance(batches, pa.Table | pa.RecordBatch):
        return (batches if batches.num_rows else None), blocks
    taken: list[pa.RecordBatch] = []
    n_rows = n_bytes = 0
    try:
        for block in blocks:
            taken.append(block)
            n_rows, n_bytes = n_rows + block.num_rows, n_bytes + bytes_of_batch(block)
            if n_rows >= SAMPLE_ROWS or n_bytes >= SAMPLE_BYTES or block.schema != taken[0].schema:
                break
    except (RafmError, OSError) as error:
        if not taken:
            raise
        blocks = _failing(error)  # after the rows before it
    alike = [block for block in taken if block.schema == taken[0].schema]  # others are refused as they are learned
    return (pa.Table.from_batches(alike)[:SAMPLE_ROWS] if alike else None), chain(taken, blocks)


def _failing(error: Exception) -> Iterator[pa.RecordBatch]:
    raise error
    yield


def _complete(
    spec: TableSpec, sample: pa.Table | pa.RecordBatch, report: Callable[[str], Any] | None
) -> tuple[TableSpec, set[str]]:
    """Return the spec with all columns, choosing kinds for those that it does not name; and which must be whole."""
    names = sample.schema.names
    _check_names(names)
    given = set(names)
    named = [*(column.name for column in spec.columns if column.kind != "ignore"), *spec.targets()]
    unknown = next((name for name in named if name not in given), None)
    if unknown is not None:
        check_known(unknown, names, "column")
    known = {*named, *(column.name for column in spec.columns)}  # ignored ones too, which the reader may have dropped
    rest = [] if spec.others == "ignore" else [place for place, name in enumerate(names) if name not in known]
    types, sample = dict(zip(names, sample.schema.types)), sample.select(rest)
    choices = choose_kinds(sample.schema, sample)
    if report is not None and choices:
        report(describe_choices([*_given_choices(spec, types), *choices]))
    warn_of_kinds(choices, sample.schema.metadata)
    columns = sorted((*spec.columns, *(choice.column for choice in choices)), key=lambda column: column.name)
    return replace(spec, columns=tuple(columns)), {choice.column.name for choice in choices if choice.must_be_whole}


def _given_choices(spec: TableSpec, types: dict[str, pa.DataType]) -> list[Choice]:
    return [Choice(column, str(types[column.name]), "as given") for column in spec.columns if column.name in types]


def _check_names(names: Sequence[str]) -> None:
    twice = first_repeated(names)
    if twice is not None:
        raise DataValueError(f"two columns are named {twice!r}; rename or drop one")


def _join(parts: list[_Rows]) -> _Rows:
    """Concatenate blocks of rows."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    starts = accumulate((part[0][-1] for part in parts), initial=0)
    indptr = [part[0][1:] + start for part, start in zip(parts, starts)]
    indices, values = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return np.concatenate([[0], *indptr]), indices, values


def _listed(names: Sequence[str]) -> str:
    """Return the first names, made printable, since warnings go to the terminal as they are."""
    return printable(", ".join(names[:10])) + (", ..." if len(names) > 10 else "")
