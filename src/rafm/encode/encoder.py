"""Tables -> rows of features, as a TableSpec says. See docs/encoding.md.

Features of a column have consecutive ids, columns come by name and values in a fixed order, so neither the order of
columns nor that of rows changes what a value is encoded as.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa

from ..errors import DataValueError
from ..rows.arrow import array_of, arrays_of_batch, batch_of_arrays, numbers_of
from ..rows.blocks import join_rows
from ..rows.checked import Batch, read_only
from ..rows.prefetch import THREADS, map_ahead, share_out
from ..rows.spill import Room, Spill
from .assemble import Slot, assemble, resolve, take_codes
from .casts import family
from .coders import Coder, Lists, Number, Words
from .coverage import Coverage
from .infer import choose_kinds, describe_choices
from .interning import NULL
from .learners import CodeLearner, WordLearner, learner_of
from .spec import ColumnSpec, TableSpec, check_known
from .targets import with_targets

MISSING, RARE = "<missing>", "<rare>"
BLOCK_ROWS = 1 << 16  # rows encoded at once: a column of them stays in the cache
FEW_ROWS = 1 << 13
SAMPLE_ROWS = 20_000  # rows that kinds are chosen by
ALLOWED = {  # families of cells that a kind can take
    "category": ("text", "number", "boolean", "time"),
    "number": ("number", "boolean"),
    "bins": ("number", "boolean"),
    "log_bins": ("number", "boolean"),
    "datetime": ("time", "text", "number"),
    "list": ("list", "text"),
}
_Rows = tuple[np.ndarray, np.ndarray, np.ndarray]  # indptr, indices, values
ALL_ROOM = Room(megabytes=float("inf"))


@dataclass(frozen=True)
class Column:
    """A column that has been learnt: after the features of its coder come one for rare and one for missing values.

    family: what its cells held in training, as `casts.family` has it.
    """

    spec: ColumnSpec
    family: str
    coder: Coder
    has_rare: bool
    has_missing: bool

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def kind(self) -> str:
        return self.spec.kind

    @property
    def n_features(self) -> int:
        return self.coder.n_values + self.has_rare + self.has_missing

    def feature_name(self, code: int) -> str:
        """Return `column=value`, or the column's name if it is a number."""
        name = self.name.replace("\\", "\\\\").replace("=", "\\=")
        if code >= self.coder.n_values:
            return f"{name}={RARE if self.has_rare and code == self.coder.n_values else MISSING}"
        return name if isinstance(self.coder, Number) else f"{name}={self.coder.value_name(code)}"

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Return the codes of cells, of which the first is in this row."""
        self._check_type(cells.type)
        return self.coder.slots(cells, row)

    def resolve(self, slots: list[Slot], tally: np.ndarray) -> list[Slot]:
        """Return the slots with codes of rare and missing values, and count them."""
        rare = self.coder.n_values if self.has_rare else -1
        null = self.coder.n_values + self.has_rare if self.has_missing else -1
        rest = np.zeros(4, np.int64)  # a time counts once, not as hour and weekday
        return [resolve(slot, rare, null, rest if i else tally) for i, slot in enumerate(slots)]

    def grown(self, other: Column) -> Column:
        """Return this column with the values of another that it does not have; numbers and bins stay as they are."""
        if self.family != other.family and "nothing" not in (self.family, other.family):
            raise DataValueError(f"column {self.name!r} was {self.family} in training, now it is {other.family}")
        return replace(
            self,
            family=other.family if self.family == "nothing" else self.family,
            coder=_grown_coder(self.coder, other.coder),
            has_rare=self.has_rare or other.has_rare,
            has_missing=self.has_missing or other.has_missing,
        )

    def codes_in(self, grown: Column) -> np.ndarray:
        """Return what the codes of this column are in one that grew from it."""
        ends = [grown.coder.n_values] * self.has_rare + [grown.coder.n_values + grown.has_rare] * self.has_missing
        return np.array([*range(self.coder.n_values), *ends], np.int64)

    def _check_type(self, found: pa.DataType) -> None:
        _check_kind(self.spec, found)
        if self.family != family(found) and "nothing" not in (self.family, family(found)):
            raise DataValueError(f"column {self.name!r} was {self.family} in training, now its type is {found}")


def _grown_coder(old: Coder, new: Coder) -> Coder:
    if isinstance(old, Lists) and isinstance(new, Lists):
        both = isinstance(old.words, Words) and isinstance(new.words, Words)
        return replace(old, words=old.words.grown(new.words)) if both else old  # type: ignore[attr-defined]
    return old.grown(new) if isinstance(old, Words) and isinstance(new, Words) else old


class _Learning:
    """A column while it is learnt."""

    def __init__(self, spec: ColumnSpec, table: TableSpec):
        self.spec, self.table, self.learner = spec, table, learner_of(spec, table)
        self.family, self.has_missing = "nothing", False

    def update(self, block: pa.RecordBatch, row: int) -> pa.Array:
        """Learn from the column's cells in a block; return them in a form that `recall` encodes later."""
        cells = _cells(block, self.spec.name)
        _check_kind(self.spec, cells.type)
        found = family(cells.type)
        if self.family == "nothing":
            self.family = found
        if found not in (self.family, "nothing"):
            raise DataValueError(
                f"column {self.spec.name!r} was {self.family}, but from row {row} on it is {cells.type}"
            )
        missing = self.learner.update(cells, row)
        if missing >= 0:
            self.has_missing = True
            if self.table.missing == "error":
                _refuse_missing(self.spec.name, row + missing)
        return _kept_codes(self.learner.codes) if isinstance(self.learner, CodeLearner) else cells

    @property
    def n_words(self) -> int:
        """How many distinct words there are so far, which is what takes time to finish."""
        return len(self.learner) if isinstance(self.learner, WordLearner) else 0

    def finish(self) -> Column:
        """Return the column."""
        coder, left_out = self.learner.finish()
        has_rare = left_out and self.table.rare == "shared"
        return Column(self.spec, self.family, coder, has_rare, self.has_missing)

    def grow(self, old: Column) -> Column:
        """Return an old column with what is new here, and recall cells by its codes."""
        column = old.grown(self.finish())
        if isinstance(self.learner, CodeLearner):
            self.learner.recode(column.coder)
        return column

    def recaller(self, column: Column) -> Callable[[pa.Array, int], list[Slot]]:
        """Return what makes resolved slots of kept cells that were learnt from, of which the first is in a row."""
        tally = np.zeros(4, np.int64)
        if not isinstance(self.learner, CodeLearner):
            return lambda kept, row: column.resolve(column.slots(kept, row), tally)
        [codes] = column.resolve([Slot(self.learner.final_codes.copy())], tally)
        return lambda kept, row: [Slot(_taken(codes.codes, numbers_of(kept)))]


def _taken(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    out = np.empty(codes.size, table.dtype)
    take_codes(table, read_only(codes), out)
    return out


def _kept_codes(codes: np.ndarray) -> pa.Array:
    """Return codes as an array of 2 bytes each, where they fit."""
    return array_of(codes, np.int16 if codes.max(initial=0) < 2**15 else np.int32)


@dataclass(frozen=True)
class TableEncoder:
    """Encodes tables with the columns it has learnt.

    >>> table = pa.table({"city": ["Rome", "Oslo", None], "age": [30.5, 40.0, 50.5]})
    >>> encoder = TableEncoder.learn(table)
    >>> encoder.feature_names()
    ['age', 'city=Oslo', 'city=Rome', 'city=<missing>']
    >>> encoder.encode(table).indices
    array([0, 2, 0, 1, 0, 3], dtype=int32)
    """

    spec: TableSpec
    columns: tuple[Column, ...]
    _told: set[str] = field(default_factory=set, repr=False, compare=False)

    @classmethod
    def learn(
        cls,
        batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        spec: TableSpec | None = None,
        report: Callable[[str], Any] | None = None,
    ) -> TableEncoder:
        """Return the encoder of a table, or of batches that are read once and not kept.

        report: called with a text that says which kinds were chosen and why, such as `print`.
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
        """Return the encoder and the encoded rows, reading them only once."""
        encoder, rows = cls.learn_then_encode(batches, spec, report, targets)
        batch = join_rows(list(rows))
        return encoder, replace(batch, values=np.require(batch.values, requirements="W"))

    @classmethod
    def learn_then_encode(
        cls,
        batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        spec: TableSpec | None = None,
        report: Callable[[str], Any] | None = None,
        targets: bool = True,
        room: Room = ALL_ROOM,
    ) -> tuple[TableEncoder, Iterator[Batch]]:
        """Return the encoder and the encoded rows, in pieces, reading the batches once and before this returns.

        Meanwhile codes are kept, but no texts, in the room that is given.
        """
        kept = Spill(room, arrays_of_batch, batch_of_arrays)
        encoder, learning = cls._learn(batches, spec, report, kept)
        return encoder, encoder._recalled(learning, kept, targets)

    def grow_then_encode(
        self,
        batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch],
        targets: bool = True,
        room: Room = ALL_ROOM,
    ) -> tuple[TableEncoder, Iterator[Batch]]:
        """Return this encoder with the values that are new in these batches, and the encoded rows, as above.

        Values get a feature by the rule of training, min_count in these batches; numbers are scaled and binned as
        before.
        """
        kept, spec = Spill(room, arrays_of_batch, batch_of_arrays), replace(self.spec, others="ignore")
        if not targets:
            spec = replace(spec, label=None, weight=None, clicks=None, impressions=None)
        _, learning = self._learn(self._checked(batches), spec, None, kept)
        columns = tuple(one.grow(column) for one, column in zip(learning, self.columns))
        return replace(self, columns=columns), TableEncoder(spec, columns)._recalled(learning, kept, targets)

    def _checked(self, batches: Any) -> Iterator[pa.RecordBatch]:
        for block in _blocks(batches):
            self._check_columns(block.schema.names)
            yield block

    def ids_in(self, grown: TableEncoder) -> np.ndarray:
        """Return the id of each feature in an encoder that grew from this one.

        >>> old = TableEncoder.learn(pa.table({"city": ["Rome", None], "day": ["Mon", "Tue"]}))
        >>> new, _ = old.grow_then_encode(pa.table({"city": ["Oslo", "Rome"], "day": ["Tue", "Wed"]}))
        >>> new.feature_names()
        ['city=Rome', 'city=Oslo', 'city=<missing>', 'day=Mon', 'day=Tue', 'day=Wed']
        >>> old.ids_in(new)
        array([0, 2, 3, 4])
        """
        pairs = zip(grown.first_ids, self.columns, grown.columns)
        return np.concatenate([np.zeros(0, np.int64), *(first + old.codes_in(new) for first, old, new in pairs)])

    def _recalled(self, learning: list[_Learning], kept: Spill, targets: bool) -> Iterator[Batch]:
        """Yield the rows that were learnt from."""
        names = self.spec.targets()
        recallers = [one.recaller(column) for one, column in zip(learning, self.columns)]

        def rows_of(placed: tuple[int, pa.RecordBatch]) -> Batch:
            row, block = placed
            own = zip(self.first_ids, recallers, block.columns[len(names) :])
            slots = [(first, slot) for first, recall, cells in own for slot in recall(cells, row)]
            rows = Batch(*assemble(slots, block.num_rows, self.n_features), self.n_features)
            named = pa.RecordBatch.from_arrays(block.columns[: len(names)], names)
            return with_targets(rows, named, self.spec, row) if targets else rows

        return map_ahead(rows_of, _with_first_rows(kept.taken()))

    @classmethod
    def _learn(
        cls, batches: Any, spec: TableSpec | None, report: Callable[[str], Any] | None, kept: Spill | None
    ) -> tuple[TableEncoder, list[_Learning]]:
        """Return the encoder and how it was learnt; unless kept is None, put there what encodes the rows later."""
        blocks = _blocks(batches)
        first = next(blocks, None)
        if first is None:
            raise DataValueError("there are no rows to learn the columns from")
        spec = _complete(spec or TableSpec(), first, report)
        learning = [_Learning(column, spec) for column in spec.columns if column.kind != "ignore"]
        with ThreadPoolExecutor(THREADS) as pool:

            def learn(placed: tuple[int, pa.RecordBatch]) -> tuple[pa.RecordBatch, list[pa.Array]]:
                row, block = placed
                return block, share_out(pool, lambda one: one.update(block, row), learning)

            for block, cells in map_ahead(learn, _with_first_rows(chain([first], blocks)), threads=1):  # in order
                if kept is not None:
                    columns = [*block.select(spec.targets()).columns, *cells]
                    kept.append(pa.RecordBatch.from_arrays(columns, list(map(str, range(len(columns))))))
            longest_first = sorted(learning, key=lambda one: -one.n_words)
            finished = dict(zip(longest_first, pool.map(_Learning.finish, longest_first)))
            return cls(spec, tuple(finished[one] for one in learning)), learning

    @cached_property
    def first_ids(self) -> list[int]:
        """The id of each column's first feature, and at the end the number of features."""
        return [0, *accumulate(column.n_features for column in self.columns)]

    @property
    def n_features(self) -> int:
        return self.first_ids[-1]

    def feature_names(self) -> list[str]:
        """Return the names of all features, in the order of their ids."""
        return [column.feature_name(code) for column in self.columns for code in range(column.n_features)]

    def feature_name(self, id: int) -> str:
        """Return the name of one feature."""
        if not 0 <= id < self.n_features:
            raise IndexError(f"feature {id} of {self.n_features}")
        place = int(np.searchsorted(self.first_ids, id, side="right")) - 1
        return self.columns[place].feature_name(id - self.first_ids[place])

    def reader_columns(self) -> dict[str, str]:
        """Return what a reader of text must read each column as, so that its type is that of training.

        >>> TableEncoder.learn(pa.table({"city": ["Rome"], "user": [7]})).reader_columns()
        {'city': 'text', 'user': 'number'}
        """
        ignored = {column.name: "ignore" for column in self.spec.columns if column.kind == "ignore"}
        types = {column.name: column.family for column in self.columns if column.family in ("text", "number")}
        return {**types, **ignored, **dict.fromkeys(self.spec.targets(), "number")}

    def encode(
        self,
        table: pa.Table | pa.RecordBatch,
        *,
        targets: bool = True,
        coverage: Coverage | None = None,
        first_row: int = 0,
    ) -> Batch:
        """Return the rows of a table that has these columns, in any order; unseen values are left out.

        targets: with labels and weights, if the table has the columns that the specification names. A row with clicks
        and impressions then becomes up to two. coverage: where known and unseen values are counted. first_row: what
        errors call the first of the rows.
        """
        self._check_columns(table.schema.names)
        coverage = Coverage() if coverage is None else coverage
        parts, row = [], first_row
        for block in _blocks(table):
            slots = [column.slots(_cells(block, column.name), row) for column in self.columns]
            if self.spec.missing == "error":
                self._check_missing(slots, row)
            parts.append(self._assemble(slots, block.num_rows, coverage))
            row += block.num_rows
        indptr, indices, values = _join(parts)
        rows = Batch(indptr, indices, np.require(values, requirements="W"), self.n_features)
        return with_targets(rows, table, self.spec, first_row) if targets else rows

    def _assemble(self, slots: list[list[Slot]], n_rows: int, coverage: Coverage) -> _Rows:
        """Return the rows that hold the slots of all columns, and count what is in them."""
        placed: list[tuple[int, Slot]] = []
        for first, column, own in zip(self.first_ids, self.columns, slots):
            tally = np.zeros(4, np.int64)
            placed += [(first, slot) for slot in column.resolve(own, tally)]
            coverage.add(column.name, tally)
        return assemble(placed, n_rows, self.n_features)

    def _check_missing(self, slots: list[list[Slot]], row: int) -> None:
        for column, own in zip(self.columns, slots):
            missing = np.flatnonzero(own[0].codes == NULL)
            if missing.size:
                offsets = own[0].offsets
                at = int(np.searchsorted(offsets, missing[0], "right")) - 1 if offsets.size else int(missing[0])
                _refuse_missing(column.name, row + at)

    def _check_columns(self, names: Sequence[str]) -> None:
        _check_names(names)
        wanted = [column.name for column in self.columns]
        missing = [name for name in wanted if name not in names]
        if missing:
            raise DataValueError(f"column {missing[0]!r} is missing; the model was trained with {_listed(wanted)}")
        ignored = [column.name for column in self.spec.columns if column.kind == "ignore"]
        extra = [name for name in names if name not in {*wanted, *ignored, *self.spec.targets(), *self._told}]
        if extra and self.spec.others == "auto":
            self._told.update(extra)
            told = f"columns that the model does not know are left out: {_listed(extra)}"
            warnings.warn(told, stacklevel=_frames_of_ours())


def _frames_of_ours() -> int:
    """Return how far up stands whoever called the library, for a warning to point there."""
    frame, level = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in ("rafm", "sklearn"):
        frame, level = frame.f_back, level + 1
    return level


def _blocks(batches: pa.Table | pa.RecordBatch | Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in blocks of bounded size, none of them empty."""
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
    """Yield the batches of a table; small ones are joined, because each costs some calls per column."""
    n_chunks = max((column.num_chunks for column in table.columns), default=1)
    if n_chunks * FEW_ROWS <= table.num_rows:
        yield from table.to_batches()
        return
    for at in range(0, table.num_rows, BLOCK_ROWS):
        yield from table.slice(at, BLOCK_ROWS).combine_chunks().to_batches()


def _complete(spec: TableSpec, first: pa.RecordBatch, report: Callable[[str], Any] | None) -> TableSpec:
    """Return the specification with all columns, choosing kinds for those that it does not name."""
    names = first.schema.names
    _check_names(names)
    ignored = [column.name for column in spec.columns if column.kind == "ignore"]  # a reader may have left them out
    named = [*(column.name for column in spec.columns if column.kind != "ignore"), *spec.targets()]
    for name in named:
        check_known(name, names, "column")
    rest = [] if spec.others == "ignore" else [name for name in names if name not in {*named, *ignored}]
    sample = first.slice(0, SAMPLE_ROWS).select(rest)
    choices = choose_kinds(sample.schema, sample)
    if report is not None and choices:
        report(describe_choices(choices))
    columns = sorted((*spec.columns, *(choice.column for choice in choices)), key=lambda column: column.name)
    return replace(spec, columns=tuple(columns))


def _check_names(names: Sequence[str]) -> None:
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataValueError(f"two columns are named {twice[0]!r}; rename or drop one")


def _check_kind(spec: ColumnSpec, found: pa.DataType) -> None:
    """Check that cells of a type can be what the specification says."""
    if family(found) not in (*ALLOWED[spec.kind], "nothing"):
        raise DataValueError(f"column {spec.name!r} has type {found}, which cannot be of kind {spec.kind}")
    if spec.kind == "list" and family(found) == "text" and spec.separator is None:
        raise DataValueError(
            f"column {spec.name!r} is text; say what stands between its values, such as separator = '|'"
        )


def _cells(block: pa.RecordBatch, name: str) -> pa.Array:
    place = block.schema.get_field_index(name)
    if place < 0:
        raise DataValueError(f"column {name!r} is missing in some of the batches")
    cells = block.column(place)
    if not (pa.types.is_binary(cells.type) or pa.types.is_large_binary(cells.type)):
        return cells
    try:
        return cells.cast(pa.large_string())
    except pa.ArrowInvalid:
        raise DataValueError(f"column {name!r} has bytes that are not UTF-8 text; decode or ignore it") from None


def _refuse_missing(name: str, row: int) -> None:
    raise DataValueError(f'column {name!r}, row {row}: a value is missing; fill it, or set missing = "feature"')


def _join(parts: list[_Rows]) -> _Rows:
    """Return blocks of rows as one."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    starts = accumulate((part[0][-1] for part in parts), initial=0)
    indptr = [part[0][1:] + start for part, start in zip(parts, starts)]
    indices, values = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return np.concatenate([[0], *indptr]), indices, values


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
