"""Conjunctions: one feature per pair, or triple, of values of columns that occur together in training rows.

Each combination is an exact number, its key: the codes of its values as the digits of a number whose bases are the
numbers of features of their columns. A conjunction keeps the sorted keys of the combinations that have a feature.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..errors import ConfigError, DataValueError
from .assemble import Slot
from .coders import Bins, LogBins, Words
from .column import Column
from .spec import TableSpec, check_known

LEAST_COUNT = 2  # of a combination that gets a feature, unless min_count asks for more
BUFFERED = 1 << 20  # keys that are counted together
NO_KEYS = np.zeros(0, np.int64)
REASONS = {
    "number": "is a number, and only the values of categories and bins occur again; set its kind: bins",
    "datetime": "has two features, hour and weekday; add a column of text or whole numbers for each",
    "list": "has several values per cell",
    "ignore": "is ignored",
}


@dataclass(frozen=True, eq=False)
class Cross:
    """A fitted conjunction: its columns, and the ascending keys of its features."""

    columns: tuple[Column, ...]
    keys: np.ndarray = field(default_factory=lambda: NO_KEYS)

    def __post_init__(self) -> None:
        if math.prod(self.sizes) >= 2**63:
            raise DataValueError(f"conjunction {self.name!r}: too many values for keys of 64 bits")

    @property
    def name(self) -> str:
        return "*".join(column.name for column in self.columns)

    @property
    def sizes(self) -> list[int]:
        """Number of features of each column."""
        return [column.n_features for column in self.columns]

    @property
    def n_features(self) -> int:
        return int(self.keys.size)

    def keys_of(self, codes: Sequence[np.ndarray]) -> np.ndarray:
        """Return the key of each row, given the codes of its features in each column; -1 if a column has none."""
        keys, absent = np.zeros(codes[0].size, np.int64), np.zeros(codes[0].size, bool)
        for own, size in zip(codes, self.sizes):
            keys = keys * size + own
            absent |= own < 0
        keys[absent] = -1
        return keys

    def slot(self, codes: Sequence[np.ndarray]) -> Slot:
        """Return the feature of each row, if its combination has one."""
        if not self.keys.size:
            return Slot(np.full(codes[0].size, -1, np.int32))
        keys = self.keys_of(codes)
        places = np.searchsorted(self.keys, keys)
        known = self.keys[np.minimum(places, self.keys.size - 1)] == keys
        return Slot(np.where(known, places, -1).astype(np.int32))

    def codes_of(self, keys: np.ndarray) -> list[np.ndarray]:
        """Return the codes in each column that make up keys."""
        found = []
        for size in reversed(self.sizes):
            keys, codes = np.divmod(keys, max(size, 1))
            found.append(codes)
        return found[::-1]

    def feature_name(self, code: int) -> str:
        """Return `column=value * column=value`."""
        codes = self.codes_of(self.keys[code : code + 1])
        return " * ".join(column.feature_name(int(own[0])) for column, own in zip(self.columns, codes))

    def grown(self, columns: Sequence[Column], keys: np.ndarray) -> Cross:
        """Return this conjunction of columns that have grown, with further keys of those."""
        grown = Cross(tuple(columns))
        return Cross(grown.columns, np.union1d(self._keys_in(grown), keys))

    def codes_in(self, grown: Cross) -> np.ndarray:
        """Return the codes that the features have in a conjunction grown from this one."""
        return np.searchsorted(grown.keys, self._keys_in(grown))

    def _keys_in(self, grown: Cross) -> np.ndarray:
        pairs = zip(self.columns, grown.columns, self.codes_of(self.keys))
        return grown.keys_of([old.codes_in(new)[codes] for old, new, codes in pairs])


class KeyCounts:
    """Counts keys.

    >>> counts = KeyCounts()
    >>> counts.add(np.array([7, -1, 2, 7]))
    >>> counts.frequent(2)
    array([7])
    """

    def __init__(self) -> None:
        self._keys = self._counts = NO_KEYS
        self._buffered: list[np.ndarray] = []
        self._n_buffered = 0

    def add(self, keys: np.ndarray) -> None:
        """Count keys; negative ones are none."""
        self._buffered.append(keys[keys >= 0])
        self._n_buffered += keys.size
        if self._n_buffered >= max(BUFFERED, self._keys.size):
            self._merge()

    def _merge(self) -> None:
        new, counts = np.unique(np.concatenate([NO_KEYS, *self._buffered]), return_counts=True)
        self._buffered, self._n_buffered = [], 0
        keys, counts = np.concatenate([self._keys, new]), np.concatenate([self._counts, counts])
        order = np.argsort(keys, kind="stable")
        firsts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        self._keys = keys[order][firsts]
        self._counts = np.add.reduceat(counts[order], firsts) if firsts.size else NO_KEYS

    def frequent(self, min_count: int) -> np.ndarray:
        """Return the keys that were counted this often, in ascending order."""
        self._merge()
        return self._keys[self._counts >= min_count]


def places_of(names: Iterable[str], columns: Sequence[Column]) -> list[int]:
    """Return the places of columns."""
    known = {column.name: place for place, column in enumerate(columns)}
    return [known[name] for name in names]


def check_crosses(spec: TableSpec) -> None:
    """Reject conjunctions of columns that are unknown, or whose values do not occur again; spec: of all columns."""
    kinds = {column.name: column for column in spec.columns}
    for name in (name for names in spec.crosses for name in names):
        check_known(name, kinds, "column of cross")
        column = kinds[name]
        reason = REASONS.get(column.kind)
        if column.kind == "category" and (spec.hash_size if column.hash_size is None else column.hash_size):
            reason = "is hashed, so that a bucket has several values"
        if reason is not None:
            raise ConfigError(f"cross: column {name!r} {reason}", key="cross")


def can_cross(column: Column) -> bool:
    """Return whether the values of a column can be part of a conjunction."""
    return isinstance(column.coder, Words | Bins | LogBins)


def learn_crosses(
    spec: TableSpec, columns: Sequence[Column], blocks: Iterable[Sequence[np.ndarray]], old: Sequence[Cross] = ()
) -> tuple[Cross, ...]:
    """Return the conjunctions of a spec, learned from blocks of the codes of all columns.

    A combination gets a feature if it occurs often enough. old: conjunctions of fewer columns, to be extended.
    """
    places = [places_of(names, columns) for names in spec.crosses]
    crosses = [Cross(tuple(columns[place] for place in own)) for own in places]
    counts = [KeyCounts() for _ in crosses]
    for codes in blocks:
        for cross, own, counted in zip(crosses, places, counts):
            counted.add(cross.keys_of([codes[place] for place in own]))
    found = [counted.frequent(max(spec.min_count, LEAST_COUNT)) for counted in counts]
    if old:
        return tuple(one.grown(cross.columns, keys) for one, cross, keys in zip(old, crosses, found))
    return tuple(Cross(cross.columns, keys) for cross, keys in zip(crosses, found))
