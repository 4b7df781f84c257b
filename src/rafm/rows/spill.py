"""What waits to be used again: in memory while it fits, else in a temporary file.

The file has no name, so its room on the disk is free again whenever the process ends, however it does. What is read
from it is read into memory of ours, and rows are checked there like those of any other file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Generic, NamedTuple, TypeVar

import numpy as np

from ..errors import ConfigError
from ..files.atomic import PathLike
from ..memory import give_back_unused
from .blocks import cut_blocks
from .checked import Batch, CheckedRows, check_batch

MEGABYTE = 10**6
Arrays = list[np.ndarray | None]
Item = TypeVar("Item")


@dataclass(frozen=True)
class Room:
    """How many megabytes may wait in memory, the folder for more (None: the system's), and who is told of that."""

    megabytes: float = 1000.0
    folder: PathLike | None = None
    told: Callable[[str], Any] | None = None
    _said: list[str] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.megabytes >= 0:
            raise ConfigError(f"memory must be 0 or more megabytes, found {self.megabytes}", key="memory")

    @property
    def place(self) -> str:
        """The folder for what does not fit."""
        return tempfile.gettempdir() if self.folder is None else os.fspath(self.folder)

    def open_file(self) -> IO[bytes]:
        """Return a new file without a name, and say so the first time."""
        try:
            file = tempfile.TemporaryFile(dir=self.place)  # noqa: SIM115
        except OSError as error:
            raise self.refusal(error) from None
        if self.told and not self._said:
            self._said.append(f"more than {self.megabytes:g} MB of rows: they go to a temporary file in {self.place}")
            self.told(self._said[0])
        return file

    def refusal(self, error: OSError) -> OSError:
        """Return an error that names the folder and the way out."""
        way_out = "encoded rows must go there; choose another folder with --spill, or more --memory"
        return type(error)(error.errno, f"{error.strerror}; {way_out}", self.place)


class _Stored(NamedTuple):
    """Where an item begins in the file, and type and size of each of its arrays."""

    begin: int
    arrays: list[tuple[np.dtype, int] | None]


class Spill(Generic[Item]):
    """Items in the order in which they came.

    to_arrays: takes an item apart for the file; from_arrays: puts it together again.

    >>> spill = Spill(Room(megabytes=0), lambda array: [array], lambda arrays: arrays[0])
    >>> for number in range(3):
    ...     spill.append(np.full(2, number))
    >>> spill.in_memory, len(spill), spill[1]
    (False, 3, array([1, 1]))
    """

    def __init__(self, room: Room, to_arrays: Callable[[Item], Arrays], from_arrays: Callable[[Arrays], Item]):
        self._room, self._to_arrays, self._from_arrays = room, to_arrays, from_arrays
        self._held: list[Item] = []
        self._n_bytes = 0
        self._file: IO[bytes] | None = None
        self._stored: list[_Stored] = []

    def __del__(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # on a full disk, what waits to be written
                self._file.close()

    @property
    def in_memory(self) -> bool:
        """Whether no item had to go to the file."""
        return self._file is None

    def __len__(self) -> int:
        return len(self._held) + len(self._stored)

    def append(self, item: Item) -> None:
        """Put an item behind the others."""
        self._n_bytes += item.nbytes  # type: ignore[attr-defined]
        self._held.append(item)
        if self._file is None and self._n_bytes > self._room.megabytes * MEGABYTE:
            self._file = self._room.open_file()
        if self._file is not None:
            self._write_held(self._file)

    def _write_held(self, file: IO[bytes]) -> None:
        try:
            file.seek(0, os.SEEK_END)
            for item in self._held:
                arrays = self._to_arrays(item)
                self._stored.append(_Stored(file.tell(), [a if a is None else (a.dtype, a.size) for a in arrays]))
                for array in arrays:
                    if array is not None:
                        file.write(_bytes_of(array))
            file.flush()
        except OSError as error:
            raise self._room.refusal(error) from None
        self._held = []

    def __getitem__(self, number: int) -> Item:
        """Return one item, from the file in new memory."""
        if self._file is None:
            return self._held[number]
        place = self._stored[number]
        self._file.seek(place.begin)
        return self._from_arrays([told and self._read(self._file, *told) for told in place.arrays])

    def _read(self, file: IO[bytes], kind: np.dtype, size: int) -> np.ndarray:
        array = np.empty(size, kind)
        if file.readinto(_bytes_of(array)) != array.nbytes:  # type: ignore[attr-defined]
            raise OSError(errno.EIO, "the temporary file of encoded rows was cut", self._room.place)
        return array

    def taken(self) -> Iterator[Item]:
        """Yield the items one by one; those in memory are let go."""
        if self.in_memory:
            self._held.reverse()
            while self._held:
                yield self._held.pop()
        else:
            yield from (self[number] for number in range(len(self)))


def _bytes_of(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).view(np.uint8).data


class SpilledRows:
    """Checked rows in blocks that depend on the rows alone: a source that spills what does not fit in the room.

    n_features: of the encoder; without one, ids have no end but the largest.
    """

    def __init__(self, batches: Iterable[CheckedRows], room: Room, n_features: int | None = None):
        self._blocks = Spill(room, _arrays_of, _rows_of)
        self.n_rows, self.n_features = 0, n_features or 0
        for block in cut_blocks(batches):
            largest = block.largest_id
            self._blocks.append(block.with_short_ids())
            self.n_rows += block.n_rows
            if n_features is None:
                self.n_features = max(self.n_features, largest + 1)
            del block  # before the next one is made
        give_back_unused()

    @property
    def in_memory(self) -> bool:
        return self._blocks.in_memory

    @property
    def n_blocks(self) -> int:
        return len(self._blocks)

    def block(self, number: int) -> CheckedRows:
        """Return one block."""
        return self._blocks[number].with_n_features(self.n_features)


def _arrays_of(rows: CheckedRows) -> Arrays:
    return [rows.indptr, rows.indices, rows.values, rows.labels, rows.weights, np.array([rows.n_features])]


def _rows_of(arrays: Arrays) -> CheckedRows:
    indptr, indices, values, labels, weights, n_features = arrays
    return check_batch(Batch(indptr, indices, values, int(n_features[0]), labels, weights))  # type: ignore[arg-type, index]
