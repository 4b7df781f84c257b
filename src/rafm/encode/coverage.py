"""Count how many values of encoded tables were known from training."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

MAX_UNSEEN_SHARE = 0.5  # above this, a column gets a warning
WORTH_SAYING = 0.05  # share of unseen values in Python, since new users and items are usual; `coverage_` has all counts


class ColumnCounts(NamedTuple):
    """Numbers of values in one column: all; with their own feature; encoded as `<rare>`; missing."""

    seen: int = 0
    known: int = 0
    rare: int = 0
    missing: int = 0

    @property
    def unseen(self) -> int:
        """Values without their own feature: dropped, or encoded as `<rare>`."""
        return self.seen - self.known - self.missing

    @property
    def share(self) -> float:
        """Share of known and missing values; 1 if there are no values."""
        return 1 - self.unseen / self.seen if self.seen else 1.0


@dataclass
class Coverage:
    """Counts the values seen by `TableEncoder.encode`; pass the same object to several calls to sum over them.

    >>> coverage = Coverage()
    >>> coverage.add("city", np.array([4, 3, 0, 0]))
    >>> coverage["city"].share
    0.75
    >>> print(coverage)
    column   seen   known   rare   missing   unseen
    city        4       3      0         0        1
    """

    columns: dict[str, ColumnCounts] = field(default_factory=dict)
    n_ids: int = 0  # of rows without columns: nonzeros that were looked up, and those whose id was not known
    n_unknown_ids: int = 0

    def add_ids(self, is_known: np.ndarray) -> None:
        """Add nonzeros of rows of ids: whether each id was known."""
        self.n_ids += is_known.size
        self.n_unknown_ids += int(is_known.size - np.count_nonzero(is_known))

    def add(self, name: str, counts: np.ndarray) -> None:
        """Add counts of seen, known, rare and missing values."""
        self.columns[name] = ColumnCounts(*(a + int(b) for a, b in zip(self[name], counts)))

    def __getitem__(self, name: str) -> ColumnCounts:
        return self.columns.get(name, ColumnCounts())

    @property
    def total(self) -> ColumnCounts:
        """The sum over all columns."""
        return (
            ColumnCounts(*(sum(counts) for counts in zip(*self.columns.values()))) if self.columns else ColumnCounts()
        )

    def report(self) -> dict[str, dict[str, float]]:
        """Return the counts and the share of unseen values per column, for JSON."""
        return {
            name: {**counts._asdict(), "unseen": counts.unseen, "unseen_share": 1 - counts.share}
            for name, counts in self.columns.items()
        }

    def surprising(self) -> Coverage:
        """Return the columns of which a share that is worth saying was not seen in training.

        Values that share <rare> are no surprise, as training had rare ones too, unless most values are unseen.
        """
        chosen = {
            name: counts
            for name, counts in self.columns.items()
            if counts.unseen - counts.rare >= WORTH_SAYING * max(counts.seen, 1) or 1 - counts.share > MAX_UNSEEN_SHARE
        }
        return Coverage(chosen)

    def notes(self) -> list[str]:
        """Return messages about columns with unseen values, and warnings for those that are mostly unseen.

        >>> coverage = Coverage()
        >>> coverage.add("city", np.array([4, 1, 0, 0]))
        >>> for line in coverage.notes():
        ...     print(line)
        not seen in training: city 75.0 % (3 of 4)
        warning: most values of column 'city' were never seen in training; check its format
        """
        unseen = {name: counts for name, counts in self.columns.items() if counts.unseen}
        shares = [
            f"{name} {1 - counts.share:.1%} ({counts.unseen} of {counts.seen})" for name, counts in unseen.items()
        ]
        notes = [f"not seen in training: {', '.join(shares).replace('%', ' %')}"] if unseen else []
        return notes + [f"warning: {text}" for text in self.warnings()]

    def warnings(self) -> list[str]:
        """Return a message for each column that is mostly unseen, and one for ids that are.

        >>> coverage = Coverage()
        >>> coverage.add_ids(np.array([False, False, True]))
        >>> coverage.warnings()
        ['most ids (66.7 %) were never seen in training; check how they are numbered']
        """
        found = [
            f"most values of column {name!r} were never seen in training; check its format"
            for name, counts in self.columns.items()
            if 1 - counts.share > MAX_UNSEEN_SHARE
        ]
        share = self.n_unknown_ids / max(self.n_ids, 1)
        numbers = f"most ids ({share:.1%}) were never seen in training; check how they are numbered"
        return [*found, numbers.replace("%", " %")] if share > MAX_UNSEEN_SHARE else found

    def __str__(self) -> str:
        rows: list[tuple[str, ...]] = [("column", *ColumnCounts._fields, "unseen")]
        rows += [(name, *map(str, counts), str(counts.unseen)) for name, counts in self.columns.items()]
        widths = [max(map(len, cells)) for cells in zip(*rows)]
        return "\n".join("   ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows)
