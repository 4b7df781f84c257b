"""Statistics of labels: classes or numbers, counts, mean and standard deviation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..rows.classes import BinaryLabels, key_of, shown

MAX_CLASSES = 20  # distinct labels that are counted separately
MAX_WORDS = 1000  # further words share one number


class Labels:
    """Accumulates weighted statistics of labels, block by block; words are numbered as they come.

    are_numbers: whether two different labels are two numbers, rather than two classes.

    >>> labels = Labels()
    >>> labels.add(np.array([0.0, 1.0, 0.0, 0.0]), np.ones(4))
    >>> labels.is_binary, labels.mean
    (True, 0.25)
    """

    def __init__(self, are_numbers: bool = False) -> None:
        self.are_numbers = are_numbers
        self.words: dict[str, float] = {}
        self.stored: list[Any] | None = None  # the labels that stand behind 0 and 1 in a converted file
        self.rows, self.weight, self.mean, self._deviation = 0, 0.0, 0.0, 0.0
        self.low, self.high = np.inf, -np.inf
        self.counts: dict[float, int] | None = {}
        self.held_out: Labels | None = None

    def numbered(self, labels: np.ndarray) -> np.ndarray:
        """Return labels as numbers: words by the order in which they first occur."""
        if labels.dtype != object:
            return labels.astype(np.float64)
        words, places = np.unique(labels.astype(str), return_inverse=True)
        new = [word for word in dict.fromkeys(labels[: 10 * MAX_WORDS].tolist()) if word not in self.words]
        for word in (*new, *words.tolist()):
            self.words.setdefault(word, float(min(len(self.words), MAX_WORDS)))
        return np.array([self.words[word] for word in words.tolist()])[places]

    def add(self, labels: np.ndarray, weights: np.ndarray, held_out: np.ndarray | None = None) -> None:
        """Add the labels of a block; held_out: rows whose statistics are also kept separately."""
        if held_out is not None:
            self.held_out = self.held_out or Labels(self.are_numbers)
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
        """Whether there are two classes, or one of 0 and 1."""
        found = set(self.counts or ())
        return not self.are_numbers and (len(found) == 2 or found <= {0.0, 1.0}) and bool(found)

    @property
    def named(self) -> BinaryLabels:
        """The two labels, as training would decode them."""
        if self.stored is not None:
            return BinaryLabels.known(self.stored)
        found, words = BinaryLabels(), [*self.words]
        for label in self.counts or ():
            found.meet(words[int(label)] if words else label)
        return found

    @property
    def share_of_positive(self) -> float:
        """Weighted share of the positive one of two classes."""
        if self.low == self.high:
            return float(self.high > 0)
        share = (self.mean - self.low) / (self.high - self.low)
        if self.stored is not None:
            return share
        positive = [*self.words][int(self.high)] if self.words else self.high
        return share if key_of(positive) == self.named.positive else 1 - share

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
            "counts": None if self.counts is None else {self._name(k): n for k, n in sorted(self.counts.items())},
        }

    def _name(self, label: float) -> str:
        return [*self.words][int(label)] if self.words else f"{label:g}"

    def text(self) -> str:
        """Return what the labels are, in one line."""
        if self.words and not self.is_binary:
            first = ", ".join(map(shown, [*self.words][:3]))
            return f"{len(self.words)} different words: {first}, ..."
        return f"mean {self.mean:.6g}, std {self.spread:.6g}, from {self.low:g} to {self.high:g}"
