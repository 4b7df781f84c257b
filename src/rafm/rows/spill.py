"""Batches that wait: in memory while they fit, else in a temporary file.

The file has no name, so its room on the disk is free again whenever the process ends, however it does. It is mapped
when it is read: what is read from it does not count as memory that the process needs.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from ..errors import ConfigError
from ..files.atomic import PathLike

if TYPE_CHECKING:
    import pyarrow as pa

MEGABYTE = 10**6


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


def _as_it_is(batch: Any) -> Any:
    return batch


class Shelf:
    """Batches in the order in which they came, each of its own schema.

    pack: makes a record batch of what goes to the file, unpack undoes it; Arrow is imported when there is a file.

    >>> import pyarrow as pa
    >>> shelf = Shelf(Room(megabytes=0))
    >>> for number in range(3):
    ...     shelf.append(pa.record_batch({"x": [number]}))
    >>> shelf.in_memory, len(shelf), shelf[1].to_pydict()
    (False, 3, {'x': [1]})
    """

    def __init__(self, room: Room, pack: Callable[[Any], Any] = _as_it_is, unpack: Callable[[Any], Any] = _as_it_is):
        self._room, self._pack, self._unpack = room, pack, unpack
        self._held: list[Any] = []
        self._n_bytes = 0
        self._file: IO[bytes] | None = None
        self._mapped: pa.Buffer | None = None
        self._ends = [0]  # of the batches in the file

    def __del__(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # on a full disk, what waits to be written
                self._file.close()

    @property
    def in_memory(self) -> bool:
        """Whether no batch had to go to the file."""
        return self._file is None

    def __len__(self) -> int:
        return len(self._held) if self.in_memory else len(self._ends) - 1

    def append(self, batch: Any) -> None:
        """Put a batch behind the others."""
        self._n_bytes += batch.nbytes
        self._held.append(batch)
        if self._file is None and self._n_bytes > self._room.megabytes * MEGABYTE:
            self._file = self._room.open_file()
        if self._file is not None:
            self._write_held(self._file)

    def _write_held(self, file: IO[bytes]) -> None:
        import pyarrow as pa

        try:
            for batch in map(self._pack, self._held):
                with pa.ipc.new_stream(pa.PythonFile(file, "w"), batch.schema) as writer:
                    writer.write_batch(batch)
                self._ends.append(file.tell())
            file.flush()
        except OSError as error:
            raise self._room.refusal(error) from None
        self._held, self._mapped = [], None

    def __getitem__(self, number: int) -> Any:
        """Return one batch; of the file's, a view."""
        if self._file is None:
            return self._held[number]
        import pyarrow as pa

        if self._mapped is None:
            self._mapped = pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
        begin, end = self._ends[number : number + 2]
        return self._unpack(pa.ipc.open_stream(self._mapped.slice(begin, end - begin)).read_next_batch())

    def taken(self) -> Iterator[Any]:
        """Yield the batches one by one; those in memory are let go."""
        if self.in_memory:
            self._held.reverse()
            while self._held:
                yield self._held.pop()
        else:
            yield from (self[number] for number in range(len(self)))
