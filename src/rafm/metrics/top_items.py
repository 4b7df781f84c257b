"""Metrics of ranked lists: how many of the relevant items are among the best k, and how high."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NAMES = ("precision", "recall", "ndcg", "map", "mrr", "hit_rate")


class TopItems:
    """Means over contexts of the metrics at several k; contexts are added block by block.

    With relevant items R and the k best items L: precision |L & R| / k; recall |L & R| / |R|; NDCG, the sum of
    1 / log2(1 + rank) over hits, divided by its largest value; MAP, the mean over the first min(k, |R|) places of the
    precision at each hit; MRR, 1 / rank of the first hit; hit rate, whether there is one. Coverage is the share of the
    catalogue that is among the best k of any context.
    """

    def __init__(self, at: Sequence[int], n_items: int):
        self.at, self.n_items, self.contexts = sorted(set(at)), n_items, 0
        self.sums = {k: dict.fromkeys(NAMES, 0.0) for k in self.at}
        self.chosen = {k: np.zeros(n_items, bool) for k in self.at}

    def add(self, items: np.ndarray, hits: np.ndarray, n_relevant: np.ndarray) -> None:
        """Add contexts: their best items (-1 for none), which of them are relevant, and how many are in all."""
        self.contexts += len(items)
        for k in self.at:
            best, own = items[:, :k], hits[:, :k]
            self.chosen[k][best[best >= 0]] = True
            for name, value in values_at(own, n_relevant, k).items():
                self.sums[k][name] += float(value.sum())

    def values(self) -> dict[str, float]:
        """Return the means by name, such as recall@20."""
        n = max(self.contexts, 1)
        found = {f"{name}@{k}": sums[name] / n for k, sums in self.sums.items() for name in NAMES}
        return found | {f"coverage@{k}": float(chosen.mean()) for k, chosen in self.chosen.items()}


def values_at(hits: np.ndarray, n_relevant: np.ndarray, k: int) -> dict[str, np.ndarray]:
    """Return the metrics of each context; hits: whether the item at each of the first k places is relevant.

    >>> found = values_at(np.array([[False, True, False]]), np.array([2]), 3)
    >>> {name: round(float(value[0]), 3) for name, value in found.items()}
    {'precision': 0.333, 'recall': 0.5, 'ndcg': 0.387, 'map': 0.25, 'mrr': 0.5, 'hit_rate': 1.0}
    """
    places = np.arange(1, hits.shape[1] + 1)
    discounts = 1 / np.log2(1 + np.arange(1, k + 1))
    reachable = np.minimum(n_relevant, k)  # a list of k cannot have more hits
    found, ideal = np.cumsum(hits, axis=1), np.concatenate([[0.0], np.cumsum(discounts)])
    any_hit = hits.any(axis=1)
    return {
        "precision": hits.sum(axis=1) / k,
        "recall": hits.sum(axis=1) / n_relevant,
        "ndcg": (hits * discounts[: hits.shape[1]]).sum(axis=1) / ideal[reachable],
        "map": (hits * found / places).sum(axis=1) / reachable,
        "mrr": np.where(any_hit, 1 / (1 + np.argmax(hits, axis=1)), 0.0),
        "hit_rate": any_hit.astype(float),
    }
