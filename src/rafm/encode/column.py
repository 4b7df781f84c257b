"""Columns of a table, during and after fitting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import DataValueError
from ..rows.arrow import array_of, numbers_of
from ..rows.checked import read_only
from .assemble import Slot, finalize, take_codes
from .casts import (
    as_booleans,
    as_number_text,
    as_numbers,
    cell_type,
    is_bytes,
    naming_column,
    without_halves,
    without_views,
)
from .coders import Coder, Lists, Number, Words
from .infer import FEW, is_prose
from .learners import CodeLearner, WordLearner, first_place, learner_of
from .spec import ColumnSpec, TableSpec
from .times import as_times, check_one_kind, check_taken, in_utc, learned_times, read_times, times_like

MISSING, RARE = "<missing>", "<rare>"
ALLOWED = {  # cell types that each kind accepts, besides columns that are always empty
    "category": ("text", "number", "boolean", "time"),
    "number": ("number", "boolean"),
    "bins": ("number", "boolean"),
    "log_bins": ("number", "boolean"),
    "datetime": ("time", "text", "number"),
    "list": ("list", "text"),
}

NAMES = {"text": "text", "number": "numbers", "boolean": "booleans", "time": "timestamps", "list": "lists"}

NAME_TYPES = {"text", "number"}  # the category 196 is the category "196"


@dataclass(frozen=True)
class Column:
    """A fitted column: the features of its coder, then one for rare and one for missing values.

    cell_type: that of its cells in training, see `casts.cell_type`. times: the kind of its times in training, see
    `times.TAKES`; None if it has none or, in models of rafm 0.1, if that was not recorded.
    """

    spec: ColumnSpec
    cell_type: str
    coder: Coder
    has_rare: bool
    has_missing: bool
    times: str | None = None

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
        """Return `column=value`, or just the column name for a number."""
        name = self.name.replace("\\", "\\\\").replace("=", "\\=")  # so that names stay unique
        if code >= self.coder.n_values:
            return f"{name}={RARE if self.has_rare and code == self.coder.n_values else MISSING}"
        return name if isinstance(self.coder, Number) else f"{name}={self.coder.value_name(code)}"

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Encode cells; row: number of the first row."""
        cells = self.as_learned(without_type(cells, self.cell_type), row)
        self._check_type(cells.type)
        with naming_column(self.name, cells.type):
            if self.times is not None:
                times = times_like(self.times, cells, self.spec.format, self.name, row)
                cells = times if self.kind == "datetime" else in_utc(cells)
            return self.coder.slots(cells, row)

    def as_learned(self, cells: pa.Array, row: int) -> pa.Array:
        """Return text as the category of training that it stands for: the name of a number, a time or a boolean."""
        if self.kind != "category" or self.cell_type == "text" or cell_type(cells.type) != "text":
            return cells
        with naming_column(self.name, cells.type):
            if self.cell_type == "time":
                return as_times(cells, None, self.name, row)
            if self.cell_type == "boolean":
                return as_booleans(cells, self.name, row)
            return as_number_text(cells) if self.cell_type == "number" else cells

    def finalize(self, slots: list[Slot], counts: np.ndarray) -> list[Slot]:
        """Return the slots with the codes of rare and missing values filled in, and count values."""
        rare = self.coder.n_values if self.has_rare else -1
        null = self.coder.n_values + self.has_rare if self.has_missing else -1
        rest = np.zeros(4, np.int64)  # discarded: a time counts once, not as hour and weekday
        return [finalize(slot, rare, null, rest if i else counts) for i, slot in enumerate(slots)]

    def grown(self, other: Column) -> Column:
        """Return this column extended by the new values of another; numbers and bins stay as they are."""
        self._check_same(other.cell_type, other.cell_type)
        return replace(
            self,
            cell_type=other.cell_type if self.cell_type == "nothing" else self.cell_type,
            coder=_grown_coder(self.coder, other.coder),
            has_rare=self.has_rare or other.has_rare,
            has_missing=self.has_missing or other.has_missing,
            times=other.times if self.cell_type == "nothing" else self.times,
        )

    def codes_in(self, grown: Column) -> np.ndarray:
        """Return the codes that the features of this column have in one grown from it."""
        ends = [grown.coder.n_values] * self.has_rare + [grown.coder.n_values + grown.has_rare] * self.has_missing
        return np.array([*range(self.coder.n_values), *ends], np.int64)

    def _check_type(self, found: pa.DataType) -> None:
        check_kind(self.spec, found)
        self._check_same(cell_type(found), str(found))

    def _check_same(self, found: str, shown: str) -> None:
        """Reject cells of another type than in training; times may be text, and names numbers."""
        if self.kind == "datetime" or found == self.cell_type or "nothing" in (self.cell_type, found):
            return
        if self.kind == "category" and {found, self.cell_type} <= NAME_TYPES:
            return
        raise DataValueError(
            f"column {self.name!r} was {self.cell_type} in training, now its type is {shown}; convert its values to "
            f"{NAMES[self.cell_type]}"
        )


def _grown_coder(old: Coder, new: Coder) -> Coder:
    if isinstance(old, Lists) and isinstance(new, Lists):
        both = isinstance(old.words, Words) and isinstance(new.words, Words)
        return replace(old, words=old.words.grown(new.words)) if both else old  # type: ignore[attr-defined]
    return old.grown(new) if isinstance(old, Words) and isinstance(new, Words) else old


class ColumnLearner:
    """A column while it is being fitted."""

    def __init__(self, spec: ColumnSpec, table: TableSpec, must_be_whole: bool = False):
        self.spec, self.table, self.learner = spec, table, learner_of(spec, table)
        self.must_be_whole = must_be_whole
        self.cell_type, self.has_missing = "nothing", False
        self._times: set[int] = set()  # kinds of times so far

    def update(self, block: pa.RecordBatch, row: int) -> pa.Array:
        """Fit to the cells of a block; return them in the form that `replay` encodes later."""
        given = cells_of(block, self.spec.name)
        cells = without_type(given, self.cell_type)
        check_kind(self.spec, cells.type)
        found = cell_type(cells.type)
        if self.cell_type == "nothing":
            self.cell_type = found
        if found not in (self.cell_type, "nothing"):
            raise DataValueError(
                f"column {self.spec.name!r} was {self.cell_type}, but from row {row + 1} on it is {cells.type}"
            )
        if self.must_be_whole and found == "number":
            _check_whole(cells, self.spec.name, row)
        with naming_column(self.spec.name, cells.type):
            cells = self._learn_times(cells, row)
            missing = self.learner.update(cells, row)
        if missing >= 0:
            self.has_missing = True
            if self.table.missing == "error":
                refuse_missing(self.spec.name, row + missing)
        return _kept_codes(self.learner.codes) if isinstance(self.learner, CodeLearner) else given

    def _learn_times(self, cells: pa.Array, row: int) -> pa.Array:
        """Note the kind of times, and return them in UTC if they have a zone; other cells stay as they are."""
        is_time, name = cell_type(cells.type) == "time", self.spec.name
        if self.spec.kind != "datetime" and not (self.spec.kind == "category" and is_time):
            return cells
        times = read_times(cells, self.spec.format, name, row, learning=True)
        check_one_kind(self._times, times, name, row)
        self._times.update(np.unique(times.kinds).tolist())
        return times.cells if self.spec.kind == "datetime" else in_utc(cells)

    @property
    def n_words(self) -> int:
        """Number of distinct words so far, which decides how long `finish` takes."""
        return len(self.learner) if isinstance(self.learner, WordLearner) else 0

    @property
    def is_prose(self) -> bool:
        """Whether the words so far are texts of several words."""
        return isinstance(self.learner, WordLearner) and is_prose(self.learner.first_words(FEW))

    def finish(self) -> Column:
        """Return the fitted column."""
        coder, left_out = self.learner.finish()
        has_rare = left_out and self.table.rare == "shared"
        return Column(self.spec, self.cell_type, coder, has_rare, self.has_missing, learned_times(self._times))

    def grow(self, old: Column) -> Column:
        """Return an old column extended by the new values, and replay cells with its codes."""
        if old.times is not None:
            check_taken(old.times, self._times, f"column {self.spec.name!r}")
        column = old.grown(self.finish())
        if isinstance(self.learner, CodeLearner):
            self.learner.recode(column.coder)
        return column

    def replay(self, column: Column) -> Callable[[pa.Array, int], list[Slot]]:
        """Return a function that encodes the cells returned by `update`, given the number of their first row."""
        counts = np.zeros(4, np.int64)  # not reported: all values of the training rows are known
        if not isinstance(self.learner, CodeLearner):
            return lambda kept, row: column.finalize(column.slots(kept, row), counts)
        # finalize the table of codes once, instead of the codes of every block
        [codes] = column.finalize([Slot(self.learner.final_codes.copy())], counts)
        return lambda kept, row: [Slot(_taken(codes.codes, numbers_of(kept)))]


def _taken(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    out = np.empty(codes.size, table.dtype)
    take_codes(table, read_only(codes), out)
    return out


def _kept_codes(codes: np.ndarray) -> pa.Array:
    """Return codes as int16 if they fit, to halve the spilled bytes; else as int32."""
    return array_of(codes, np.int16 if codes.max(initial=0) < 2**15 else np.int32)


def _check_whole(cells: pa.Array, name: str, row: int) -> None:
    """Reject a fraction in a column that became a category because of its whole numbers."""
    numbers = as_numbers(cells)
    wrong = first_place(~np.isnan(numbers) & (numbers != np.floor(numbers)))
    if wrong >= 0:
        raise DataValueError(
            f"column {name!r}, row {row + wrong + 1}: the rows before have only whole numbers, "
            f"found {numbers[wrong]:g}; set the kind of the column: bins or category"
        )


def check_kind(spec: ColumnSpec, found: pa.DataType) -> None:
    """Check that the kind of a column accepts cells of this type."""
    if cell_type(found) not in (*ALLOWED[spec.kind], "nothing"):
        takes = " or ".join(NAMES[one] for one in ALLOWED[spec.kind])
        raise DataValueError(
            f"column {spec.name!r} has type {found}, which cannot be encoded as {spec.kind}; give it {takes}"
        )
    if spec.kind == "list" and cell_type(found) == "text" and spec.separator is None:
        raise DataValueError(f"column {spec.name!r} is text; set the separator of its values, such as separator = '|'")


def cells_of(block: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column of a block; bytes become text."""
    place = block.schema.get_field_index(name)
    if place < 0:
        raise DataValueError(f"column {name!r} is missing in some of the batches")
    cells = without_views(block.column(place))
    if not is_bytes(cells.type):
        return cells
    try:
        return cells.cast(pa.large_string())  # validates UTF-8
    except pa.ArrowInvalid:
        raise DataValueError(f"column {name!r} has bytes that are not UTF-8 text; decode or ignore it") from None


def without_type(cells: pa.Array, expected: str) -> pa.Array:
    """Return cells; if they are not of the expected type but all missing, as nulls without a type.

    >>> without_type(pa.array([float("nan"), None]), "text").type
    DataType(null)
    """
    if cell_type(cells.type) == expected or not pc.all(pc.is_null(without_halves(cells), nan_is_null=True)).as_py():
        return cells
    return pa.nulls(len(cells))


def refuse_missing(name: str, row: int) -> None:
    """Raise the error about a missing value."""
    raise DataValueError(f'column {name!r}, row {row + 1}: a value is missing; fill it, or set missing = "feature"')
