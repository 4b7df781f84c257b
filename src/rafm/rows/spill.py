"""Keep items for later use in memory while they fit, then in a temporary file.

The file has no name, so the system frees its space when the process ends, even by SIGKILL. Items are read back into
owned memory, and rows are checked again like those of any other file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import IO, Any, Generic, NamedTuple, TypeVar

import numpy as np

from ..errors import ConfigError
from ..files.atomic import PathLike
from .blocks import cut_blocks
from .checked import Batch, CheckedRows, check_batch
from .fields import Fields
from .memory import release_unused
from .source import RowSource

MEGABYTE = 10**6
Arrays = list[np.ndarray | None]
Item = TypeVar("Item")


@dataclass(frozen=True)
class SpillOptions:
    """Memory limit in megabytes, directory for the spill file (None: system temp), and callback for its notice."""

    megabytes: float = 1000.0
    folder: PathLike | None = None
    notify: Callable[[str], Any] | None = None
    _notices: list[str] = field(default_factory=list, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.megabytes >= 0:
            raise ConfigError(f"memory must be at least 0 megabytes, found {self.megabytes}", key="memory")

    @property
    def directory(self) -> str:
        """The directory of the spill file."""
        return tempfile.gettempdir() if self.folder is None else os.fspath(self.folder)

    def open_file(self) -> IO[bytes]:
        """Create an unnamed file, and send a notice the first time."""
        try:
            file = tempfile.TemporaryFile(dir=self.directory)  # noqa: SIM115
        except OSError as error:
            raise self.explain(error) from None
        if self.notify and not self._notices:  # several spills may share these options: one notice is enough
            self._notices.append(f"rows exceed {self.megabytes:g} MB: spilling to a temporary file in {self.directory}")
            self.notify(self._notices[0])
        return file

    def explain(self, error: OSError) -> OSError:
        """Return the error with the directory and the way out."""
        way_out = "encoded rows spill to this directory; choose another one with --spill, or raise --memory"
        return type(error)(error.errno, f"{error.strerror}; {way_out}", self.directory)


class _Stored(NamedTuple):
    """Offset of an item in the file, and type and size of each of its arrays (None: no array)."""

    begin: int
    arrays: list[tuple[np.dtype, int] | None]


class Spill(Generic[Item]):
    """A sequence that moves to a temporary file once it exceeds the memory limit.

    to_arrays: convert an item to arrays for the file; from_arrays: the inverse; size: the bytes of an item.

    >>> spill = Spill(SpillOptions(megabytes=0), lambda array: [array], lambda arrays: arrays[0])
    >>> for number in range(3):
    ...     spill.append(np.full(2, number))
    >>> spill.in_memory, len(spill), spill[1]
    (False, 3, array([1, 1]))
    """

    def __init__(
        self,
        options: SpillOptions,
        to_arrays: Callable[[Item], Arrays],
        from_arrays: Callable[[Arrays], Item],
        size: Callable[[Item], int] = attrgetter("nbytes"),
    ):
        self._options, self._to_arrays, self._from_arrays, self._size = options, to_arrays, from_arrays, size
        self._held: list[Item] = []
        self._n_bytes = 0
        self._file: IO[bytes] | None = None
        self._stored: list[_Stored] = []

    def __del__(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # closing flushes buffered bytes, which fails on a full disk
                self._file.close()

    @property
    def in_memory(self) -> bool:
        """Whether all items are in memory."""
        return self._file is None

    def __len__(self) -> int:
        return len(self._held) + len(self._stored)

    def append(self, item: Item) -> None:
        """Add an item at the end."""
        self._n_bytes += self._size(item)
        self._held.append(item)
        if self._file is None and self._n_bytes > self._options.megabytes * MEGABYTE:
            self._file = self._options.open_file()
        if self._file is not None:
            self._write_held(self._file)

    def _write_held(self, file: IO[bytes]) -> None:
        try:
            file.seek(0, os.SEEK_END)  # reading an item may have moved the position
            for item in self._held:
                arrays = self._to_arrays(item)
                self._stored.append(_Stored(file.tell(), [a if a is None else (a.dtype, a.size) for a in arrays]))
                for array in arrays:
                    if array is not None:
                        file.write(_bytes_of(array))
            file.flush()
        except OSError as error:
            raise self._options.explain(error) from None
        self._held = []

    def __getitem__(self, number: int) -> Item:
        """Return one item; those in the file are read into new memory."""
        if self._file is None:
            return self._held[number]
        stored = self._stored[number]
        self._file.seek(stored.begin)
        return self._from_arrays([array and self._read(self._file, *array) for array in stored.arrays])

    def _read(self, file: IO[bytes], kind: np.dtype, size: int) -> np.ndarray:
        array = np.empty(size, kind)
        if file.readinto(_bytes_of(array)) != array.nbytes:  # type: ignore[attr-defined]
            raise OSError(errno.EIO, "the temporary file of encoded rows was truncated", self._options.directory)
        return array

    def taken(self) -> Iterator[Item]:
        """Yield the items one by one, freeing those in memory."""
        if self.in_memory:
            self._held.reverse()  # so that pop() takes the first item
            while self._held:
                yield self._held.pop()
        else:
            yield from (self[number] for number in range(len(self)))


def _bytes_of(array: np.ndarray) -> memoryview:
    return np.ascontiguousarray(array).view(np.uint8).data


class SpilledRows:
    """A row source that spills blocks to disk above the memory limit.

    n_features: that of the encoder; by default the largest id + 1.
    """

    def __init__(self, batches: Iterable[CheckedRows], options: SpillOptions, n_features: int | None = None):
        self._blocks = Spill(options, _arrays_of, _rows_of)
        self.n_rows, self.n_features = 0, n_features or 0
        self.fields: Fields | None = None  # set once the rows, which may tell them, have been read
        for block in cut_blocks(batches):
            largest = block.largest_id
            self._blocks.append(block.with_short_ids())
            self.n_rows += block.n_rows
            if n_features is None:
                self.n_features = max(self.n_features, largest + 1)
            del block  # free the block before the next one is built
        release_unused()

    @property
    def in_memory(self) -> bool:
        return self._blocks.in_memory

    @property
    def n_blocks(self) -> int:
        return len(self._blocks)

    def block(self, number: int) -> CheckedRows:
        """Return one block."""
        return self._blocks[number].with_n_features(self.n_features)


def loaded(source: RowSource, options: SpillOptions) -> RowSource:
    """Load the rows of a file if they fit in memory by the rule of `SpilledRows`, as those of any other format.

    Larger ones are read from their file again each time, instead of spilling to another one.
    """
    blocks: list[CheckedRows] = []
    for number in range(source.n_blocks):
        blocks.append(source.block(number).with_short_ids())
        if sum(block.nbytes for block in blocks) > options.megabytes * MEGABYTE:
            return source
    rows = SpilledRows(blocks, options, source.n_features)
    rows.fields = source.fields
    return rows


def _arrays_of(rows: CheckedRows) -> Arrays:
    return [rows.indptr, rows.indices, rows.values, rows.labels, rows.weights, np.array([rows.n_features])]


def _rows_of(arrays: Arrays) -> CheckedRows:
    indptr, indices, values, labels, weights, n_features = arrays
    return check_batch(Batch(indptr, indices, values, int(n_features[0]), labels, weights))  # type: ignore[arg-type, index]
