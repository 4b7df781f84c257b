"""How many of the values in encoded tables were known from training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


class Tally(NamedTuple):
    """Values of one column: seen; of them known by a feature of their own; sharing `<rare>`; missing."""

    seen: int = 0
    known: int = 0
    rare: int = 0
    missing: int = 0

    @property
    def unseen(self) -> int:
        """Values that were left out of their rows, or would have been if rare ones did not share a feature."""
        return self.seen - self.known - self.missing

    @property
    def share(self) -> float:
        """Known and missing values as a share of all; 1 if there are none."""
        return 1 - self.unseen / self.seen if self.seen else 1.0


@dataclass
class Coverage:
    """Adds up what `TableEncoder.encode` meets; give the same one to several calls to sum over them.

    >>> coverage = Coverage()
    >>> coverage.add("city", np.array([4, 3, 0, 0]))
    >>> coverage["city"].share
    0.75
    >>> print(coverage)
    column   seen   known   rare   missing   unseen
    city        4       3      0         0        1
    """

    columns: dict[str, Tally] = field(default_factory=dict)

    def add(self, name: str, tally: np.ndarray) -> None:
        """Add counts of seen, known, rare and missing values."""
        self.columns[name] = Tally(*(a + int(b) for a, b in zip(self[name], tally)))

    def __getitem__(self, name: str) -> Tally:
        return self.columns.get(name, Tally())

    @property
    def total(self) -> Tally:
        """The sum over all columns."""
        return Tally(*(sum(counts) for counts in zip(*self.columns.values()))) if self.columns else Tally()

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("column", *Tally._fields, "unseen")]
        rows += [(name, *map(str, tally), str(tally.unseen)) for name, tally in self.columns.items()]
        widths = [max(map(len, cells)) for cells in zip(*rows)]
        return "\n".join("   ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)
