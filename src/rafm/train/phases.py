"""Let runs that follow one another share a checkpoint: each state says which run it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .checkpoint import Checkpoint, NoCheckpoint, State


class Phases:
    """A checkpoint of several consecutive runs, which have names; `results` holds what finished runs found.

    The identity of the whole is compared once, here.
    """

    def __init__(self, whole: Checkpoint | NoCheckpoint, identity: dict[str, Any]):
        self.whole, self.found = whole, whole.find(identity)
        self.results: dict[str, dict[str, Any]] = {} if self.found is None else dict(self.found[0].get("results", {}))

    def named(self, name: str, is_last: bool = False) -> Phase:
        """Return the checkpoint of one run."""
        return Phase(self, name, is_last)


class Phase:
    """The checkpoint as one of the runs sees it; only the last one can finish the whole."""

    def __init__(self, phases: Phases, phase: str, is_last: bool):
        self.phases, self.phase, self.is_last, self.whole = phases, phase, is_last, phases.whole
        self.wanted, self.name = self.whole.wanted, self.whole.name
        self.uninterrupted: Callable[[], Any] = self.whole.uninterrupted

    @property
    def capture(self) -> Callable[[], State | None]:
        """Return the function that captures the state of the run."""
        return self.whole.capture

    @capture.setter
    def capture(self, state_of_run: Callable[[], State | None]) -> None:
        def captured() -> State | None:
            state = state_of_run()
            more = {"phase": self.phase, "results": self.phases.results}
            return None if state is None else ({**state[0], **more}, state[1])

        self.whole.capture = captured

    def find(self, identity: dict[str, Any]) -> State | None:
        """Return the newest state if it belongs to this run."""
        found = self.phases.found
        return found if found is not None and found[0].get("phase") == self.phase else None

    def is_due(self, seconds: float | None = None) -> bool:
        """Return whether it is time to write the next state."""
        return self.whole.is_due(seconds)

    def write(self, finished: bool = False) -> str | None:
        """Write the current state."""
        return self.whole.write(finished and self.is_last)
