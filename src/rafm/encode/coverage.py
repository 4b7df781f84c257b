"""How many of the values in encoded tables were known from training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

MOSTLY = 0.5  # a column with so many unseen values is warned of


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

    def report(self) -> dict[str, dict[str, float]]:
        """Return the counts of every column and its share of unseen values, as JSON has them."""
        return {
            name: {**tally._asdict(), "unseen": tally.unseen, "unseen_share": 1 - tally.share}
            for name, tally in self.columns.items()
        }

    def notes(self) -> list[str]:
        """Return what a reader should know: which columns have unseen values, and a warning of those that mostly do.

        >>> coverage = Coverage()
        >>> coverage.add("city", np.array([4, 1, 0, 0]))
        >>> for line in coverage.notes():
        ...     print(line)
        not seen in training: city 75.0 % (3 of 4)
        warning: most values of column 'city' were never seen in training; is it written as it was there?
        """
        unseen = {name: tally for name, tally in self.columns.items() if tally.unseen}
        shares = [f"{name} {1 - tally.share:.1%} ({tally.unseen} of {tally.seen})" for name, tally in unseen.items()]
        told = [f"not seen in training: {', '.join(shares).replace('%', ' %')}"] if unseen else []
        return told + [
            f"warning: most values of column {name!r} were never seen in training; is it written as it was there?"
            for name, tally in unseen.items()
            if 1 - tally.share > MOSTLY
        ]

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("column", *Tally._fields, "unseen")]
        rows += [(name, *map(str, tally), str(tally.unseen)) for name, tally in self.columns.items()]
        widths = [max(map(len, cells)) for cells in zip(*rows)]
        return "\n".join("   ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)
