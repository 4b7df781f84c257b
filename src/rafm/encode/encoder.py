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

from ..errors import DataValueError, caller_level
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
from .crosses import Cross, can_cross, check_crosses, learn_crosses, places_of
from .doubts import warn_of_keys, warn_of_kinds
from .infer import Choice, choose_kinds, describe_choices
from .interning import NULL
from .screening import by_block, choose_pairs, sampled_rows
from .spec import TableSpec, check_known, first_repeated
from .table_blocks import blocks_of, take_sample, with_first_rows
from .targets import Targets, sampled_targets, with_targets

NO_CODES = np.zeros(0, np.int32)
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
    crosses: tuple[Cross, ...] = ()  # whose features follow those of the columns
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
        if spec is not None and spec.cross != "off":
            return cls.learn_then_encode(batches, spec, report)[0]
        return cls._learn(batches, spec, report, None)[0]

    @classmethod
    def learn_encode(
        cls,
        batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        spec: TableSpec | None = None,
        report: Callable[[str], Any] | None = None,
        targets: bool = True,
        chosen_by: Targets | None = None,
    ) -> tuple[TableEncoder, Batch]:
        """Fit an encoder and return it with the encoded rows, reading the batches once; chosen_by: as below."""
        encoder, rows = cls.learn_then_encode(batches, spec, report, targets, chosen_by=chosen_by)
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
        chosen_by: Targets | None = None,
    ) -> tuple[TableEncoder, Iterator[Batch]]:
        """Fit an encoder and return it with an iterator of the encoded rows; the batches are read once.

        Until then the codes, but no texts, are kept in `room`. chosen_by: labels and weights that choose conjunctions,
        if they are not columns of the table.
        """
        kept = Spill(room, arrays_of_batch, batch_of_arrays, bytes_of_batch)
        encoder, learners = cls._learn(batches, spec, report, kept)
        if encoder.spec.cross == "auto":
            encoder = encoder._with_pairs(learners, kept, chosen_by)
            if report is not None:
                report(f"conjunctions: {', '.join(map('*'.join, encoder.spec.crosses)) or 'none is worth it'}")
        codes = encoder._kept_codes(learners, kept, chain(*encoder.spec.crosses)) if encoder.spec.crosses else ()
        encoder = replace(encoder, crosses=learn_crosses(encoder.spec, encoder.columns, codes))
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
        grown = TableEncoder(spec, columns)
        codes = grown._kept_codes(learners, kept, chain(*spec.crosses)) if self.crosses else ()
        grown = replace(grown, crosses=learn_crosses(self.spec, columns, codes, self.crosses))
        return replace(self, columns=columns, crosses=grown.crosses), grown._replayed(learners, kept, targets)

    def _checked(self, batches: Any) -> Iterator[pa.RecordBatch]:
        for row, block in with_first_rows(blocks_of(batches)):
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
        pairs = zip(grown.first_ids, self.parts, grown.parts)
        return np.concatenate([np.zeros(0, np.int64), *(first + old.codes_in(new) for first, old, new in pairs)])  # type: ignore[arg-type]

    def _replayed(self, learners: list[ColumnLearner], kept: Spill, targets: bool) -> Iterator[Batch]:
        """Yield the encoded rows that the encoder was fitted to."""
        names = self.spec.targets()
        replays = [one.replay(column) for one, column in zip(learners, self.columns)]

        def rows_of(placed: tuple[int, pa.RecordBatch]) -> Batch:
            row, block = placed
            slots = self._placed([replay(cells, row) for replay, cells in zip(replays, block.columns[len(names) :])])
            rows = Batch(*assemble(slots, block.num_rows, self.n_features), self.n_features)
            named = pa.RecordBatch.from_arrays(block.columns[: len(names)], names)
            return with_targets(rows, named, self.spec, row) if targets else rows

        return map_ahead(rows_of, with_first_rows(kept.taken()))

    def _with_pairs(self, learners: list[ColumnLearner], kept: Spill, targets: Targets | None) -> TableEncoder:
        """Return an encoder with the pairs of columns that are worth it, judged by a sample of rows."""
        names = [column.name for column in self.columns if can_cross(column)]
        sizes = [kept[number].num_rows for number in range(len(kept))]
        rows = sampled_rows(sum(sizes), len(names))
        own = by_block(rows, sizes)
        if targets is not None:
            targets = targets[0][rows], targets[1][rows]
        else:
            targets = sampled_targets(self.spec, (kept[number] for number in range(len(kept))), own)
        pairs: list[tuple[int, int]] = []
        if targets is not None:
            blocks = zip(own, self._kept_codes(learners, kept, names))
            taken = [[one[places] for one in codes if one.size] for places, codes in blocks]
            pairs = choose_pairs([np.concatenate(parts) for parts in zip(*taken)], *targets)
        return replace(self, spec=replace(self.spec, cross=tuple((names[a], names[b]) for a, b in pairs)))

    def _kept_codes(
        self, learners: list[ColumnLearner], kept: Spill, names: Iterable[str]
    ) -> Iterator[list[np.ndarray]]:
        """Yield the codes of the columns with these names by block of rows; of others, none."""
        first, used = len(self.spec.targets()), set(names)
        replays = [(one.replay(column), column.name in used) for one, column in zip(learners, self.columns)]

        def codes_of(placed: tuple[int, pa.RecordBatch]) -> list[np.ndarray]:
            row, block = placed
            own = zip(replays, block.columns[first:])
            return [replay(cells, row)[0].codes if needed else NO_CODES for (replay, needed), cells in own]

        return map_ahead(codes_of, with_first_rows(kept[number] for number in range(len(kept))))

    def _placed(self, slots: list[list[Slot]]) -> list[tuple[int, Slot]]:
        """Return the final slots of columns, and those of conjunctions, each with its first feature."""
        own = [[cross.slot([slots[place][0].codes for place in places])] for cross, places in self._crossed]
        return [(first, slot) for first, several in zip(self.first_ids, [*slots, *own]) for slot in several]

    @cached_property
    def _crossed(self) -> list[tuple[Cross, list[int]]]:
        """Each conjunction, and the places of its columns."""
        names = ([column.name for column in cross.columns] for cross in self.crosses)
        return [(cross, places_of(own, self.columns)) for cross, own in zip(self.crosses, names)]

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
        check_crosses(spec)
        learners = [
            ColumnLearner(column, spec, column.name in whole) for column in spec.columns if column.kind != "ignore"
        ]
        n_rows = 0
        with ThreadPoolExecutor(THREADS) as pool:

            def learn(placed: tuple[int, pa.RecordBatch]) -> tuple[pa.RecordBatch, list[pa.Array]]:
                row, block = placed
                return block, share_out(pool, lambda one: one.update(block, row), learners)

            # One thread ahead: blocks must be learned in order, while their columns are shared out to the pool.
            for block, cells in map_ahead(learn, with_first_rows(blocks), threads=1):
                n_rows += block.num_rows
                if kept is not None:
                    columns = [*block.select(spec.targets()).columns, *cells]
                    kept.append(pa.RecordBatch.from_arrays(columns, list(map(str, range(len(columns))))))
            longest_first = sorted(learners, key=lambda one: -one.n_words)  # or the longest might run alone at the end
            warn_of_keys([one for one in longest_first if one.spec.name not in named], n_rows)
            finished = dict(zip(longest_first, pool.map(ColumnLearner.finish, longest_first)))
            return cls(spec, tuple(finished[one] for one in learners)), learners

    @property
    def parts(self) -> tuple[Column | Cross, ...]:
        """The columns, followed by their conjunctions."""
        return (*self.columns, *self.crosses)

    @cached_property
    def first_ids(self) -> list[int]:
        """Id of the first feature of each part, followed by the number of features."""
        return [0, *accumulate(part.n_features for part in self.parts)]

    @property
    def n_features(self) -> int:
        return self.first_ids[-1]

    def fields(self) -> Fields:
        """Return the fields of the features: the columns and conjunctions.

        >>> encoder = TableEncoder.learn(pa.table({"city": ["Rome", "Oslo"], "sky": ["grey", "grey"]}))
        >>> [encoder.fields().names[number] for number in encoder.fields().of(np.arange(3))]
        ['city', 'city', 'sky']
        """
        return Fields.of_ranges([part.name for part in self.parts], self.first_ids)

    def feature_names(self) -> list[str]:
        """Return the names of all features, ordered by id."""
        return [part.feature_name(code) for part in self.parts for code in range(part.n_features)]

    def feature_name(self, id: int) -> str:
        """Return the name of one feature."""
        if not 0 <= id < self.n_features:
            raise IndexError(f"feature {id} of {self.n_features}")
        place = int(np.searchsorted(self.first_ids, id, side="right")) - 1
        return self.parts[place].feature_name(id - self.first_ids[place])

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
        for block in blocks_of(table):
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
        final = []
        for column, own in zip(self.columns, slots):
            counts = np.zeros(4, np.int64)
            final.append(column.finalize(own, counts))
            coverage.add(column.name, counts)
        return assemble(self._placed(final), n_rows, self.n_features)

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
