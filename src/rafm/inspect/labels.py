"""Statistics of labels: classes or numbers, counts, mean and standard deviation."""

from __future__ import annotations

from typing import Any

import numpy as np

MAX_CLASSES = 20  # distinct labels that are counted separately
CLASSES = ({0.0, 1.0}, {-1.0, 1.0})


class Labels:
    """Accumulates weighted statistics of labels, block by block.

    >>> labels = Labels()
    >>> labels.add(np.array([0.0, 1.0, 0.0, 0.0]), np.ones(4))
    >>> labels.is_binary, labels.mean
    (True, 0.25)
    """

    def __init__(self) -> None:
        self.rows, self.weight, self.mean, self._deviation = 0, 0.0, 0.0, 0.0
        self.low, self.high = np.inf, -np.inf
        self.counts: dict[float, int] | None = {}
        self.held_out: Labels | None = None

    def add(self, labels: np.ndarray, weights: np.ndarray, held_out: np.ndarray | None = None) -> None:
        """Add the labels of a block; held_out: rows whose statistics are also kept separately."""
        if held_out is not None:
            self.held_out = self.held_out or Labels()
            self.held_out.add(labels[held_out], weights[held_out])
        self.rows += labels.size
        if (own := float(weights.sum())) <= 0:
            return
        # Merging means and squared deviations (Chan et al.) stays precise for large labels; sums of squares do not.
        center = float(np.average(labels, weights=weights))
        shift, self.weight = center - self.mean, self.weight + own
        spread = shift**2 * own * (self.weight - own) / self.weight
        self._deviation += float(weights @ (labels - center) ** 2) + spread
        self.mean += shift * own / self.weight
        self.low, self.high = min(self.low, float(labels.min())), max(self.high, float(labels.max()))
        if self.counts is not None:
            self._count(labels)

    def _count(self, labels: np.ndarray) -> None:
        found, counts = np.unique(labels, return_counts=True)
        total = self.counts or {}
        for label, count in zip(found.tolist()[: MAX_CLASSES + 1], counts.tolist()):  # one more tells "too many"
            total[label] = total.get(label, 0) + count
        self.counts = total if len(total) <= MAX_CLASSES else None

    @property
    def spread(self) -> float:
        """Standard deviation."""
        return float(np.sqrt(self._deviation / self.weight)) if self.weight else 0.0

    @property
    def is_binary(self) -> bool:
        """Whether all labels are 0 and 1, or -1 and 1."""
        return bool(self.counts) and any(set(self.counts or ()) <= kind for kind in CLASSES)

    @property
    def are_mixed(self) -> bool:
        """Whether the labels mix the two conventions, 0 and 1 with -1 and 1."""
        return set(self.counts or ()) == {-1.0, 0.0, 1.0}

    def report(self) -> dict[str, Any]:
        """Return the statistics for JSON."""
        if not self.weight:
            return {}
        return {
            "mean": self.mean,
            "std": self.spread,
            "min": self.low,
            "max": self.high,
            "counts": None if self.counts is None else {f"{k:g}": n for k, n in sorted(self.counts.items())},
        }
