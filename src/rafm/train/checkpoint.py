"""Checkpoints: a folder from which a killed run goes on to the same bytes.

    FOLDER/lock                 held by the process that trains; the system lets go of it when the process ends
    FOLDER/checkpoint-12.rafm   the newest state: a container (container.py) whose header holds
                                {"kind": "checkpoint", "identity": ..., "finished": ..., "position": ..., ...}
    FOLDER/checkpoint-11.rafm   the one before, in case the newest gets damaged

A new state is written whole and forced to the disk before the oldest one goes. The identity says which run this is:
version, options, and a checksum of all rows. A run of another identity is refused by the names of what differs.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import is_dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import numpy as np

from ..errors import CheckpointError, ConfigError, ModelFileError
from ..files.atomic import PathLike
from ..files.container import read_container, write_container
from ..model.model import Model
from ..options import TrainingOptions
from ..rows.checked import CheckedRows
from ..rows.source import Source
from ..version import __version__

KIND = "checkpoint"
KEPT = 2  # newest states that stay
STOPPING = (signal.SIGINT, signal.SIGTERM)
MAX_NAMED = 3  # differences that a message lists
_NAME = re.compile(r"checkpoint-([0-9]{1,15})\.rafm")
_TORN = re.compile(r"\.checkpoint-[0-9]{1,15}\.rafm\.[0-9a-f]+\.tmp")

State = tuple[dict[str, Any], dict[str, np.ndarray]]


def _nothing() -> State | None:
    return None


class NoCheckpoint:
    """Stands for a checkpoint where none is wanted."""

    wanted = False
    name = ""
    capture: Callable[[], State | None] = _nothing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *leaving: object) -> None:
        pass

    def whole(self) -> nullcontext[None]:
        return nullcontext()

    def find(self, identity: dict[str, Any]) -> State | None:
        return None

    def is_due(self) -> bool:
        return False

    def write(self, finished: bool = False) -> str | None:
        return None


class Checkpoint:
    """A folder of states, open for one run at a time; leaving it by Ctrl-C or SIGTERM writes one more.

    seconds: how long to wait between two states. tell: called with one line about anything unusual. capture: to be set
    to what returns the state of the moment, or None if there is nothing worth keeping.
    """

    wanted = True

    def __init__(self, folder: PathLike, seconds: float = 60.0, tell: Callable[[str], Any] = print):
        if not seconds >= 0:
            raise ConfigError(f"checkpoint_seconds must be a number of at least 0, found {seconds!r}", "checkpoint")
        self.folder, self.name, self.seconds, self.tell = Path(folder), os.fspath(folder), seconds, tell
        self.identity: dict[str, Any] = {}
        self.capture: Callable[[], State | None] = _nothing
        self.number, self.last, self.complaints = 0, time.monotonic(), set[str]()
        self.is_whole, self.pending, self.handlers = False, 0, dict[int, Any]()

    # The folder

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.folder / "lock", "ab")
        try:
            _lock(self.lock.fileno(), self.name)
            for torn in self.folder.iterdir():
                if _TORN.fullmatch(torn.name):
                    torn.unlink()
            self._listen()
        except BaseException:
            self.lock.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is not None and issubclass(kind, KeyboardInterrupt | SystemExit) and self.write() is not None:
                self.tell(f"{self.name}: checkpoint written; the same command goes on from there")
        finally:
            self._stop_listening()
            self.lock.close()

    def find(self, identity: dict[str, Any]) -> State | None:
        """Return the newest state of this run, None if there is none yet."""
        found = self._newest()
        if found is not None:
            _check_same_run(self.name, found[0].get("identity", {}), identity)
        self.identity, self.last = identity, time.monotonic()
        return found

    def _newest(self) -> State | None:
        """Return the newest state that is whole."""
        troubles = []
        for number, path in self._states():
            self.number = max(self.number, number)
            try:
                header, tensors = read_container(path)
            except ModelFileError as error:
                troubles.append(str(error))
                continue
            if header.get("kind") != KIND:
                raise CheckpointError(f"{path}: is a model, not a checkpoint. Use another folder.")
            for trouble in troubles:
                self.tell(f"{self.name}: {trouble} Going on from {path.name}, written before it.")
            return header, tensors
        if troubles:
            raise CheckpointError(f"{self.name}: {troubles[0]} Remove the folder to train from the start.")
        return None

    def _states(self) -> list[tuple[int, Path]]:
        """Return numbers and paths of all states, newest first."""
        found = ((_NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted(((int(match[1]), path) for match, path in found if match), reverse=True)

    # Writing

    def is_due(self) -> bool:
        """Tell whether the last state is old enough."""
        return time.monotonic() - self.last >= self.seconds

    def write(self, finished: bool = False) -> str | None:
        """Write the state of the moment and drop the oldest; return its path, or None if there is nothing to write.

        A full disk, or numbers that are not finite, do not end training: they are told once, and what was there stays.
        """
        state = self.capture()
        self.last = time.monotonic()
        if state is None:
            return None
        values, arrays = state
        path = self.folder / f"checkpoint-{self.number + 1}.rafm"
        try:
            write_container(path, arrays, {"kind": KIND, "identity": self.identity, "finished": finished, **values})
        except (OSError, ModelFileError) as error:
            self._complain(error)
            return None
        self.number += 1
        for _, old in self._states()[KEPT:]:
            with suppress(OSError):
                old.unlink()
        self.last = time.monotonic()
        return str(path)

    def _complain(self, error: OSError | ModelFileError) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if why not in self.complaints:
            self.complaints.add(why)
            self.tell(f"{self.name}: no checkpoint written: {why}. Training goes on; the checkpoint before stays.")

    # Interrupts

    def _listen(self) -> None:
        """Let interrupts wait for `whole` work to end; only the main thread can do that."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in STOPPING:
            before = signal.getsignal(number)
            if before not in (signal.SIG_IGN, None):
                self.handlers[number] = before
                signal.signal(number, self._on_signal)

    def _stop_listening(self) -> None:
        for number, before in self.handlers.items():
            signal.signal(number, before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_whole:
            self.pending = number
        elif callable(before := self.handlers[number]):
            before(number, frame)
        else:
            raise SystemExit(128 + number)

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Do what must not be left half done; an interrupt takes effect after it."""
        self.is_whole = True
        try:
            yield
        finally:
            self.is_whole = False
            if self.pending:
                number, self.pending = self.pending, 0
                self._on_signal(number, None)


def _lock(descriptor: int, name: str) -> None:
    """Take the lock of a folder, or say that another run has it; systems without file locks do without."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise CheckpointError(
            f"{name}: another run is writing its checkpoints here. Wait for it, or use another folder."
        ) from None


# Which run a state belongs to


class Content:
    """Counts rows and takes a checksum of all that is in them."""

    def __init__(self) -> None:
        self.rows = self.nonzeros = self.checksum = 0

    @classmethod
    def of(cls, source: Source) -> Content:
        """Look at all rows of a source."""
        content = cls()
        for _ in content.passing(source.block(number) for number in range(source.n_blocks)):
            pass
        return content

    def passing(self, batches: Iterable[CheckedRows]) -> Iterator[CheckedRows]:
        """Pass batches on, looking at each."""
        for batch in batches:
            self.rows, self.nonzeros = self.rows + batch.n_rows, self.nonzeros + batch.indices.size
            for array in (batch.indptr, batch.indices, batch.values, batch.labels, batch.weights):
                if array is not None:
                    self.checksum = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, self.checksum)
            yield batch


def identity(
    options: TrainingOptions, training: Content, valid: Content | None, start: Model | None = None
) -> dict[str, Any]:
    """Return, by names that people know, all that decides what a run computes."""
    chosen = {name: _plain(value) for name, value in options.identity().items()}
    rows = {"training rows": training, "validation rows": valid or Content()}
    counted = {name: content.rows for name, content in rows.items()}
    counted |= {f"nonzeros of the {name}": content.nonzeros for name, content in rows.items()}
    sums = {f"checksum of the {name}": f"{content.checksum:08x}" for name, content in rows.items()}
    begun = {} if start is None else {"model to go on from": _model_content(start)}
    return {"rafm": __version__, **chosen, **begun, **counted, **sums}


def _model_content(model: Model) -> str:
    arrays = [*model.parameters.arrays().values(), model.numbering.ids, model.counts]
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, checksum)
    return f"{model.plan.n_features} features, checksum {checksum:08x}"


def _plain(value: Any) -> Any:
    """Return a choice as JSON has it; arrays by their checksum, settings by name and values.

    >>> from rafm.plan.ranks import NearestRank
    >>> _plain(NearestRank(2.0)), _plain((8, 32)), _plain(np.arange(3))
    ('NearestRank(scale=2.0)', [8, 32], '3 numbers, checksum 4f8c5ccc')
    """
    if isinstance(value, np.ndarray):
        return f"{value.size} numbers, checksum {zlib.crc32(np.ascontiguousarray(value).view(np.uint8).data):08x}"
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value) if is_dataclass(value) else getattr(value, "__qualname__", type(value).__qualname__)


def _check_same_run(name: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse a state of another run, naming what differs."""
    differing = [key for key in {**now, **before} if before.get(key) != now.get(key)]
    if not differing:
        return
    named = [f"{key} was {_shown(before.get(key))}, now {_shown(now.get(key))}" for key in differing[:MAX_NAMED]]
    more = f" and {len(differing) - MAX_NAMED} more" if len(differing) > MAX_NAMED else ""
    raise CheckpointError(
        f"{name}: the checkpoint belongs to another run: {'; '.join(named)}{more}. "
        "Repeat that run's command, or use another folder."
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(dict.fromkeys(map(_shown, value)))  # what is the same for all ranks is said once
    return "none" if value is None else str(value)
