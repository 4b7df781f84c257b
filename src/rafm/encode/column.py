"""A column of a table: while it is learnt, and once it has been."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from ..errors import DataValueError
from ..rows.arrow import array_of, numbers_of
from ..rows.checked import read_only
from .assemble import Slot, resolve, take_codes
from .casts import family, is_bytes, naming_column, without_views
from .coders import Coder, Lists, Number, Words
from .learners import CodeLearner, WordLearner, learner_of
from .spec import ColumnSpec, TableSpec

MISSING, RARE = "<missing>", "<rare>"
ALLOWED = {  # families of cells that a kind can take
    "category": ("text", "number", "boolean", "time"),
    "number": ("number", "boolean"),
    "bins": ("number", "boolean"),
    "log_bins": ("number", "boolean"),
    "datetime": ("time", "text", "number"),
    "list": ("list", "text"),
}


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
        with naming_column(self.name, cells.type):
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
        check_kind(self.spec, found)
        if self.family != family(found) and "nothing" not in (self.family, family(found)):
            raise DataValueError(f"column {self.name!r} was {self.family} in training, now its type is {found}")


def _grown_coder(old: Coder, new: Coder) -> Coder:
    if isinstance(old, Lists) and isinstance(new, Lists):
        both = isinstance(old.words, Words) and isinstance(new.words, Words)
        return replace(old, words=old.words.grown(new.words)) if both else old  # type: ignore[attr-defined]
    return old.grown(new) if isinstance(old, Words) and isinstance(new, Words) else old


class Learning:
    """A column while it is learnt."""

    def __init__(self, spec: ColumnSpec, table: TableSpec):
        self.spec, self.table, self.learner = spec, table, learner_of(spec, table)
        self.family, self.has_missing = "nothing", False

    def update(self, block: pa.RecordBatch, row: int) -> pa.Array:
        """Learn from the column's cells in a block; return them in a form that `recall` encodes later."""
        cells = cells_of(block, self.spec.name)
        check_kind(self.spec, cells.type)
        found = family(cells.type)
        if self.family == "nothing":
            self.family = found
        if found not in (self.family, "nothing"):
            raise DataValueError(
                f"column {self.spec.name!r} was {self.family}, but from row {row} on it is {cells.type}"
            )
        with naming_column(self.spec.name, cells.type):
            missing = self.learner.update(cells, row)
        if missing >= 0:
            self.has_missing = True
            if self.table.missing == "error":
                refuse_missing(self.spec.name, row + missing)
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


def check_kind(spec: ColumnSpec, found: pa.DataType) -> None:
    """Check that cells of a type can be what the specification says."""
    if family(found) not in (*ALLOWED[spec.kind], "nothing"):
        raise DataValueError(f"column {spec.name!r} has type {found}, which cannot be of kind {spec.kind}")
    if spec.kind == "list" and family(found) == "text" and spec.separator is None:
        raise DataValueError(
            f"column {spec.name!r} is text; say what stands between its values, such as separator = '|'"
        )


def cells_of(block: pa.RecordBatch, name: str) -> pa.Array:
    place = block.schema.get_field_index(name)
    if place < 0:
        raise DataValueError(f"column {name!r} is missing in some of the batches")
    cells = without_views(block.column(place))
    if not is_bytes(cells.type):
        return cells
    try:
        return cells.cast(pa.large_string())
    except pa.ArrowInvalid:
        raise DataValueError(f"column {name!r} has bytes that are not UTF-8 text; decode or ignore it") from None


def refuse_missing(name: str, row: int) -> None:
    raise DataValueError(f'column {name!r}, row {row}: a value is missing; fill it, or set missing = "feature"')
