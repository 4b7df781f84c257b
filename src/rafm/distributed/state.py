"""What the driver keeps: position, bias, field weights; everything else is at the shards."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..train.course import Course
from ..train.steps.average import HALF


@dataclass(frozen=True)
class ClusterPosition(Course):
    """Where training is: everything but parameters that determines what comes next.

    steps: finished in all; first: of them, those before this epoch. row_sum: sum of the numbers of this epoch's rows so
    far, which tells with `rows` whether each was used once; last_rows, last_row_sum: of the last epoch.
    """

    steps: int = 0
    first: int = 0
    row_sum: int = 0
    last_rows: int = 0
    last_row_sum: int = 0


@dataclass(frozen=True)
class Common:
    """Parameters that all rows share: bias with its states and the number of steps, and field weights with states."""

    bias: np.ndarray
    fields: np.ndarray | None = None

    def half_way_to(self, other: Common) -> Common:
        """Return the mean of both."""
        fields = None if self.fields is None or other.fields is None else (self.fields + other.fields) * HALF
        return Common((self.bias + other.bias) * HALF, fields)

    def plain(self) -> dict[str, Any]:
        """Return the same as lists of numbers, without loss."""
        return {"bias": self.bias.tolist(), "fields": None if self.fields is None else self.fields.tolist()}

    @classmethod
    def of(cls, found: dict[str, Any] | None) -> Common | None:
        """Return what `plain` wrote."""
        if found is None:
            return None
        fields = None if found["fields"] is None else np.array(found["fields"], np.float32)
        return cls(np.array(found["bias"], np.float32), fields)


@dataclass(frozen=True)
class State:
    """Position, parameters, their average over epochs, and the best ones."""

    at: ClusterPosition
    common: Common
    average: Common | None = None
    best: Common | None = None

    @property
    def evaluated(self) -> Common:
        """What is evaluated and kept: the average, if there is one."""
        return self.common if self.average is None else self.average

    def finish_epoch(self, averages: bool) -> State:
        """Take the current parameters into the average."""
        if not averages:
            return self
        return replace(self, average=self.common if self.average is None else self.average.half_way_to(self.common))

    def plain(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        named = {"common": self.common, "average": self.average, "best": self.best}
        return {"position": asdict(self.at), **{name: one and one.plain() for name, one in named.items()}}

    @classmethod
    def of(cls, found: dict[str, Any]) -> State:
        """Return what `plain` wrote."""
        common = Common.of(found["common"])
        assert common is not None
        return cls(ClusterPosition(**found["position"]), common, Common.of(found["average"]), Common.of(found["best"]))
