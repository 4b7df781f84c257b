"""Profile one column block by block: a column of a table, or a field of rows with feature ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..encode.casts import as_finite, as_text, cell_type, is_bytes, plain
from ..encode.coders import Clock, log_bin, split_lists
from ..encode.infer import PROSE_SHARE, has_many_words
from ..encode.spec import ColumnSpec, TableSpec
from ..encode.strings import hash_buckets
from ..encode.times import check_one_kind, in_utc, read_times
from ..errors import DataValueError
from ..files.terminal import one_line
from .keys import cell_keys, fold_lists, hash_numbers
from .labels import Labels
from .leaks import BinSums, column_power
from .sketch import Frequencies, RowTargets, Sketch

LONGEST_NAME = 24  # characters of a value in the report


class ColumnProfile:
    """Values of a column, the most frequent one, missing values, and the relation to the labels."""

    def __init__(self, name: str, kind: str, reason: str = ""):
        self.name, self.kind, self.reason = name, kind, reason
        self.values, self.bins = Sketch(labelled=True), BinSums()
        self.known, self.missing, self._gap = 0, 0, np.zeros(4)
        self.top, self._top_key = "", (-1, -1)
        self.fault: str | None = None

    def take(self, keys: np.ndarray, targets: RowTargets, gaps: RowTargets, texts: Any) -> None:
        """Count values with the targets of their rows; gaps: rows without one; texts: names the value at a place."""
        self.known += keys.size
        self.skip(gaps.sums(), gaps.labels.size)
        self.values.add(keys, targets)
        top = (self.values.depth, self.values.top[0])
        # The sketch knows only the key of the most frequent value; its text is caught when it occurs again.
        if keys.size and top != self._top_key:
            places = np.flatnonzero(self.values.is_top(keys))
            if places.size:
                _, firsts, counts = np.unique(keys[places], return_index=True, return_counts=True)
                self.top, self._top_key = texts(int(places[firsts[counts.argmax()]])), top

    def skip(self, sums: np.ndarray, n_rows: int) -> None:
        """Count rows without a value, given the sums of their weights and labels."""
        self.missing += n_rows
        self._gap += sums

    def power(self, labels: Labels) -> float | None:
        """Return how well the column alone predicts the label, as a category or as a number."""
        sums = (self.values.label_sums() * self.values.scale, self.bins.label_sums())
        found = [column_power(np.vstack([part, self._gap]), labels) for part in sums]
        return max((number for number in found if number is not None), default=None)

    @property
    def is_prose(self) -> bool:
        """Whether most values are texts of several words."""
        return False

    @property
    def is_constant(self) -> bool:
        return self.values.n_keys + (self.missing > 0) == 1  # missing is a value too

    def frequencies(self) -> Frequencies:
        """Return the frequencies of the features of this column."""
        return self.values.frequencies()

    def report(self, labels: Labels) -> dict[str, Any]:
        """Return the profile for JSON."""
        counts, features = self.values.frequencies()
        cells = max(self.known + self.missing, 1)
        return {
            "name": self.name,
            "kind": self.kind,
            "reason": self.reason,
            "values": min(self.values.n_keys, self.known),  # n_keys may be an estimate
            "exact": self.values.is_exact,
            "top": self.top if self.known else None,
            "top_share": self.values.top[1] / cells,
            "once": int(features[counts == 1].sum()),
            "twice": int(features[counts == 2].sum()),
            "missing": self.missing / cells,
            "auc" if labels.is_binary else "r2": self.power(labels) if labels.weight else None,
        }


class CellProfile(ColumnProfile):
    """Profile of a table column, with the kind that training would give it."""

    def __init__(self, spec: ColumnSpec, table: TableSpec, reason: str):
        super().__init__(spec.name, spec.kind, reason)
        self._spec = spec
        self._min_count = table.min_count if spec.min_count is None else spec.min_count
        self._hash_size = table.hash_size if spec.hash_size is None else spec.hash_size
        self._codes = Sketch()
        self._n_prose = 0
        self._times: set[int] = set()  # kinds of times so far

    @property
    def is_prose(self) -> bool:
        return 0 < PROSE_SHARE * self.known <= self._n_prose

    def update(self, cells: pa.Array, row: int, targets: RowTargets) -> np.ndarray:
        """Add cells, given the number of their first row; return their keys."""
        if self.kind == "list":
            return self._update_lists(cells, targets)
        if cell_type(cells.type) == "text" and not is_bytes(plain(cells).type):
            self._n_prose += pc.sum(has_many_words(plain(cells))).as_py() or 0
        keys, known = self._value_keys(cells)
        where = np.flatnonzero(known)
        own, gaps = (targets, targets.take(where[:0])) if known.all() else (targets.take(where), targets.take(~known))
        self.take(keys[where], own, gaps, lambda place: _shown(cells, int(where[place])))
        try:
            self._update_codes(cells, row, where, own)
        except DataValueError as error:  # a bad cell is a finding, not a reason to stop
            self.fault = self.fault or str(error)
        return keys

    def _value_keys(self, cells: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of values or of their hash buckets, and which are not missing."""
        if not self._hash_size or self.kind not in ("category", "list"):
            return cell_keys(cells)
        buckets = hash_buckets(as_text(plain(cells)), self._hash_size)
        return hash_numbers(buckets), buckets >= 0

    def _update_codes(self, cells: pa.Array, row: int, where: np.ndarray, targets: RowTargets) -> None:
        """Count the bins of numbers and the parts of times."""
        if self.kind in ("number", "bins", "log_bins"):
            numbers = as_finite(plain(cells), self.name, row)[where]
            self.bins.add(numbers, *targets)
            if self.kind == "log_bins":
                self._codes.add(hash_numbers(log_bin(numbers)))
        elif self.kind == "datetime":
            found = read_times(cells, self._spec.format, self.name, row, learning=True)
            check_one_kind(self._times, found, self.name, row)
            self._times.update(np.unique(found.kinds).tolist())
            times = in_utc(found.cells)
            counts = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)[where]
            self.bins.add(counts.astype(np.float64), *targets)
            for slot in Clock(self.name, self._spec.format).slots(times, row):
                self._codes.add(hash_numbers(slot.codes[slot.codes >= 0]))

    def _update_lists(self, cells: pa.Array, targets: RowTargets) -> np.ndarray:
        elements, sizes = split_lists(cells, self._spec.separator)
        keys, known = self._value_keys(elements)
        rows = np.repeat(np.arange(len(cells)), np.maximum(sizes, 0))
        where = np.flatnonzero(known)
        self.take(
            keys[where], targets.take(rows[where]), targets.take(sizes < 0), lambda i: _shown(elements, int(where[i]))
        )
        return fold_lists(sizes, keys)

    def frequencies(self) -> Frequencies:
        """Return the frequencies of the features of this column, including <missing>."""
        if self.kind == "number":
            found = _frequencies_of({self.known: 1})
        elif self.kind == "bins":
            # quantile bins are about equally frequent
            found = _frequencies_of({self.known // self._spec.n_bins: self._spec.n_bins})
        elif self.kind in ("log_bins", "datetime"):
            found = self._codes.frequencies()
        else:
            found = self.values.frequencies()
        if self.kind in ("category", "list", "log_bins") and self._min_count > 1:
            found = _with_rare(found, self._min_count)
        return join_frequencies([found, _frequencies_of({self.missing: 1})])


class FieldProfile(ColumnProfile):
    """Profile of a field of rows with feature ids."""

    def __init__(self, name: str, kind: str):
        super().__init__(name, kind)
        self._low, self._high = np.inf, -np.inf

    def update(self, ids: np.ndarray, values: np.ndarray, rows: np.ndarray, targets: RowTargets, names: Any) -> None:
        """Add entries, sorted by row; names: function from an id to its name."""
        own = targets.take(rows)
        gaps = np.ones(targets.labels.size, bool)
        gaps[rows] = False
        self.take(hash_numbers(ids), own, targets.take(gaps), lambda place: names(int(ids[place])))
        self.bins.add(values.astype(np.float64), *own)
        self._low = min(self._low, float(values.min(initial=np.inf)))
        self._high = max(self._high, float(values.max(initial=-np.inf)))

    @property
    def is_constant(self) -> bool:
        return super().is_constant and self._low == self._high


def _shown(cells: pa.Array, place: int) -> str:
    """Return a cell as printable text, shortened."""
    text = as_text(plain(cells[place : place + 1]))[0].as_py()
    text = text.decode(errors="backslashreplace") if isinstance(text, bytes) else str(text)
    text = one_line(text)
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 3] + "..."


def _frequencies_of(counts: dict[int, int]) -> Frequencies:
    """Return frequencies from {count: number of features}, without those never seen.

    >>> _frequencies_of({0: 1, 5: 2})
    Frequencies(counts=array([5]), features=array([2]))
    """
    found = sorted((count, features) for count, features in counts.items() if count and features)
    return Frequencies(np.array([c for c, _ in found], np.int64), np.array([f for _, f in found], np.int64))


def _with_rare(found: Frequencies, min_count: int) -> Frequencies:
    """Return frequencies in which all features seen less than min_count times are merged into one."""
    rare = found.counts < min_count
    shared = int((found.counts * found.features)[rare].sum())
    return join_frequencies([Frequencies(found.counts[~rare], found.features[~rare]), _frequencies_of({shared: 1})])


def join_frequencies(parts: list[Frequencies]) -> Frequencies:
    """Merge frequencies.

    >>> join_frequencies([_frequencies_of({1: 3, 7: 1}), _frequencies_of({1: 2})])
    Frequencies(counts=array([1, 7]), features=array([5, 1]))
    """
    counts = np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)])
    features = np.concatenate([np.zeros(0, np.int64), *(part.features for part in parts)])
    found, places = np.unique(counts, return_inverse=True)
    total = np.zeros(found.size, np.int64)
    np.add.at(total, places, features)
    return Frequencies(found, total)
