"""What training may take: memory, bytes of the file, time; and where it writes checkpoints."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..rows.spill import SpillOptions
from .checkpoint import Checkpoint, NoCheckpoint


@dataclass
class Stop:
    """A request to stop: training ends after the event during which it was made, as if time had run out."""

    requested: bool = False


@dataclass(frozen=True)
class Resources:
    """What training may take.

    memory: megabytes for the parameters in training, None for any amount. reserved_bytes: what the model file holds
    besides the model. seconds: limit of time, total across resumes. checkpoint: where to resume from and to write to.
    room: memory for rows that are held out. stop: a request that consumers of the events can make.
    """

    memory: float | None = None
    reserved_bytes: int = 0
    seconds: float | None = None
    checkpoint: Checkpoint | NoCheckpoint = field(default_factory=NoCheckpoint)
    room: SpillOptions = field(default_factory=lambda: SpillOptions(megabytes=np.inf))
    stop: Stop = field(default_factory=Stop)

    def within(self, seconds: float | None) -> Resources:
        """Return the same with a lower limit of time, if it is one."""
        limits = [limit for limit in (self.seconds, seconds) if limit is not None]
        return replace(self, seconds=min(limits, default=None))

    def after(self, seconds: float) -> Resources:
        """Return what is left after so many seconds."""
        return self if self.seconds is None else replace(self, seconds=max(self.seconds - seconds, 0.0))
