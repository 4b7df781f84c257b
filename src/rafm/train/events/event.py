"""Base class of events."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self


@dataclass(frozen=True)
class Event:
    """Something that happened in training.

    kind: its name in records. level: of Python's log, None if it is not logged. begins_table: whether epochs that
    follow have a heading of their own. candidate: the model that is tried, empty for the one that is trained last.
    """

    kind: ClassVar[str] = ""
    level: ClassVar[int | None] = None
    begins_table: ClassVar[bool] = False
    candidate: str = field(default="", kw_only=True, compare=False)

    def lines(self) -> list[str]:
        """Return the lines for people."""
        return []

    def values(self) -> dict[str, Any]:
        """Return what the record holds besides the kind."""
        return {name: value for name, value in vars(self).items() if name != "candidate"}

    def record(self) -> dict[str, Any]:
        """Return the event as a JSON-compatible dict.

        >>> from rafm.train.events import PieceFinished
        >>> PieceFinished(2, 65536, 100_000, 0.4, seconds=0.5).record()["rows_per_second"]
        131072.0
        """
        told = {"candidate": self.candidate} if self.candidate else {}
        return {"event": self.kind, **told, **self.values()}

    def of(self, candidate: str) -> Self:
        """Return the event as one of a candidate."""
        return replace(self, candidate=candidate)
