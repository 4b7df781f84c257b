"""Fit coders to training rows: one learner per kind of column, fed block by block, in bounded memory.

Results do not depend on the order of the rows.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from ..errors import DataValueError
from ..rows.arrow import array_of
from ..rows.checked import read_only
from .casts import as_finite, as_numbers, check_finite, precision_of
from .coders import (
    MAX_SPAN,
    Bins,
    Buckets,
    CellCodes,
    Clock,
    Coder,
    Lists,
    LogBins,
    Number,
    TextCoder,
    Words,
    log_bin,
    split_lists,
)
from .interning import NULL, UNKNOWN, count_ids
from .numeric import OTHER, code_wholes, sum_known, sum_squares
from .quantiles import ValueCounts, bin_edges
from .spec import ColumnSpec, TableSpec
from .strings import StringTable, sorted_order
from .times import as_times

KEPT_BITS = 20  # of mean and spread; rounding errors, which depend on the order of rows, are below
LARGEST = 1e100  # the sum of larger squares would overflow


def first_place(mask: np.ndarray) -> int:
    """Return the position of the first True, or -1.

    >>> first_place(np.array([False, True, True])), first_place(np.array([False]))
    (1, -1)
    """
    place = int(mask.argmax()) if mask.size else 0
    return place if mask.size and mask[place] else -1


class Learner(Protocol):
    """Sees the cells of one column, then returns its coder."""

    def update(self, cells: pa.Array, row: int) -> int:
        """Learn from cells; return the position of the first missing one, or -1. row: number of the first row."""

    def finish(self) -> tuple[Coder, bool]:
        """Return the coder, and whether there are rare values without a code."""


class CodeLearner:
    """Learner that numbers values by first appearance, so that cells need not be read again to be encoded.

    codes: provisional codes of the latest cells. final_codes: code of each provisional one, UNKNOWN if rare; the last
    two entries are for NULL (-2) and UNKNOWN (-1).
    """

    codes = final_codes = np.zeros(0, np.int32)

    def recode(self, coder: Any) -> None:
        """Set final_codes to those of another coder of the same kind."""
        raise NotImplementedError


class WordLearner(CodeLearner):
    """Counts texts; those that are frequent enough get codes, sorted by their bytes."""

    def __init__(self, min_count: int):
        self.min_count = min_count
        self._table, self._counts = StringTable(), np.zeros(0, np.int64)
        self._code_cells = CellCodes(self._table.intern)

    def __len__(self) -> int:
        return len(self._table)

    def first_words(self, n: int) -> pa.Array:
        """Return the first n texts."""
        return self._table.as_array()[:n].cast(pa.large_string())

    def update(self, cells: pa.Array, row: int) -> int:
        """Count the cells."""
        self.codes = self._code_cells(cells)
        if len(self._table) > self._counts.size:
            more = np.zeros(max(self._counts.size, len(self._table)), np.int64)  # at least doubles
            self._counts = np.concatenate([self._counts, more])
        return count_ids(self.codes, self._counts)

    def finish(self) -> tuple[TextCoder, bool]:
        """Return the words that are not rare."""
        counts = self._counts[: len(self._table)]
        kept, words = np.flatnonzero(counts >= self.min_count), self._table.as_array()
        order = kept[sorted_order(words if kept.size == counts.size else words.take(array_of(kept, np.int64)))]
        self.final_codes = np.full(counts.size + 2, UNKNOWN, np.int32)
        self.final_codes[order] = np.arange(kept.size, dtype=np.int32)
        self.final_codes[NULL] = NULL
        words = StringTable.of_distinct(words.take(array_of(order, np.int64)))
        # A dictionary may have values that never occur; they are not rare, but absent.
        return Words(words), bool(((counts > 0) & (counts < self.min_count)).any())

    def recode(self, words: Any) -> None:
        """Set final_codes to those of other words."""
        self.final_codes[:NULL] = words.code_texts(self._table.as_array())


class BucketLearner:
    """Learns only whether cells are missing."""

    def __init__(self, n_buckets: int):
        self._coder = Buckets(n_buckets)
        self._code_cells = CellCodes(self._coder.code_texts)

    def update(self, cells: pa.Array, row: int) -> int:
        """Look for missing cells."""
        return first_place(self._code_cells(cells) < 0)

    def finish(self) -> tuple[TextCoder, bool]:
        """Return the buckets."""
        return self._coder, False


class ListLearner:
    """Learns from the elements of lists."""

    def __init__(self, spec: ColumnSpec, words: WordLearner | BucketLearner):
        self._spec, self._words = spec, words

    def update(self, cells: pa.Array, row: int) -> int:
        """Learn the elements."""
        elements, sizes = split_lists(cells, self._spec.separator)
        self._words.update(elements, row)
        return first_place(sizes < 0)

    def finish(self) -> tuple[Coder, bool]:
        """Return the coder of lists."""
        words, has_rare = self._words.finish()
        return Lists(words, self._spec), has_rare


class NumberLearner:
    """Tracks count, mean, sum of squared deviations and range."""

    def __init__(self, name: str):
        self._name = name
        self._n, self._mean, self._squares = 0, 0.0, 0.0
        self._low, self._high = math.inf, -math.inf

    def update(self, cells: pa.Array, row: int) -> int:
        """Merge mean and squares of a block with those so far (Chan, Golub and LeVeque)."""
        numbers = read_only(as_numbers(cells))
        self._low, self._high = (
            float(bound.reduce(numbers, initial=so_far))
            for bound, so_far in ((np.fmin, self._low), (np.fmax, self._high))
        )
        if max(-self._low, self._high) > LARGEST:
            check_finite(numbers, self._name, row)
            raise DataValueError(f"column {self._name!r} has numbers beyond {LARGEST}; use the kind bins")
        missing = np.isnan(numbers)
        known = numbers.size - int(np.count_nonzero(missing))
        if known:
            mean, n = sum_known(numbers) / known, self._n + known
            step = mean - self._mean
            self._squares += sum_squares(numbers, mean) + step * step * self._n * known / n
            self._mean += step * known / n
            self._n = n
        return first_place(missing)

    def finish(self) -> tuple[Coder, bool]:
        """Return mean and spread, rounded so that they do not depend on the order of rows."""
        spread = math.sqrt(self._squares / self._n) if self._n else 0.0
        if spread == 0 or self._low == self._high:
            return Number(self._name, self._low if self._n else 0.0, 1.0), False
        unit = 2.0 ** (math.frexp(spread)[1] - KEPT_BITS)  # a power of two, so that rounding to it is exact
        return Number(self._name, round(self._mean / unit) * unit, round(spread / unit) * unit), False


class BinsLearner:
    """Counts numbers to find quantiles."""

    def __init__(self, spec: ColumnSpec):
        self._spec, self._counts = spec, ValueCounts()
        self._precision: type[np.floating] = np.float16  # of the cells so far

    def update(self, cells: pa.Array, row: int) -> int:
        """Count the numbers."""
        numbers = as_finite(cells, self._spec.name, row)
        self._counts.add(numbers)
        self._precision = np.promote_types(self._precision, precision_of(cells.type)).type
        return first_place(np.isnan(numbers))

    def finish(self) -> tuple[Coder, bool]:
        """Return the bins; an edge is the shortest number that has the precision of the cells, 0.1 also as float32."""
        edges = bin_edges(self._counts, self._spec.n_bins).astype(self._precision)
        return Bins(self._spec.name, tuple(float(str(edge)) for edge in edges)), False


@cache
def _whole_bins() -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct bins of the first MAX_SPAN integers, and the position of each integer's bin."""
    bins, places = np.unique(log_bin(np.arange(MAX_SPAN)), return_inverse=True)
    return bins, places.astype(np.int32)


class LogBinsLearner(CodeLearner):
    """Counts logarithmic bins; those of small integers, the usual case, are looked up."""

    def __init__(self, name: str, min_count: int):
        self._name, self._min_count = name, min_count
        bins, self._whole_codes = _whole_bins()
        self._numbers = {bin: number for number, bin in enumerate(bins.tolist())}
        self._counts = np.zeros(bins.size, np.int64)

    def update(self, cells: pa.Array, row: int) -> int:
        """Count the bins of the cells."""
        numbers = read_only(as_numbers(cells))
        self.codes = np.empty(numbers.size, np.int32)
        if code_wholes(numbers, self._whole_codes, self.codes, self._counts):
            self._code_others(numbers, row)
        return first_place(self.codes == NULL)

    def _code_others(self, numbers: np.ndarray, row: int) -> None:
        others = np.flatnonzero(self.codes == OTHER)
        check_finite(numbers, self._name, row)
        found, places, counts = _count(log_bin(numbers[others]))
        own = np.array([self._numbers.setdefault(bin, len(self._numbers)) for bin in found.tolist()], np.int32)
        self._counts = np.append(self._counts, np.zeros(len(self._numbers) - self._counts.size, np.int64))
        self._counts[own] += counts
        self.codes[others] = own[places]

    def finish(self) -> tuple[Coder, bool]:
        """Return the bins that are not rare."""
        kept = sorted(bin for bin, number in self._numbers.items() if self._counts[number] >= max(self._min_count, 1))
        coder = LogBins(self._name, tuple(kept))
        self.recode(coder)
        return coder, bool(len(kept) < np.count_nonzero(self._counts))

    def recode(self, coder: Any) -> None:
        """Set final_codes to those of these bins."""
        self.final_codes = np.append(
            coder.code_bins(np.array(list(self._numbers))), np.array([NULL, UNKNOWN], np.int32)
        )


def _count(bins: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distinct bins, the position of each bin among them, and their counts, as np.unique does.

    np.unique sorts; within a small range, counting is faster.
    """
    low, high = bins.min(initial=0), bins.max(initial=0)
    if high - low > MAX_SPAN:
        return np.unique(bins, return_inverse=True, return_counts=True)
    steps = (bins - low).astype(np.int64)
    counts = np.bincount(steps)
    found = np.flatnonzero(counts)
    return found + low, (np.cumsum(counts > 0) - 1)[steps], counts[found]


class ClockLearner:
    """Learns only whether times are valid and whether some are missing."""

    def __init__(self, spec: ColumnSpec):
        self._spec = spec

    def update(self, cells: pa.Array, row: int) -> int:
        """Read the times."""
        return first_place(np.asarray(as_times(cells, self._spec.format, self._spec.name, row).is_null()))

    def finish(self) -> tuple[Coder, bool]:
        """Return the clock."""
        return Clock(self._spec.name, self._spec.format), False


def learner_of(column: ColumnSpec, table: TableSpec) -> Learner:
    """Return the learner for a column; its settings override those of the table."""
    min_count = table.min_count if column.min_count is None else column.min_count
    hash_size = table.hash_size if column.hash_size is None else column.hash_size
    if column.kind in ("category", "list"):
        words = BucketLearner(hash_size) if hash_size else WordLearner(min_count)
        return words if column.kind == "category" else ListLearner(column, words)
    if column.kind == "log_bins":
        return LogBinsLearner(column.name, min_count)
    if column.kind == "number":
        return NumberLearner(column.name)
    return BinsLearner(column) if column.kind == "bins" else ClockLearner(column)
