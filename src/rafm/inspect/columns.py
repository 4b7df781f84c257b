"""Looks at one column block by block: a column of a table, or a field of rows that have feature ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..encode.casts import as_finite, as_text, as_times, plain
from ..encode.coders import Clock, log_bin, split_lists
from ..encode.spec import ColumnSpec, TableSpec
from ..encode.strings import hash_buckets
from ..errors import DataValueError
from .keys import cell_keys, fold_lists, mixed
from .labels import Labels
from .leaks import Bins, power
from .sketch import Frequencies, Sides, Sketch

LONGEST_NAME = 24


class Look:
    """What every column has: its values, the most frequent one, its gaps, and how labels depend on it."""

    def __init__(self, name: str, kind: str, reason: str = ""):
        self.name, self.kind, self.reason = name, kind, reason
        self.values, self.bins = Sketch(labelled=True), Bins()
        self.known, self.missing, self._gap = 0, 0, np.zeros(4)
        self.top, self._top_key = "", (-1, -1)
        self.fault: str | None = None

    def take(self, keys: np.ndarray, sides: Sides, gaps: Sides, texts: Any) -> None:
        """Count values with the labels of their rows, and the rows without one; texts names the value at a place."""
        self.known += keys.size
        self.skip(gaps.sums(), gaps.labels.size)
        self.values.add(keys, sides)
        top = (self.values.depth, self.values.top[0])
        if keys.size and top != self._top_key:
            places = np.flatnonzero(self.values.is_top(keys))
            if places.size:
                _, firsts, counts = np.unique(keys[places], return_index=True, return_counts=True)
                self.top, self._top_key = texts(int(places[firsts[counts.argmax()]])), top

    def skip(self, sums: np.ndarray, n_rows: int) -> None:
        """Take in rows that have no value, by the sums of their labels."""
        self.missing += n_rows
        self._gap += sums

    def power(self, labels: Labels) -> float | None:
        """Return how well the column alone predicts the label, by its values or by their size."""
        groups = (self.values.groups() * self.values.scale, self.bins.groups())
        found = [power(np.vstack([part, self._gap]), labels) for part in groups]
        return max((number for number in found if number is not None), default=None)

    @property
    def is_constant(self) -> bool:
        return self.values.n_keys + (self.missing > 0) == 1

    def frequencies(self) -> Frequencies:
        """Return how often the features of this column occur."""
        return self.values.frequencies()

    def report(self, labels: Labels) -> dict[str, Any]:
        """Return what was seen, as JSON has it."""
        counts, features = self.values.frequencies()
        cells = max(self.known + self.missing, 1)
        return {
            "name": self.name,
            "kind": self.kind,
            "reason": self.reason,
            "values": min(self.values.n_keys, self.known),
            "exact": self.values.is_exact,
            "top": self.top if self.known else None,
            "top_share": self.values.top[1] / cells,
            "once": int(features[counts == 1].sum()),
            "twice": int(features[counts == 2].sum()),
            "missing": self.missing / cells,
            "auc" if labels.is_binary else "r2": self.power(labels) if labels.weight else None,
        }


class CellLook(Look):
    """A column of a table, of the kind that training would make of it."""

    def __init__(self, spec: ColumnSpec, table: TableSpec, reason: str):
        super().__init__(spec.name, spec.kind, reason)
        self._spec = spec
        self._min_count = table.min_count if spec.min_count is None else spec.min_count
        self._hash_size = table.hash_size if spec.hash_size is None else spec.hash_size
        self._codes = Sketch()

    def update(self, cells: pa.Array, row: int, sides: Sides) -> np.ndarray:
        """Look at cells, of which the first is in this row; return their keys."""
        if self.kind == "list":
            return self._update_lists(cells, sides)
        keys, known = self._value_keys(cells)
        where = np.flatnonzero(known)
        own, gaps = (sides, sides.take(where[:0])) if known.all() else (sides.take(where), sides.take(~known))
        self.take(keys[where], own, gaps, lambda place: _shown(cells, int(where[place])))
        try:
            self._update_codes(cells, row, where, own)
        except DataValueError as error:
            self.fault = self.fault or str(error)
        return keys

    def _value_keys(self, cells: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Return the keys of values, or of the buckets they are hashed to, and which are known."""
        if not self._hash_size or self.kind not in ("category", "list"):
            return cell_keys(cells)
        buckets = hash_buckets(as_text(plain(cells)), self._hash_size)
        return mixed(buckets), buckets >= 0

    def _update_codes(self, cells: pa.Array, row: int, where: np.ndarray, sides: Sides) -> None:
        """Look at what numbers and times become."""
        if self.kind in ("number", "bins", "log_bins"):
            numbers = as_finite(plain(cells), self.name, row)[where]
            self.bins.add(numbers, *sides)
            if self.kind == "log_bins":
                self._codes.add(mixed(log_bin(numbers)))
        elif self.kind == "datetime":
            times = as_times(cells, self._spec.format, self.name, row)
            counts = times.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)[where]
            self.bins.add(counts.astype(np.float64), *sides)
            for slot in Clock(self.name, self._spec.format).slots(cells, row):
                self._codes.add(mixed(slot.codes[slot.codes >= 0]))

    def _update_lists(self, cells: pa.Array, sides: Sides) -> np.ndarray:
        elements, sizes = split_lists(cells, self._spec.separator)
        keys, known = self._value_keys(elements)
        rows = np.repeat(np.arange(len(cells)), np.maximum(sizes, 0))
        where = np.flatnonzero(known)
        self.take(
            keys[where], sides.take(rows[where]), sides.take(sizes < 0), lambda i: _shown(elements, int(where[i]))
        )
        return fold_lists(sizes, keys)

    def frequencies(self) -> Frequencies:
        """Return how often the features of this column occur, that of missing values too."""
        if self.kind == "number":
            found = _of({self.known: 1})
        elif self.kind == "bins":
            found = _of({self.known // self._spec.n_bins: self._spec.n_bins})
        elif self.kind in ("log_bins", "datetime"):
            found = self._codes.frequencies()
        else:
            found = self.values.frequencies()
        if self.kind in ("category", "list", "log_bins") and self._min_count > 1:
            found = _with_rare(found, self._min_count)
        return join_frequencies([found, _of({self.missing: 1})])


class FieldLook(Look):
    """A field of rows with feature ids."""

    def __init__(self, name: str, kind: str):
        super().__init__(name, kind)
        self._low, self._high = np.inf, -np.inf

    def update(self, ids: np.ndarray, values: np.ndarray, rows: np.ndarray, sides: Sides, names: Any) -> None:
        """Look at entries, whose rows rise; names tells how an id is called."""
        own = sides.take(rows)
        gaps = np.ones(sides.labels.size, bool)
        gaps[rows] = False
        self.take(mixed(ids), own, sides.take(gaps), lambda place: names(int(ids[place])))
        self.bins.add(values.astype(np.float64), *own)
        self._low = min(self._low, float(values.min(initial=np.inf)))
        self._high = max(self._high, float(values.max(initial=-np.inf)))

    @property
    def is_constant(self) -> bool:
        return super().is_constant and self._low == self._high


def _shown(cells: pa.Array, place: int) -> str:
    """Return a cell as text, shortened."""
    text = as_text(plain(cells[place : place + 1]))[0].as_py()
    text = text.decode(errors="backslashreplace") if isinstance(text, bytes) else str(text)
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 3] + "..."


def _of(counts: dict[int, int]) -> Frequencies:
    """Return frequencies from features by count; what was never seen is no feature.

    >>> _of({0: 1, 5: 2})
    Frequencies(counts=array([5]), features=array([2]))
    """
    found = sorted((count, features) for count, features in counts.items() if count and features)
    return Frequencies(np.array([c for c, _ in found], np.int64), np.array([f for _, f in found], np.int64))


def _with_rare(found: Frequencies, min_count: int) -> Frequencies:
    """Return frequencies where one feature stands for all that are seen less than min_count times."""
    rare = found.counts < min_count
    shared = int((found.counts * found.features)[rare].sum())
    return join_frequencies([Frequencies(found.counts[~rare], found.features[~rare]), _of({shared: 1})])


def join_frequencies(parts: list[Frequencies]) -> Frequencies:
    """Return the frequencies of all features together.

    >>> join_frequencies([_of({1: 3, 7: 1}), _of({1: 2})])
    Frequencies(counts=array([1, 7]), features=array([5, 1]))
    """
    counts = np.concatenate([np.zeros(0, np.int64), *(part.counts for part in parts)])
    features = np.concatenate([np.zeros(0, np.int64), *(part.features for part in parts)])
    found, places = np.unique(counts, return_inverse=True)
    total = np.zeros(found.size, np.int64)
    np.add.at(total, places, features)
    return Frequencies(found, total)
