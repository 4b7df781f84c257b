"""What is in a data file: rows, labels, and how often features occur."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .batch import check_batch, count_features
from .data import open_rows
from .files import PathLike

BINS = (1, 3, 9, 33, 129, 513, 2049, 8193)  # lower ends, as in the paper's first figure
COMMON_RANKS = (8, 32, 128, 512)


@dataclass(frozen=True)
class Survey:
    """Totals of a file. counts holds how often each feature occurs, for those that do."""

    rows: int
    nonzeros: int
    largest_id: int
    counts: np.ndarray
    label_mean: float
    label_range: tuple[float, float]

    def histogram(self) -> list[tuple[str, int, float]]:
        """Return per range of counts its name, the number of features and their share of all nonzeros."""
        lines = []
        for low, high in zip(BINS, (*BINS[1:], None)):
            inside = (self.counts >= low) & (self.counts < (high or np.inf))
            name = f"{low}-{high - 1}" if high else f"{low}-"
            lines.append((name, int(inside.sum()), float(self.counts[inside].sum() / max(self.counts.sum(), 1))))
        return lines

    def report(self) -> dict[str, Any]:
        """Return the totals as plain values."""
        return {
            "rows": self.rows,
            "nonzeros": self.nonzeros,
            "per_row": round(self.nonzeros / max(self.rows, 1), 2),
            "features": int(self.counts.size),
            "largest_id": self.largest_id,
            "label_mean": round(self.label_mean, 6),
            "label_range": list(self.label_range),
            "frequencies": [
                {"seen": name, "features": size, "share_of_nonzeros": share} for name, size, share in self.histogram()
            ],
        }


def survey(path: PathLike, *, task: str, **options: Any) -> Survey:
    """Read a file once, batch by batch, and add up what is in it."""
    ids, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    rows, nonzeros, total, low, high = 0, 0, 0.0, np.inf, -np.inf
    for batch in open_rows(path, task=task, **options):
        batch = check_batch(batch)
        more_ids, more_counts = count_features(batch)
        ids, inverse = np.unique(np.concatenate([ids, more_ids]), return_inverse=True)
        counts = np.bincount(inverse, np.concatenate([counts, more_counts]), ids.size).astype(np.int64)
        rows, nonzeros = rows + batch.n_rows, nonzeros + int(more_counts.sum())
        if batch.labels is not None and batch.n_rows:
            total += float(batch.labels.sum(dtype=float))
            low, high = min(low, float(batch.labels.min())), max(high, float(batch.labels.max()))
    span = (low, high) if rows else (0.0, 0.0)
    return Survey(rows, nonzeros, int(ids.max(initial=-1)), counts, total / max(rows, 1), span)


def suggest_ranks(counts: np.ndarray, least: int = 16) -> tuple[int, ...]:
    """Return those of the common ranks that at least so many features would get; at least the lowest.

    >>> suggest_ranks(np.repeat([2, 40], [1000, 50]))
    (8, 32)
    """
    lowest, *others = COMMON_RANKS
    return (lowest, *(rank for rank in others if (counts >= rank / 2).sum() >= least))
