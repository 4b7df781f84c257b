"""Recall@20 of recommendations: rows are contexts, scores their values."""

from __future__ import annotations

from .ndcg import Ndcg


class Recall(Ndcg):
    """Mean over contexts of the recall of the 20 best items, see top_items.py."""

    heading = "recall@20"
