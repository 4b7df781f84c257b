"""Checkpoints: a directory from which an interrupted run resumes, to a bit-identical model.

    FOLDER/training.json        options and checksums of a training of several runs
    FOLDER/run-2/               the same of the second one of its runs
    FOLDER/lock                 locked by the training process; the system unlocks it when the process ends
    FOLDER/checkpoint-12.rafm   the newest state: a container (files/container.py) whose header is
                                {"kind": "checkpoint", "identity": ..., "finished": ..., "position": ..., ...}
    FOLDER/checkpoint-11.rafm   the state before, in case the newest one gets damaged

A new state is complete and synced to the disk before the oldest one is deleted. The identity of a run is its version,
options and a checksum of all rows. A checkpoint of another run is rejected with a message that names the differences.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import is_dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..errors import CheckpointError, ConfigError, ModelFileError
from ..files.atomic import PathLike, write_atomically
from ..files.container import read_container, write_container
from ..files.lock import lock_file
from ..model.model import Model
from ..options import Options
from ..rows.checked import CheckedRows
from ..rows.fields import Fields
from ..rows.source import RowSource
from ..version import __version__

if TYPE_CHECKING:
    from .resources import Resources

KIND, IDENTITY_FILE = "checkpoint", "training.json"
KEPT_STATES = 2  # newest states to keep
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
MAX_NAMED = 3  # differences that a message lists
_NAME = re.compile(r"checkpoint-([0-9]{1,15})\.rafm")
_TEMPORARY = re.compile(r"\.checkpoint-[0-9]{1,15}\.rafm\.[0-9a-f]+\.tmp")

State = tuple[dict[str, Any], dict[str, np.ndarray]]


def _nothing() -> State | None:
    return None


class NoCheckpoint:
    """A checkpoint that does nothing."""

    wanted = False
    name = ""
    expected: dict[str, Any] | None = None

    def expect(self, identity: dict[str, Any]) -> None:
        pass

    capture: Callable[[], State | None] = _nothing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *leaving: object) -> None:
        pass

    def of_run(self, number: int) -> NoCheckpoint:
        return self

    def uninterrupted(self) -> nullcontext[None]:
        return nullcontext()

    def find(self, identity: dict[str, Any]) -> State | None:
        return None

    def is_due(self, seconds: float | None = None) -> bool:
        return False

    def write(self, finished: bool = False) -> str | None:
        return None


class Checkpoint:
    """A directory of states, locked by one run at a time; Ctrl-C and SIGTERM write a last state.

    Parameters
    ----------
    folder : path
        The directory; created if it does not exist.
    seconds : float, default=60.0
        Minimum time between two states within an epoch.
    tell : callable, default=print
        Called with one line about anything unusual.

    The attribute `capture` must be set to a function that returns the current state, or None if it is not worth saving.
    """

    wanted = True

    def __init__(self, folder: PathLike, seconds: float = 60.0, tell: Callable[[str], Any] = print):
        if not seconds >= 0:
            raise ConfigError(f"checkpoint_seconds must be at least 0, found {seconds!r}", "checkpoint")
        self.folder, self.name, self.seconds, self.tell = Path(folder), os.fspath(folder), seconds, tell
        self.identity: dict[str, Any] = {}
        self.expected: dict[str, Any] | None = None  # identity of a whole training, if this is of one of its runs
        self.capture: Callable[[], State | None] = _nothing
        self.number, self.last, self.complaints = 0, time.monotonic(), set[str]()
        self.is_uninterruptible, self.pending, self.handlers = False, 0, dict[int, Any]()

    # The folder

    def __enter__(self) -> Self:
        if self.folder.is_file():
            raise NotADirectoryError(20, "is a file; give a directory", self.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.folder / "lock", "ab")
        try:
            refusal = (
                f"{self.name}: another run is writing its checkpoints here. Wait for it, or use another directory."
            )
            lock_file(self.lock.fileno(), refusal)
            for leftover in self.folder.iterdir():  # of writes that SIGKILL interrupted; the lock says they are ours
                if _TEMPORARY.fullmatch(leftover.name):
                    leftover.unlink()
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
                self.tell(f"{self.name}: checkpoint written; run the same command again to resume")
        finally:
            self._stop_listening()
            self.lock.close()

    def of_run(self, number: int) -> AbstractContextManager[Checkpoint]:
        """Return the checkpoint of one of several runs: of the first one this, of others a directory in it."""
        if number == 1:
            return nullcontext(self)
        self.capture = _nothing  # the runs before are complete
        own = Checkpoint(self.folder / f"run-{number}", self.seconds, self.tell)
        own.expected, own.complaints = self.expected, self.complaints
        return own

    def expect(self, identity: dict[str, Any]) -> None:
        """Say what determines the results of all runs; reject the states of another training at once."""
        self.expected, path = identity, self.folder / IDENTITY_FILE
        before = identity
        if path.exists() and any(self.folder.rglob("checkpoint-*.rafm")):
            with suppress(ValueError):  # damaged: each state has its identity, too
                before = json.loads(path.read_text("utf-8"))
        check_same_run(self.name, before, identity)
        try:
            write_atomically(path, [json.dumps(identity).encode()])
        except OSError as error:
            self._complain(error)

    def find(self, identity: dict[str, Any]) -> State | None:
        """Return the newest state of this run, None if there is none; reject that of another run."""
        found = self._newest()
        if found is not None:
            check_same_run(self.name, found[0].get("identity", {}), identity)
        self.identity, self.last = identity, time.monotonic()
        return found

    def _newest(self) -> State | None:
        """Return the newest undamaged state."""
        troubles = []
        for number, path in self._states():
            self.number = max(self.number, number)
            try:
                header, tensors = read_container(path)
            except ModelFileError as error:
                troubles.append(str(error))
                continue
            if header.get("kind") != KIND:
                raise CheckpointError(f"{path}: is a model, not a checkpoint. Use another directory.")
            for trouble in troubles:
                self.tell(f"{self.name}: {trouble} Resuming from the previous state, {path.name}.")
            return header, tensors
        if troubles:
            raise CheckpointError(f"{self.name}: {troubles[0]} Remove the directory to train from scratch.")
        return None

    def _states(self) -> list[tuple[int, Path]]:
        """Return (number, path) of all states, newest first."""
        found = ((_NAME.fullmatch(path.name), path) for path in self.folder.iterdir())
        return sorted(((int(match[1]), path) for match, path in found if match), reverse=True)

    # Writing

    def is_due(self, seconds: float | None = None) -> bool:
        """Return whether the last state is older than this; seconds: if fewer than those of the checkpoint."""
        return time.monotonic() - self.last >= (self.seconds if seconds is None else min(seconds, self.seconds))

    def write(self, finished: bool = False) -> str | None:
        """Write the current state and delete the oldest one; return its path, or None if nothing was written.

        A full disk, or parameters that are not finite, do not stop training: they are reported once, and the previous
        states are kept.
        """
        state = self.capture()
        self.last = time.monotonic()
        if state is None:
            return None
        values, arrays = state
        # An interrupt may have come between the rename of a state and its count: it must not be overwritten.
        self.number = max([self.number, *(number for number, _ in self._states())])
        path = self.folder / f"checkpoint-{self.number + 1}.rafm"
        try:
            write_container(path, arrays, {"kind": KIND, "identity": self.identity, "finished": finished, **values})
        except (OSError, ModelFileError) as error:
            self._complain(error)
            return None
        self.number += 1  # only after success: a failed write leaves no gap
        for _, old in self._states()[KEPT_STATES:]:
            with suppress(OSError):
                old.unlink()
        self.last = time.monotonic()
        return str(path)

    def _complain(self, error: OSError | ModelFileError) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if why not in self.complaints:
            self.complaints.add(why)
            self.tell(f"{self.name}: no checkpoint written: {why}. Training continues; the previous one is kept.")

    # Interrupts

    def _listen(self) -> None:
        """Install signal handlers that wait for `uninterrupted` blocks to finish."""
        if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
            return
        for number in STOP_SIGNALS:
            before = signal.getsignal(number)
            if before not in (signal.SIG_IGN, None):  # None: set by C code, which we could not restore
                self.handlers[number] = before
                signal.signal(number, self._on_signal)

    def _stop_listening(self) -> None:
        for number, before in self.handlers.items():
            signal.signal(number, before)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_uninterruptible:
            self.pending = number
        elif callable(before := self.handlers[number]):
            before(number, frame)
        else:
            raise SystemExit(128 + number)

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        """Defer interrupts until the end of the block, which must not be left half done."""
        self.is_uninterruptible = True
        try:
            yield
        finally:
            self.is_uninterruptible = False
            if self.pending:
                number, self.pending = self.pending, 0
                self._on_signal(number, None)


# Which run a state belongs to


class RowsFingerprint:
    """Number of rows and nonzeros, and a checksum of their content."""

    def __init__(self) -> None:
        self.rows = self.nonzeros = self.checksum = 0

    @classmethod
    def of(cls, source: RowSource) -> RowsFingerprint:
        """Read all rows of a source and return their fingerprint."""
        fingerprint = cls()
        for _ in fingerprint.watch(source.block(number) for number in range(source.n_blocks)):
            pass
        return fingerprint

    def watch(self, batches: Iterable[CheckedRows]) -> Iterator[CheckedRows]:
        """Pass batches through, adding each to the fingerprint."""
        for batch in batches:
            self.rows, self.nonzeros = self.rows + batch.n_rows, self.nonzeros + batch.indices.size
            for array in (batch.indptr, batch.indices, batch.values, batch.labels, batch.weights):
                if array is not None:
                    self.checksum = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, self.checksum)
            yield batch


def identity(
    options: Options,
    resources: Resources,
    training: RowsFingerprint,
    valid: RowsFingerprint | None,
    start: Model | None = None,
    fields: Fields | None = None,
) -> dict[str, Any]:
    """Return everything that determines the result of a run, under names that messages can show."""
    chosen = options.identity()
    if options.measured:
        chosen |= {"memory": resources.memory, "reserved_bytes": resources.reserved_bytes}
    chosen = {name: plain_value(value) for name, value in chosen.items()}
    rows = {"training rows": training, "validation rows": valid or RowsFingerprint()}
    counted = {name: own.rows for name, own in rows.items()}
    counted |= {f"nonzeros of the {name}": own.nonzeros for name, own in rows.items()}
    sums = {f"checksum of the {name}": f"{own.checksum:08x}" for name, own in rows.items()}
    begun = {} if start is None else {"model to go on from": _model_content(start)}  # a key of existing checkpoints
    known = {} if fields is None else {"checksum of the fields": fields.checksum()}
    return {"rafm": __version__, **chosen, **begun, **counted, **sums, **known}


def _model_content(model: Model) -> str:
    arrays = [*model.parameters.arrays().values(), model.numbering.ids, model.counts]
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(np.ascontiguousarray(array).view(np.uint8).data, checksum)
    return f"{model.plan.n_features} features, checksum {checksum:08x}"


def plain_value(value: Any) -> Any:
    """Convert an option to JSON: arrays by their checksum, settings by their repr.

    >>> from rafm.plan.ranks import NearestRank
    >>> plain_value(NearestRank(2.0)), plain_value((8, 32)), plain_value(np.arange(3))
    ('NearestRank(scale=2.0)', [8, 32], '3 numbers, checksum 4f8c5ccc')
    """
    if isinstance(value, np.ndarray):
        return f"{value.size} numbers, checksum {zlib.crc32(np.ascontiguousarray(value).view(np.uint8).data):08x}"
    if isinstance(value, tuple | list):
        return [plain_value(part) for part in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return repr(value) if is_dataclass(value) else getattr(value, "__qualname__", type(value).__qualname__)


def check_same_run(name: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Reject the state of another run, naming the differences."""
    differing = [key for key in {**now, **before} if before.get(key) != now.get(key)]
    if not differing:
        return
    named = [f"{key} was {_shown(before.get(key))}, now {_shown(now.get(key))}" for key in differing[:MAX_NAMED]]
    more = f" and {len(differing) - MAX_NAMED} more" if len(differing) > MAX_NAMED else ""
    raise CheckpointError(
        f"{name}: the checkpoint belongs to another run: {'; '.join(named)}{more}. "
        "Repeat the command of that run, or use another directory."
    )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(dict.fromkeys(map(_shown, value)))  # a value that is the same for all ranks is shown once
    return "none" if value is None else str(value)
