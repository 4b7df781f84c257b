"""Encode cells as codes, which number the features of a column. One coder per kind of column.

A coder has `n_values`, the number of codes; `slots`, which encodes cells; and `value_name`, which names a code. The
codes of rare and missing values follow those and belong to the column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..rows.checked import read_only
from .assemble import ABSENT, Slot
from .casts import as_finite, as_numbers, as_text, cell_type, check_finite, plain, precision_of, without_views
from .interning import NULL, UNKNOWN
from .numeric import standardise
from .spec import ColumnSpec
from .strings import StringTable, hash_buckets
from .times import as_times

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HOURS = 24
MAX_SPAN = 1 << 16  # bins within this range are looked up in a table


class Coder(Protocol):
    """Encodes the cells of one column."""

    @property
    def n_values(self) -> int:
        """Number of codes."""

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Encode cells; row: number of the first row."""

    def value_name(self, code: int) -> str:
        """Return the value that a code stands for."""


class TextCoder(Coder, Protocol):
    """Encodes text: the cells of categories, the elements of lists."""

    @property
    def code_cells(self) -> CellCodes:
        """Function that returns the code of every cell, UNKNOWN or NULL."""


class CellCodes:
    """Encodes cells by their text; each value of a dictionary once, even if it is shared by many blocks."""

    def __init__(self, code_texts: Callable[[pa.Array], np.ndarray]):
        self._code_texts = code_texts
        self._last: tuple[object, pa.Array | None, np.ndarray] = ((), None, np.zeros(0, np.int32))

    def __call__(self, cells: pa.Array) -> np.ndarray:
        """Return the code of every cell, UNKNOWN or NULL."""
        if not pa.types.is_dictionary(cells.type):
            return self._code_texts(as_text(cells))
        codes = self._dictionary_codes(cells.dictionary)
        places = cells.indices.cast(pa.int64())  # int8 indices could not hold the place of NULL after 128 values
        return codes[places.fill_null(codes.size - 1).to_numpy(zero_copy_only=False)]

    def _dictionary_codes(self, words: pa.Array) -> np.ndarray:
        """Return the codes of a dictionary followed by NULL; cached while the dictionary stays the same."""
        place = (words.offset, len(words), *(buffer.address if buffer else 0 for buffer in words.buffers()))
        last, _, codes = self._last
        if place != last:
            codes = np.append(self._code_texts(as_text(without_views(words))), np.int32(NULL))
            self._last = (place, words, codes)  # holds on to the words, or their address could be reused
        return codes


@dataclass(frozen=True)
class Words:
    """One code per distinct text."""

    table: StringTable

    @property
    def n_values(self) -> int:
        return len(self.table)

    def code_texts(self, texts: pa.Array) -> np.ndarray:
        """Return the code of every text, UNKNOWN or NULL."""
        return self.table.lookup(texts)

    @cached_property
    def code_cells(self) -> CellCodes:
        return CellCodes(self.code_texts)

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Return one code per cell."""
        return [Slot(self.code_cells(cells))]

    def grown(self, other: Words) -> Words:
        """Return these words, followed by those that only the other has."""
        table = StringTable()
        for words in (self, other):
            table.intern(words.table.as_array())
        return Words(table)

    def value_name(self, code: int) -> str:
        """Return the text, with a backslash before one that could be mistaken for <rare> or <missing>."""
        text = self.table[code].decode(errors="backslashreplace")
        return f"\\{text}" if text.startswith(("<", "\\")) else text


@dataclass(frozen=True)
class Buckets:
    """Hashed texts: the code is XXH64 modulo the number of buckets."""

    n_values: int

    def code_texts(self, texts: pa.Array) -> np.ndarray:
        """Return the bucket of every text, or NULL."""
        return hash_buckets(texts, self.n_values)

    @cached_property
    def code_cells(self) -> CellCodes:
        return CellCodes(self.code_texts)

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Return one code per cell."""
        return [Slot(self.code_cells(cells))]

    def value_name(self, code: int) -> str:
        """Return the number of the bucket."""
        return f"#{code}"


@dataclass(frozen=True)
class Number:
    """A single code, with the standardised number as its value."""

    name: str
    mean: float
    spread: float
    n_values = 1

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Return code 0 and the standardised number; a missing one has the value 1 of the <missing> feature."""
        numbers = read_only(as_numbers(cells))
        codes, values = np.empty(numbers.size, np.int32), np.empty(numbers.size, np.float32)
        if standardise(numbers, self.mean, self.spread, codes, values):
            check_finite(numbers, self.name, row)
        return [Slot(codes, values)]

    def value_name(self, code: int) -> str:
        """Return nothing: the feature has the name of its column."""
        return ""


@dataclass(frozen=True)
class Bins:
    """Code i for numbers in [edges[i - 1], edges[i])."""

    name: str
    edges: tuple[float, ...]

    @property
    def n_values(self) -> int:
        return len(self.edges) + 1

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Return one code per cell."""
        numbers, precision = as_finite(cells, self.name, row), precision_of(cells.type)
        # in the precision of the cells: as float32, 0.7 is less than as float64, but in the same bin
        with np.errstate(over="ignore"):  # an edge beyond their range becomes infinite
            edges = np.array(self.edges).astype(precision)
        codes = np.searchsorted(edges, numbers.astype(precision, copy=False), side="right").astype(np.int32)
        codes[np.isnan(numbers)] = NULL  # searchsorted puts NaN into the last bin
        return [Slot(codes)]

    def value_name(self, code: int) -> str:
        """Return the bin as an interval."""
        ends = (-np.inf, *self.edges, np.inf)
        return f"[{ends[code]!r},{ends[code + 1]!r})"


def log_bin(numbers: np.ndarray) -> np.ndarray:
    """Return floor(log(x)^2) for x > 2, else floor(x); NaN stays NaN.

    >>> log_bin(np.array([-1.0, 0.0, 2.0, 3.0, 1000.0]))
    array([-1.,  0.,  2.,  1., 47.])
    """
    # The transformation of the winners of Criteo's challenge (libffm).
    return np.floor(np.where(numbers > 2, np.log(np.maximum(numbers, 1)) ** 2, numbers))


@dataclass(frozen=True)
class LogBins:
    """One code per distinct log_bin; bins are sorted."""

    name: str
    bins: tuple[float, ...]

    @property
    def n_values(self) -> int:
        return len(self.bins)

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Return one code per cell."""
        found = log_bin(as_finite(cells, self.name, row))
        missing = np.isnan(found)
        codes = self.code_bins(np.where(missing, 0, found))
        codes[missing] = NULL
        return [Slot(codes)]

    def code_bins(self, found: np.ndarray) -> np.ndarray:
        """Return the code of every bin, UNKNOWN for new ones."""
        low, span = (self.bins[0], self.bins[-1] - self.bins[0]) if self.bins else (0.0, 0.0)
        if span < MAX_SPAN:
            # One entry per possible bin, and one UNKNOWN at either end for anything outside.
            table = np.full(int(span) + 3, UNKNOWN, np.int32)
            table[(np.array(self.bins) - low).astype(int) + 1] = np.arange(self.n_values)
            return table[np.clip(found - (low - 1), 0, span + 2).astype(np.int64)]
        padded = np.array([*self.bins, np.nan])  # equal to nothing
        codes = np.searchsorted(padded[:-1], found).clip(0, self.n_values)
        return np.where(padded[codes] == found, codes, UNKNOWN).astype(np.int32)

    def value_name(self, code: int) -> str:
        """Return the bin's number."""
        return str(int(self.bins[code]))


@dataclass(frozen=True)
class Clock:
    """Two codes per time: the hour and the weekday."""

    name: str
    format: str | None
    n_values = HOURS + len(WEEKDAYS)

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Return the hour and the weekday of every cell."""
        times = as_times(cells, self.format, self.name, row)
        hours, days = (part(times).fill_null(NULL).to_numpy(zero_copy_only=False) for part in (pc.hour, pc.day_of_week))
        weekdays = np.where(days == NULL, ABSENT, days + HOURS)  # a missing time gets <missing> once, not twice
        return [Slot(hours.astype(np.int32)), Slot(weekdays.astype(np.int32))]

    def value_name(self, code: int) -> str:
        """Return "hour 8" or "Tuesday"."""
        return f"hour {code}" if code < HOURS else WEEKDAYS[code - HOURS]


def split_lists(cells: pa.Array, separator: str | None) -> tuple[pa.Array, np.ndarray]:
    """Return the elements of all lists concatenated, and the size of each list, -1 for null."""
    cells = plain(cells)
    if cell_type(cells.type) == "text":
        cells = pc.split_pattern(as_text(cells), separator)
        elements = pc.utf8_trim_whitespace(cells.flatten())
        elements = pc.if_else(pc.equal(elements, ""), pa.scalar(None, elements.type), elements)  # "a||b", ""
    elif cell_type(cells.type) == "list":
        elements = without_views(cells.flatten())
    else:
        return pa.nulls(0, pa.string()), np.full(len(cells), -1)
    sizes = pc.list_value_length(cells).fill_null(-1).to_numpy(zero_copy_only=False)
    return elements, sizes.astype(np.int64)


@dataclass(frozen=True)
class Lists:
    """Several codes per cell, each with the value 1, 1/n or 1/sqrt(n) for n elements."""

    words: TextCoder
    spec: ColumnSpec

    @property
    def n_values(self) -> int:
        return self.words.n_values

    def slots(self, cells: pa.Array, row: int) -> list[Slot]:
        """Return the codes of every list; a null list has the code NULL, null elements are dropped."""
        elements, sizes = split_lists(cells, self.spec.separator)
        entries = np.where(sizes < 0, 1, sizes)  # a null list takes one entry, for NULL
        codes = np.full(int(entries.sum()), NULL, np.int32)
        found = self.words.code_cells(elements)
        codes[np.repeat(sizes >= 0, entries)] = np.where(found == NULL, ABSENT, found)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(entries)])
        return [Slot(codes, self._values(codes, offsets), offsets)]

    def _values(self, codes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        present = np.concatenate([[0], np.cumsum(codes != ABSENT)])
        n = np.maximum(np.diff(present[offsets]), 1)
        scale = {"1": np.ones(n.size), "1/n": 1 / n, "1/sqrt(n)": 1 / np.sqrt(n)}[self.spec.scale]
        return np.repeat(scale, np.diff(offsets)).astype(np.float32)

    def value_name(self, code: int) -> str:
        """Return the element that a code stands for."""
        return self.words.value_name(code)
