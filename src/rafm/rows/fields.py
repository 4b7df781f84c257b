"""The field of each feature id: the column of a table, the field of a libffm entry, or what a file of fields says."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .numbering import DENSE_IDS

NO_FIELD = -1


@dataclass(frozen=True, eq=False)
class Fields:
    """Fields of ids, as runs: ids from starts[k] up to the next start are in field names[numbers[k]].

    The number NO_FIELD means that no field is known for these ids, as for all ids before the first start. path: the
    file that they were read from, for messages.

    >>> fields = Fields.of_ids(("user", "item"), ids=np.array([3, 4, 5, 9]), numbers=np.array([0, 0, 1, 1]))
    >>> fields.starts, fields.of(np.array([0, 4, 5, 6, 9, 99]))
    (array([ 3,  5,  6,  9, 10]), array([-1,  0,  1, -1,  1, -1], dtype=int32))
    """

    names: tuple[str, ...]
    starts: np.ndarray
    numbers: np.ndarray
    path: str | None = None

    @classmethod
    def of_ids(cls, names: Sequence[str], ids: np.ndarray, numbers: np.ndarray) -> Fields:
        """Return the fields of distinct ids in ascending order; numbers[k] is that of ids[k]."""
        ids, numbers = np.asarray(ids, np.int64), np.asarray(numbers, np.int32)
        gaps = np.flatnonzero(np.diff(ids, append=2**62) > 1)  # the id after each of these has no field
        places = np.concatenate([2 * np.arange(ids.size), 2 * gaps + 1])  # a gap follows its id
        order = np.argsort(places, kind="stable")
        starts = np.concatenate([ids, ids[gaps] + 1])[order]
        runs = np.concatenate([numbers, np.full(gaps.size, NO_FIELD, np.int32)])[order]
        first = np.concatenate([[True], runs[1:] != runs[:-1]])[: runs.size]
        return cls(tuple(names), starts[first], runs[first])

    @classmethod
    def of_ranges(cls, names: Sequence[str], firsts: Sequence[int]) -> Fields:
        """Return fields of consecutive ids: field k has ids firsts[k] .. firsts[k + 1] - 1."""
        filled = [k for k in range(len(names)) if firsts[k] < firsts[k + 1]]
        starts = np.array([*(firsts[k] for k in filled), firsts[-1]], np.int64)
        return cls(tuple(names), starts, np.array([*filled, NO_FIELD], np.int32))

    def of(self, ids: np.ndarray) -> np.ndarray:
        """Return the number of the field of each id, or NO_FIELD."""
        at = np.searchsorted(self.starts, ids, side="right")
        return np.concatenate([np.array([NO_FIELD], np.int32), self.numbers])[at]

    def checksum(self) -> str:
        """Return eight hexadecimal digits that identify these fields."""
        found = zlib.crc32("\0".join(self.names).encode("utf-8", "surrogatepass"))
        for array in (self.starts, self.numbers):
            found = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, found)
        return f"{found:08x}"


class FieldTable:
    """Collects the field of each id as rows are read; where an id occurs in several fields, the first one counts.

    >>> table = FieldTable()
    >>> table.add(np.array([7, 2, 7]), np.array([1, 0, 4]))
    2
    >>> fields = table.fields()
    >>> fields.names, fields.of(np.array([2, 7]))
    (('0', '1'), array([0, 1], dtype=int32))
    """

    def __init__(self) -> None:
        self._ids = np.zeros(0, np.int64)  # ascending; used once ids are too large for a table
        self._fields = np.zeros(0, np.int32)  # by id, or parallel to _ids
        self._dense = True

    def add(self, ids: np.ndarray, fields: np.ndarray) -> int:
        """Add entries in the order of the rows; return the first one whose id is known in another field, or -1."""
        places = self._places(ids)
        fresh = np.flatnonzero(self._fields[places] == NO_FIELD)[::-1]
        self._fields[places[fresh]] = fields[fresh]  # reversed: of equal places, the last assignment holds
        differing = self._fields[places] != fields
        return int(np.argmax(differing)) if differing.any() else -1

    def _places(self, ids: np.ndarray) -> np.ndarray:
        """Return where the field of each id is kept, making room for new ones."""
        largest = int(ids.max(initial=-1))
        if self._dense and largest < DENSE_IDS:
            if largest >= self._fields.size:
                grown = min(max(largest + 1, 2 * self._fields.size), DENSE_IDS)
                more = np.full(grown - self._fields.size, NO_FIELD, np.int32)
                self._fields = np.concatenate([self._fields, more])
            return ids
        if self._dense:
            self._ids = np.flatnonzero(self._fields != NO_FIELD)
            self._fields, self._dense = self._fields[self._ids], False
        at = np.searchsorted(self._ids, ids)
        known = self._ids[np.minimum(at, self._ids.size - 1)] == ids if self._ids.size else np.zeros(ids.size, bool)
        new = np.unique(ids[~known])
        if new.size:
            before = np.searchsorted(self._ids, new)
            self._ids, self._fields = np.insert(self._ids, before, new), np.insert(self._fields, before, NO_FIELD)
            at = np.searchsorted(self._ids, ids)
        return at

    def fields(self) -> Fields | None:
        """Return what was collected; None if there was nothing."""
        seen = np.flatnonzero(self._fields != NO_FIELD)
        if not seen.size:
            return None
        names, numbers = np.unique(self._fields[seen], return_inverse=True)
        return Fields.of_ids([str(name) for name in names], seen if self._dense else self._ids[seen], numbers)
